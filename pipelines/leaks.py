"""What a build's decontamination compared and found, as its table, data card and report tell it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import polars as pl

from curate.pipelines.decontaminate import REPORT, RULES, Decontaminate
from curate.pipelines.errors import PoolError
from curate.pipelines.step import Metric

Row = dict[str, Any]

#: What the closing table says of a step that was given nothing to compare with.
OFF = "off: no benchmark given"
#: Matches that a page shows; all of them are in the step's ``REPORT``.
N_MATCHES = 100


def leaks(manifest: Mapping[str, Metric]) -> list[Row]:
    """Every decontamination of a build that compared its prompts with something.

    Args:
        manifest: a build's.

    Returns:
        One entry a step: its ``settings``; ``prompts`` compared and how many ``matched``; the
        ``benchmarks``, each with ``name``, ``digest``, ``rows``, ``unusable``, ``matched`` prompts
        and a count for each of ``RULES``; and ``file``, the list of matches, relative to the build.
    """
    steps = cast("list[Row]", manifest["steps"])
    return [
        _told(step) for step in steps if step["name"] == Decontaminate.name and not is_off(step)
    ]


def is_off(step: Row) -> bool:
    """True for a decontamination that had nothing to compare with."""
    return step["name"] == Decontaminate.name and not step["metrics"].get("benchmarks")


def matches(build: Path, leak: Row) -> list[Row]:
    """The first matches of a step: ``source_id``, benchmark, row, rule, shares and shared words.

    Raises:
        PoolError: the list cannot be read.
    """
    path = build / leak["file"]
    try:
        return pl.read_parquet(path, n_rows=N_MATCHES).to_dicts()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise PoolError(f"{path}: cannot be read: {error}") from error


def _told(step: Row) -> Row:
    metrics = step["metrics"]
    benchmarks: Mapping[str, Row] = metrics["benchmarks"]
    return {
        "settings": step["settings"],
        "prompts": step["rows_in"],
        "matched": metrics["matched"],
        "benchmarks": [_benchmark(name, told, RULES) for name, told in sorted(benchmarks.items())],
        "file": f"steps/{step['artifact']}/{REPORT}",
    }


def _benchmark(name: str, told: Row, rules: Sequence[str]) -> Row:
    counted = {key: told.get(key, 0) for key in ("rows", "unusable", "matched", *rules)}
    return {"name": name, "digest": told.get("digest"), **counted}
