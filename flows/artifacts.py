"""What a build shows of itself on a Prefect server, made from its manifest alone.

A table for every step, a Markdown page for a finished build, and one for a build that stopped.
Nothing here talks to a server.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from curate.pipelines.markdown import inline, table
from curate.pipelines.report_figures import facts
from curate.pipelines.step import Metric

#: The flow's name, and what all its artifacts' keys begin with.
FLOW = "curate-build"
Record = Mapping[str, Any]
_COUNTS = (("rows in", "rows_in"), ("made", "made"), ("rows out", "rows_out"),
           ("rejected", "rejected"))  # fmt: skip
_REASONS = 50
_VALUE = 300
_FILES = ("README.md", "report.html", "shards", "rejected.parquet", "manifest.json")


def artifact_key(*parts: str) -> str:
    """A key as Prefect takes them: lower-case letters, digits and dashes.

    >>> artifact_key("curate-build", "My_step 2")
    'curate-build-my-step-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


def step_table(record: Record) -> list[dict[str, str | int | float]]:
    """A step's figures, one a row: counts, rejects by reason, time, and its own metrics.

    Args:
        record: the step's entry in the manifest.
    """
    rows: list[tuple[str, object]] = [(label, record[key]) for label, key in _COUNTS]
    rows += [(f"rejected: {reason}", n) for reason, n in _reasons(record["rejected_by_reason"])]
    rows += [("seconds", record["seconds"]), ("reused", record["reused"])]
    rows += facts(record["metrics"])
    return [{"figure": inline(name, _VALUE), "value": _value(value)} for name, value in rows]


def build_markdown(manifest: Mapping[str, Metric], out: Path) -> str:
    """A finished build: how each prompt came to be, pass rates, cost, policy, and its files.

    Args:
        manifest: of the build.
        out: build directory.
    """
    summary = cast(dict[str, Any], manifest["summary"])
    steps = cast("list[dict[str, Any]]", manifest["steps"])
    sources = cast("list[dict[str, Any]]", manifest["sources"])
    parts = [
        f"# {inline(out.resolve().name)}",
        f"{summary['rows_out']:,} prompts from {summary['rows_in']:,} rows of "
        f"{inline(', '.join(str(each['name']) for each in sources))}, "
        f"recipe {inline(cast(dict[str, Any], manifest['recipe'])['name'])}, "
        f"seed {inline(manifest['seed'])}.",
        *([] if summary["rows_out"] else [_emptied(steps)]),
        "## Steps",
        _funnel(steps),
        *(_pass_rates(summary) if "before" in summary else []),
        "## Cost",
        table(("figure", "value"), _cost(summary)),
        *_policy(cast("dict[str, Any] | None", manifest["policy"])),
        "## Files",
        "\n".join(
            f"- {inline((out / name).resolve())}" for name in _FILES if (out / name).exists()
        ),
    ]
    return "\n\n".join(parts) + "\n"


def failure_markdown(where: str, error: str, finished: list[str], out: Path) -> str:
    """Why a build stopped, and how to go on.

    Args:
        where: the step it was at.
        error: what went wrong.
        finished: names of the steps that are done.
        out: build directory.
    """
    done = ", ".join(inline(name) for name in finished)
    kept = (
        f"What is finished ({done}) is kept in {inline(out.resolve())}, and completions in the "
        "cache: run the same command again and the build goes on from here."
        if finished
        else "No step had finished. Put it right and run the same command again."
    )
    return "\n\n".join(
        [
            f"# Stopped at {inline(where)}",
            f"**Why:** {inline(error, 2000)}",
            f"**How to go on:** {kept}",
            "The logs of this run tell more.",
        ]
    )


def step_line(record: Record) -> str:
    """A finished step in one line.

    >>> step_line({"name": "check", "rows_in": 3, "made": 0, "rows_out": 2, "rejected": 1,
    ...            "rejected_by_reason": {"no_gold": 1}, "seconds": 0.25, "reused": False})
    'check: 3 in + 0 made = 2 kept + 1 rejected (no_gold 1) in 0.2 s'
    """
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in _reasons(record["rejected_by_reason"]))
    return (
        f"{record['name']}: {record['rows_in']:,} in + {record['made']:,} made = "
        f"{record['rows_out']:,} kept + {record['rejected']:,} rejected"
        f"{f' ({reasons})' if reasons else ''}"
        f"{', reused' if record['reused'] else ' in ' + format(record['seconds'], '.1f') + ' s'}"
    )


def _funnel(steps: list[dict[str, Any]]) -> str:
    header = ("step", *(label for label, _ in _COUNTS), "seconds", "rejected because")
    return table(
        header,
        (
            (
                step["name"],
                *(step[key] for _, key in _COUNTS),
                "reused" if step["reused"] else f"{step['seconds']:.1f}",
                ", ".join(f"{reason} {n:,}" for reason, n in _reasons(step["rejected_by_reason"])),
            )
            for step in steps
        ),
        text=("rejected because",),
    )


def _pass_rates(summary: Record) -> list[str]:
    before, after = summary["before"], summary["after"]
    figures = [
        (label, before[key], after[key])
        for label, key in (
            ("prompts", "prompts"),
            ("at the frontier", "frontier_prompts"),
            ("frontier share", "frontier_share"),
            ("mean pass rate", "mean_p_hat"),
            ("mean chance of a mixed group", "mean_q_hat"),
        )
    ]
    first, last = before["p_hat_histogram"], after["p_hat_histogram"]
    bins = len(first) or len(last)
    figures += [
        (
            f"pass rate {i / bins:.1f} – {(i + 1) / bins:.1f}",
            first[i] if first else 0,
            last[i] if last else 0,
        )
        for i in range(bins)
    ]
    return ["## Pass rate", table(("figure", "as measured", "this pool"), figures)]


def _cost(summary: Record) -> list[tuple[str, object]]:
    cost: list[tuple[str, object]] = []
    if "rollouts" in summary:
        per = summary["rollouts_per_frontier_prompt"]
        cost += [
            ("rollouts", summary["rollouts"]),
            ("rollouts per frontier prompt", None if per is None else f"{per:.1f}"),
            ("tokens", summary["tokens"]),
        ]
    return [*cost, ("seconds", f"{summary['seconds']:.1f}")]


def _policy(policy: Record | None) -> list[str]:
    if policy is None:
        return []
    return ["## Policy", table(("", "value"), policy.items())]


def _emptied(steps: list[dict[str, Any]]) -> str:
    last = max(steps, key=lambda step: int(step["rejected"]), default=None)
    by = f": {inline(last['name'])} rejected {last['rejected']:,}" if last else ""
    return f"**No prompt is left{by}.**"


def _reasons(by_reason: Mapping[str, int]) -> list[tuple[str, int]]:
    """Reasons, the commonest first; what is past the longest list worth reading as one."""
    ordered = sorted(by_reason.items(), key=lambda item: (-item[1], item[0]))
    rest = ordered[_REASONS:]
    more = [(f"{len(rest):,} other reasons", sum(n for _, n in rest))] if rest else []
    return [*ordered[:_REASONS], *more]


def _value(value: object) -> str | int | float:
    """A figure as JSON on every server: no NaN, infinity or null; text, which is Markdown there."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return round(value, 6)
    return "–" if value is None else inline(value, _VALUE)
