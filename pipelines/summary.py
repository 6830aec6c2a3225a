"""The figures every build reports: rows, rejects, frontier share before and after, cost."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import polars as pl

from curate.pipelines.ledger import SAMPLED
from curate.pipelines.measure import frontier, frontier_share, unmeasured
from curate.pipelines.step import Metric
from curate.pipelines.store import PoolRef


def summarise(
    refs: list[PoolRef], records: list[dict[str, Metric]], seconds: float
) -> dict[str, Metric]:
    """Totals of the steps so far.

    Args:
        refs: artifacts in order.
        records: their manifest entries, in the same order.
        seconds: wall time of this run.
    """
    reasons: Counter[str] = Counter()
    for record in records:
        reasons.update(cast(dict[str, int], record["rejected_by_reason"]))
    summary: dict[str, Metric] = {
        "rows_in": records[0]["rows_in"] if records else 0,
        "rows_out": records[-1]["rows_out"] if records else 0,
        "rejected": sum(reasons.values()),
        "rejected_by_reason": dict(reasons.most_common()),
        "seconds": round(seconds, 3),
    }
    measured = [
        (ref, record) for ref, record in zip(refs, records, strict=True)
        if record["name"] == "measure"
    ]  # fmt: skip
    if measured:
        before, after = measured[0][0], refs[-1]
        spent = _spent(measured)
        last = figures(after)
        prompts = int(cast(int, last["frontier_prompts"]))
        summary |= {
            "before": figures(before),
            "after": last,
            **spent,
            "rollouts_per_frontier_prompt": spent["rollouts"] / prompts if prompts else None,
        }
    return summary


def _spent(measured: list[tuple[PoolRef, dict[str, Metric]]]) -> dict[str, Any]:
    """Rollouts and tokens of the policy over all measuring steps, each draw counted once.

    A later step that measures some of the prompts further takes the earlier one's draws first.
    """
    metrics = cast(dict[str, Any], measured[0][1]["metrics"])
    draws = (
        pl.concat([pl.read_parquet(ref.path / "pass_rates.parquet") for ref, _ in measured])
        .filter(policy=metrics["policy"], revision=metrics["revision"])
        .sort("attempts")
        .unique(["prompt_id", *SAMPLED], keep="last", maintain_order=True)
    )
    tokens = draws.select((pl.col("attempts") * pl.col("mean_tokens")).round()).to_series()
    # Of imported rollouts nobody may know.
    known = tokens.count() or not len(draws)
    return {
        "rollouts": int(draws["attempts"].sum()),
        "tokens": int(tokens.sum()) if known else None,
    }


def step_record(manifest: Mapping[str, Metric], name: str) -> dict[str, Any] | None:
    """The entry of the first step of this name in a manifest, or None."""
    steps = cast("list[dict[str, Any]]", manifest["steps"])
    return next((step for step in steps if step["name"] == name), None)


def figures(ref: PoolRef) -> dict[str, Metric]:
    """How much of one pool is at the policy's frontier."""
    columns = ["attempts", "errors", "successes", "p_hat", "q_hat"]
    frame = pl.read_parquet(ref.path / "part-00000.parquet", columns=columns)
    mixed = int(frame.select(frontier().sum()).item()) if len(frame) else 0
    histogram = (
        frame["p_hat"].drop_nulls().hist([i / 10 for i in range(11)], include_breakpoint=False)
    )
    return {
        "prompts": len(frame),
        "frontier_prompts": mixed,
        "unmeasured": frame.select(unmeasured()).item(),
        "frontier_share": frame.select(frontier_share()).item(),
        "mean_p_hat": cast(float | None, frame["p_hat"].mean()),
        "mean_q_hat": cast(float | None, frame["q_hat"].mean()),
        "p_hat_histogram": cast(Metric, histogram["count"].to_list()) if len(frame) else [],
    }
