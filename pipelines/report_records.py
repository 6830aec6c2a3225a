"""What report.html shows of single records: a spread sample with its rollouts, and rejects."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import polars as pl
from markupsafe import escape

from curate.pipelines.errors import PoolError
from curate.pipelines.measure import frontier
from curate.pipelines.pool import REJECT_SCHEMA
from curate.pipelines.step import rng
from curate.pipelines.store import judged_rollouts

#: Rollouts shown of one record; the tallies count all of them.
N_ROLLOUTS = 16
#: Examples of one reject reason, and reasons that get examples.
N_EXAMPLES = 4
N_REASONS = 40
#: Bytes of escaped record text in one page, and the lengths texts may be cut to for it.
TEXT_BUDGET = 1_500_000
LIMITS = (4000, 2000, 1000, 500, 250, 100)
#: Fields that hold texts; every other string is a label and is cut to ``LABEL`` characters.
TEXTS = frozenset({"question", "answer", "system", "metadata", "verifier_options", "response",
                   "record", "detail"})  # fmt: skip
LABEL = 80

#: Rollouts under one setting share a pass rate; across settings they must not be added up.
SETTING = ["policy", "revision", "template", "strategy", "temperature", "top_p", "max_tokens"]

Row = dict[str, Any]


def spread(frame: pl.DataFrame, n: int, seed: int) -> pl.DataFrame:
    """At most ``n`` rows, taken in turn from every stage and tenth of the pass rate.

    Args:
        frame: a pool.
        n: rows wanted.
        seed: the build's seed.

    Returns:
        The rows in pool order: all of them when there are no more than ``n``.
    """
    draw = pl.Series("draw", rng(seed, "report").permutation(len(frame)), dtype=pl.Int64)
    rows = (
        frame.select("stage", (pl.col("p_hat") * 10).floor().clip(0, 9).alias("tenth"))
        .with_row_index("row")
        .with_columns(draw)
        .with_columns(pl.col("draw").rank("ordinal").over("stage", "tenth").alias("turn"))
        .sort("turn", "draw")
        .head(n)
    )
    return frame[rows["row"].sort()]


def sample(build: Path, frame: pl.DataFrame, n: int, seed: int) -> list[Row]:
    """At most ``n`` records of ``frame`` with their rollouts, ready for the page."""
    chosen = spread(frame, n, seed)
    draws = rollouts_of(build, chosen["id"])
    return [
        {**labelled(row), "mixed": mixed, "draws": draws.get(row["id"], [])}
        for row, mixed in zip(chosen.to_dicts(), chosen.select(frontier()).to_series(), strict=True)
    ]


def rollouts_of(build: Path, ids: pl.Series) -> dict[str, list[Row]]:
    """Rollouts by prompt id, grouped by the setting they were drawn under.

    Args:
        build: build directory.
        ids: prompt ids.

    Returns:
        For every id with rollouts, one group a setting: ``SETTING``'s fields, counts of all its
        rollouts (``n``, ``correct``, ``error``) and those ``shown``. At most ``N_ROLLOUTS`` of a
        prompt are shown, taken in turn from every setting and verdict, so that the rare outcome
        is among them.
    """
    drawn = (
        judged_rollouts(build)
        .filter(pl.col("prompt_id").is_in(ids.drop_nulls().unique().implode()))
        .collect()
        .sort(*SETTING, "seed", "sample")
        .with_columns(pl.int_range(pl.len()).over("prompt_id", *SETTING, "verdict").alias("turn"))
    )  # fmt: skip
    shown = pl.col("turn").rank("ordinal").over("prompt_id") <= N_ROLLOUTS
    groups: dict[str, list[Row]] = {}
    keys = ["prompt_id", *SETTING]
    for key, part in drawn.with_columns(shown=shown).group_by(keys, maintain_order=True):
        groups.setdefault(cast(str, key[0]), []).append(
            {
                **labelled(dict(zip(SETTING, key[1:], strict=True))),
                "n": len(part),
                "correct": int((part["verdict"] == "correct").sum()),
                "error": int((part["verdict"] == "error").sum()),
                "shown": [labelled(row) for row in part.filter("shown").to_dicts()],
            }
        )
    return groups


def policies(build: Path) -> list[Row]:
    """Every setting in the ledger: what was drawn under it and how often it was right.

    Returns:
        ``SETTING``'s fields with counts of ``prompts``, ``rollouts``, ``correct``, ``error``,
        ``truncated`` and ``tokens``; ``pass_rate``, the share of judged rollouts that are correct;
        and ``frontier_share`` of the prompts, None where no prompt has two verdicts. The largest
        first.
    """
    verdict = pl.col("verdict")
    prompts = (
        judged_rollouts(build)
        .group_by("prompt_id", *SETTING)
        .agg(
            pl.len().alias("rollouts"),
            (verdict == "correct").sum().alias("correct"),
            (verdict == "error").sum().alias("error"),
            (pl.col("finish_reason") == "length").sum().alias("truncated"),
            pl.col("tokens").sum().alias("tokens"),
        )
    )  # fmt: skip
    judged = pl.col("rollouts") - pl.col("error")
    mixed = (pl.col("correct") > 0) & (pl.col("correct") < judged)
    seen = judged.sum()
    counts = ("rollouts", "correct", "error", "truncated", "tokens")
    rows = (
        prompts.group_by(SETTING)
        .agg(
            pl.len().alias("prompts"),
            pl.when(seen > 0).then(pl.col("correct").sum() / seen).alias("pass_rate"),
            pl.when((judged > 1).any())
            .then(mixed.sum() / (judged > 0).sum())
            .alias("frontier_share"),
            *(pl.col(name).cast(pl.Int64).sum() for name in counts),
        )
        .sort("rollouts", *SETTING, descending=[True, *(False for _ in SETTING)])
        .collect()
        .to_dicts()
    )
    return [labelled(row) for row in rows]


def labelled(row: Row) -> Row:
    """``row`` with its labels cut to ``LABEL`` characters and an ellipsis."""
    return {
        name: f"{value[:LABEL]}…"
        if isinstance(value, str) and len(value) > LABEL and name not in TEXTS
        else value
        for name, value in row.items()
    }


def reject_groups(build: Path, steps: Sequence[Row], seed: int) -> list[Row]:
    """Rejects by step and reason, the most frequent first, with some examples of each.

    Args:
        build: build directory.
        steps: the manifest's steps.
        seed: the build's seed, which chooses the examples.
    """
    groups = [
        {"step": step["name"], "reason": reason, "n": n, "artifact": step["artifact"]}
        for step in steps
        for reason, n in step["rejected_by_reason"].items()
    ]
    groups.sort(key=lambda group: (-group["n"], group["step"], group["reason"]))
    artifacts = {group["artifact"] for group in groups[:N_REASONS]}
    found = {name: _examples(build / "steps" / name, seed) for name in artifacts}
    for group in groups:
        frame = found.get(group["artifact"], pl.DataFrame(schema=REJECT_SCHEMA))
        group["examples"] = frame.filter(pl.col("reason") == group["reason"]).to_dicts()
    ids = [row["id"] for group in groups[:N_REASONS] for row in group["examples"]]
    draws = rollouts_of(build, pl.Series(ids, dtype=pl.String()))
    for place, group in enumerate(groups):
        examples = group["examples"] if place < N_REASONS else []
        group["examples"] = [
            {**labelled(row), "record": _readable(row["record"]), "draws": draws.get(row["id"], [])}
            for row in examples
        ]
    return [labelled(group) for group in groups]


def _examples(artifact: Path, seed: int) -> pl.DataFrame:
    """A few rejects of every reason; only their rows are read whole."""
    path = artifact / "rejected.parquet"
    try:
        reasons = pl.read_parquet(path, columns=["reason"])
        draw = rng(seed, "report", artifact.name).permutation(len(reasons))
        turn = pl.col("draw").rank("ordinal").over("reason")
        rows = (
            reasons.with_row_index("row")
            .with_columns(pl.Series("draw", draw, dtype=pl.Int64))
            .filter(turn <= N_EXAMPLES)["row"]
        )
        return (
            pl.scan_parquet(path)
            .with_row_index("row")
            .filter(pl.col("row").is_in(rows.implode()))
            .drop("row")
            .collect()
        )
    except (OSError, pl.exceptions.PolarsError) as error:
        raise PoolError(f"{path}: cannot be read as rejected: {error}") from error


def _readable(record: str | None) -> str:
    """A record's JSON text, indented and without its empty fields; other text as it is."""
    try:
        fields = json.loads(record or "{}")
    except ValueError:
        return record or ""
    if isinstance(fields, dict):
        fields = {name: value for name, value in fields.items() if value not in (None, [], "{}")}
    return json.dumps(fields, ensure_ascii=False, indent=1)


def text_limit(records: Iterable[Row], budget: int = TEXT_BUDGET) -> int:
    """Characters that every text of ``records`` may keep for the page to stay within ``budget``.

    Args:
        records: what the page shows, nested as it likes.
        budget: bytes of escaped text.

    Returns:
        The largest of ``LIMITS`` that fits, else the smallest.
    """
    texts = list(_texts(list(records)))
    for limit in LIMITS:
        if sum(len(escape(text[:limit]).encode("utf-8", "replace")) for text in texts) <= budget:
            return limit
    return LIMITS[-1]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
