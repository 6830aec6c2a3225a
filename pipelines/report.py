"""report.html: one self-contained page about a build. Everything from data is escaped."""

from pathlib import Path
from typing import Any, cast

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined

from curate.pipelines.files import write_bytes
from curate.pipelines.ledger import Ledger
from curate.pipelines.pool import REJECT_SCHEMA, read_parquet
from curate.pipelines.show import last_pool, share
from curate.pipelines.step import Metric, rng

N_SAMPLE = 40
N_REJECTED = 40


def write_report(build: Path, manifest: dict[str, Metric]) -> Path:
    """Write ``report.html`` and return its path."""
    summary = {"before": None, "after": None, **cast("dict[str, Any]", manifest["summary"])}
    steps = {str(step["name"]): step for step in cast("list[dict[str, Any]]", manifest["steps"])}
    rejected = read_parquet(build / "rejected.parquet", REJECT_SCHEMA, "rejected")
    environment = Environment(
        loader=PackageLoader("curate.data_cards", ""), autoescape=True, undefined=StrictUndefined
    )
    text = environment.get_template("report.html.jinja").render(
        title=build.resolve().name,
        m=manifest,
        s=summary,
        share=share,
        bars=_bars(summary),
        stages=steps["order"]["metrics"]["stages"] if "order" in steps else [],
        sample=_sample(build),
        rejected=_spread(rejected).to_dicts(),
        n_rejected=len(rejected),
    )
    path = build / "report.html"
    write_bytes(path, text.encode())
    return path


def _bars(summary: dict[str, Any]) -> list[dict[str, Any]]:
    if not summary["before"] or not summary["before"]["p_hat_histogram"]:
        return []
    before = summary["before"]["p_hat_histogram"]
    after = summary["after"]["p_hat_histogram"] or [0] * 10
    top = max(*before, *after, 1)
    return [
        {
            "x": 10 + 62 * i,
            "label": f"{i / 10:.1f}–{(i + 1) / 10:.1f}",
            "before": before[i],
            "after": after[i],
            "before_h": round(170 * before[i] / top, 1),
            "after_h": round(170 * after[i] / top, 1),
        }
        for i in range(10)
    ]


def _sample(build: Path) -> list[dict[str, Any]]:
    frame = last_pool(build)
    order = rng(0, "report").permutation(len(frame))[:N_SAMPLE]
    chosen = frame[sorted(order.tolist())] if len(frame) else frame
    rollouts = (
        Ledger(build / "rollouts").scan()
        .filter(pl.col("prompt_id").is_in(chosen["id"].implode()))
        .select("prompt_id", "sample", "verdict", "response")
        .collect()
    )  # fmt: skip
    return [
        {
            **row,
            "rollouts": rollouts.filter(pl.col("prompt_id") == row["id"]).sort("sample").to_dicts(),
        }
        for row in chosen.to_dicts()
    ]


def _spread(rejected: pl.DataFrame) -> pl.DataFrame:
    """A few of every reason rather than many of the first."""
    each = pl.int_range(pl.len()).over("step", "reason")
    return rejected.filter(each < 8).head(N_REJECTED)
