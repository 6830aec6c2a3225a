"""What a person sees of a build: the closing table, and records whole."""

import json
import re
from pathlib import Path
from typing import Any, cast

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from curate.pipelines.errors import ConfigError
from curate.pipelines.leaks import OFF, is_off
from curate.pipelines.pool import PROMPT_SCHEMA, REJECT_SCHEMA, read_parquet
from curate.pipelines.step import Metric, rng
from curate.pipelines.store import judged_rollouts, read_manifest
from curate.pipelines.summary import step_record

Manifest = dict[str, Any]


def closing_table(manifest: dict[str, Metric], out: Path, console: Console) -> None:
    """The figures a build ends with, and where its files are."""
    summary = cast(Manifest, manifest["summary"])
    console.print(_steps_table(cast("list[Manifest]", manifest["steps"])))
    console.print(_figures_table(summary))
    measured = step_record(manifest, "measure")
    if measured and measured["metrics"].get("policies"):
        console.print(_policies_table(measured["metrics"]["policies"]))
    if measured and "imported" in measured["metrics"]:
        folder = out / "steps" / measured["artifact"]
        console.print(_imported(measured["metrics"]["imported"], folder), soft_wrap=True)
    if not summary["rows_out"] and manifest["steps"]:
        console.print(_nothing_left(cast("list[Manifest]", manifest["steps"])), soft_wrap=True)
    for label, path in (
        ("shards", out / "shards"),
        ("card", out / "README.md"),
        ("report", out / "report.html"),
        ("rejected", out / "rejected.parquet"),
    ):
        if path.exists():
            console.out(f"{label:9} {path}", highlight=False)


def _steps_table(steps: list[Manifest]) -> Table:
    counted = {"rows in": "rows_in", "made": "made", "rejected": "rejected", "rows out": "rows_out"}
    if not any(step["made"] for step in steps):
        del counted["made"]
    table = Table(title="steps", title_justify="left")
    table.add_column("step", no_wrap=True)
    for name in (*counted, "seconds"):
        table.add_column(name, justify="right")
    table.add_column("rejected because", overflow="fold")
    for step in steps:
        reasons = ", ".join(f"{k} {v:,}" for k, v in step["rejected_by_reason"].items())
        seconds = "reused" if step["reused"] else f"{step['seconds']:.1f}"
        counts = [f"{step[key]:,}" for key in counted.values()]
        told = OFF if is_off(step) else reasons
        table.add_row(step["name"], *counts, seconds, escape(told))
    return table


def _nothing_left(steps: list[Manifest]) -> Text:
    """Which step emptied the pool, and what for."""
    last = max(steps, key=lambda step: step["rejected"])
    reasons = ", ".join(f"{name} {n:,}" for name, n in last["rejected_by_reason"].items())
    return Text(
        f"no prompt is left: {last['name']} rejected {last['rejected']:,} ({reasons}); see "
        "`curate inspect BUILD --rejected`, and give it other settings with --set",
        style="bold red",
    )


def _figures_table(summary: Manifest) -> Table:
    table = Table(show_header=False, title="figures", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_row("rows in → out", f"{summary['rows_in']:,} → {summary['rows_out']:,}")
    if "before" in summary:
        before, after = summary["before"], summary["after"]
        for label, key in (("frontier share", "frontier_share"), ("mean q_G", "mean_q_hat"),
                           ("mean pass rate", "mean_p_hat")):  # fmt: skip
            table.add_row(f"{label} before → after", f"{share(before[key])} → {share(after[key])}")
        per = summary["rollouts_per_frontier_prompt"]
        table.add_row("rollouts", f"{summary['rollouts']:,}")
        table.add_row("rollouts per frontier prompt", "–" if per is None else f"{per:.1f}")
        table.add_row("tokens", "–" if summary["tokens"] is None else f"{summary['tokens']:,}")
    table.add_row("seconds", f"{summary['seconds']:.1f}")
    return table


def _policies_table(policies: Manifest) -> Table:
    table = Table(title="policies", title_justify="left")
    table.add_column("policy", overflow="fold")
    for name in ("prompts", "rollouts", "pass rate", "frontier share"):
        table.add_column(name, justify="right")
    for name, told in policies.items():
        counts = (f"{told['prompts']:,}", f"{told['rollouts']:,}")
        table.add_row(
            escape(name), *counts, share(told["pass_rate"]), share(told["frontier_share"])
        )
    if all(told["frontier_share"] is None for told in policies.values()):
        table.caption = "a frontier share takes two rollouts of a prompt"
        table.caption_justify = "left"
    return table


def _imported(told: Manifest, folder: Path) -> Text:
    """What became of imported rollouts, and where those of no use are."""
    line = f"imported rollouts: {told['read']:,} read, {told['used']:,} used"
    if told["unused"]:
        reasons = ", ".join(f"{name} {n:,}" for name, n in told["unused"].items())
        line += f"; unused because {reasons} ({folder / 'unused_rollouts.parquet'})"
    return Text(line)


def share(value: float | None) -> str:
    """A share as text.

    >>> share(0.3333)
    '0.333'
    """
    return "–" if value is None else f"{value:.3f}"


def last_pool(build: Path) -> pl.DataFrame:
    """The pool a build ended with (or got to)."""
    manifest = read_manifest(build)
    steps = cast("list[Manifest]", manifest["steps"])
    if not steps:
        raise ConfigError(f"{build}: no step has finished yet")
    path = build / "steps" / steps[-1]["artifact"] / "part-00000.parquet"
    return read_parquet(path, PROMPT_SCHEMA, "pool")


def show_build(build: Path, console: Console, as_json: bool) -> None:
    """The figures of a build."""
    manifest = read_manifest(build)
    if as_json:
        console.out(json.dumps(manifest, ensure_ascii=False), highlight=False)
        return
    console.out(f"{build}: {manifest['status']}", highlight=False)
    closing_table(manifest, build, console)


def show_prompts(
    build: Path, key: str | None, n: int, seed: int, console: Console, as_json: bool
) -> None:
    """Prompts whole, with parents and rollouts.

    Raises:
        ConfigError: no prompt has this id.
    """
    frame = last_pool(build)
    if key:
        chosen = frame.filter(pl.col("id").str.starts_with(key))
        if chosen.is_empty():
            left = _rejected(build).filter(pl.col("id").str.starts_with(key))
            if len(left):
                _print_rejects(left, console, as_json)
                return
            raise ConfigError(f"{build}: no prompt or reject has an id starting with {key!r}")
    else:
        order = rng(seed, "inspect").permutation(len(frame))[:n]
        chosen = frame[sorted(order.tolist())] if len(frame) else frame
    ids = [*chosen["id"], *chosen["parents"].explode().drop_nulls()]
    parents = {row["id"]: row for row in frame.filter(pl.col("id").is_in(ids)).to_dicts()}
    rollouts = judged_rollouts(build).filter(pl.col("prompt_id").is_in(ids)).collect()
    records = [
        {
            **row,
            "parents": [parents.get(p, {"id": p}) for p in row["parents"]],
            "rollouts": rollouts.filter(pl.col("prompt_id") == row["id"]).sort("sample").to_dicts(),
        }
        for row in chosen.to_dicts()
    ]
    if as_json:
        console.out(json.dumps(records, ensure_ascii=False), highlight=False)
        return
    for record in records:
        _print_record(record, console)


#: Sources and models may write escape sequences; a terminal must not obey them.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _text(text: str, style: str = "") -> Text:
    return Text(_CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text), style=style)


def _print_record(record: Manifest, console: Console) -> None:
    console.rule(_text(record["id"]))
    for name, value in record.items():
        if name in {"id", "rollouts", "parents"} or value in (None, [], "{}"):
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        console.print(Text(f"{name:16} ", style="bold").append(_text(text)), soft_wrap=True)
    for parent in record["parents"]:
        console.print(
            _text(f"parent           {parent['id']} {parent.get('question', '')}"), soft_wrap=True
        )
    for rollout in record["rollouts"]:
        style = {"correct": "green", "incorrect": "red"}.get(rollout["verdict"], "yellow")
        head = (
            f"  #{rollout['sample']} {rollout['policy']} {rollout['verdict']} "
            f"({rollout['reason']}; {rollout['tokens']} tokens, {rollout['finish_reason']})"
        )
        console.print(_text(head, style=style), soft_wrap=True)
        console.print(_text("     " + rollout["response"].replace("\n", "\n     ")), soft_wrap=True)


def show_rejected(build: Path, n: int | None, seed: int, console: Console, as_json: bool) -> None:
    """Rejects by reason, then up to ``n`` of them whole."""
    frame = _rejected(build)
    if n is not None and len(frame) > n:
        order = rng(seed, "inspect").permutation(len(frame))[:n]
        frame = frame[sorted(order.tolist())]
    _print_rejects(frame, console, as_json)


def _rejected(build: Path) -> pl.DataFrame:
    manifest = read_manifest(build)
    steps = cast("list[Manifest]", manifest["steps"])
    folders = [build / "steps" / step["artifact"] / "rejected.parquet" for step in steps]
    frames = [read_parquet(path, REJECT_SCHEMA, "rejected") for path in folders]
    return pl.concat(frames) if frames else pl.DataFrame(schema=REJECT_SCHEMA)


def _print_rejects(frame: pl.DataFrame, console: Console, as_json: bool) -> None:
    if as_json:
        console.out(json.dumps(frame.to_dicts(), ensure_ascii=False), highlight=False)
        return
    for row in frame.iter_rows(named=True):
        field = f" [{row['field']}]" if row["field"] else ""
        head = f"{row['step']}: {row['reason']}{field}  {row['source_id']}"
        console.print(_text(head, style="bold red"), soft_wrap=True)
        console.print(_text(f"  {row['detail']}"), soft_wrap=True)
        console.print(_text(f"  {row['record']}", style="dim"), soft_wrap=True)
    console.print(f"{len(frame):,} rejected", highlight=False)
