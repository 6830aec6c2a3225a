"""Prompt pools: the one table that every step takes and gives, and its schemas.

A pool is a Polars frame with exactly the columns of ``PROMPT_SCHEMA``. Rejected records and
rollouts travel in tables of their own, with ``REJECT_SCHEMA`` and ``ROLLOUT_SCHEMA``.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import polars as pl

from curate.pipelines.errors import PoolError

Schema: TypeAlias = dict[str, pl.DataType]

_TEXTS = pl.List(pl.String())

PROMPT_SCHEMA: Schema = {
    # identity and content
    "id": pl.String(),  # hash of system, question, answer, kind, options, choices
    "question": pl.String(),  # what the policy sees, without chat template
    "system": pl.String(),  # system message, or null
    "answer": pl.String(),  # gold, canonical string
    "kind": pl.String(),  # verifier
    "verifier_options": pl.String(),  # JSON object text
    "choices": _TEXTS,  # option texts in order (A, B, …), or null
    "format": pl.String(),  # open | cloze | choice | composed | …
    # where it is from
    "domain": pl.String(),
    "topic": pl.String(),
    "language": pl.String(),
    "source": pl.String(),  # file or dataset name
    "source_id": pl.String(),  # "file:row", row counted from 1
    "license": pl.String(),
    "metadata": pl.String(),  # JSON object text: source columns nothing else took
    "cluster": pl.String(),  # id of the prompt kept of its near-duplicates, or null without any
    # lineage
    "parents": _TEXTS,
    "method": pl.String(),
    "depth": pl.Int32(),
    "solutions": pl.List(pl.Struct({"strategy": pl.String(), "text": pl.String()})),
    # measured under one policy
    "policy": pl.String(),
    "attempts": pl.Int32(),  # rollouts spent
    "successes": pl.Int32(),
    "errors": pl.Int32(),  # rollouts whose verdict is `error`: neither right nor wrong
    "truncated": pl.Int32(),  # rollouts that hit max_tokens
    "answer_entropy": pl.Float64(),  # nats, over clusters of equivalent answers
    "mean_tokens": pl.Float64(),
    # estimated
    "p_hat": pl.Float64(),
    "std_hat": pl.Float64(),
    "q_hat": pl.Float64(),
    "p_low": pl.Float64(),
    "p_high": pl.Float64(),
    "estimator": pl.String(),
    # curriculum
    "split": pl.String(),  # train | validation
    "stage": pl.Int32(),
    "rank": pl.Int64(),
    "weight": pl.Float64(),
}

REJECT_SCHEMA: Schema = {
    "id": pl.String(),  # prompt id where there is one
    "source": pl.String(),
    "source_id": pl.String(),
    "step": pl.String(),
    "reason": pl.String(),  # fixed slug
    "field": pl.String(),  # the column at fault, or null
    "detail": pl.String(),  # one readable line
    "record": pl.String(),  # the whole record as JSON text: nothing is lost
}

ROLLOUT_SCHEMA: Schema = {
    "prompt_id": pl.String(),
    "sample": pl.Int32(),
    "policy": pl.String(),
    "revision": pl.String(),
    "template": pl.String(),
    "strategy": pl.String(),
    "seed": pl.Int64(),
    "temperature": pl.Float64(),
    "top_p": pl.Float64(),
    "max_tokens": pl.Int32(),
    "response": pl.String(),
    "answer": pl.String(),  # extracted, or null
    "verdict": pl.String(),  # correct | incorrect | error
    "reason": pl.String(),
    "verifier_version": pl.String(),
    "prompt_tokens": pl.Int32(),
    "tokens": pl.Int32(),
    "finish_reason": pl.String(),  # stop | length
    "logprob_sum": pl.Float64(),
    "seconds": pl.Float64(),  # this rollout's share of its batch's wall time
}

DEFAULTS: dict[str, object] = {
    "verifier_options": "{}",
    "format": "open",
    "metadata": "{}",
    "parents": [],
    "depth": 0,
    "solutions": [],
}


@dataclass(frozen=True, slots=True)
class Pool:
    """A validated frame of prompts.

    Args:
        frame: one row a prompt, with exactly ``PROMPT_SCHEMA``'s columns and types.

    Raises:
        PoolError: a column is missing, unknown or of the wrong type, or an id is null.
    """

    frame: pl.DataFrame

    def __post_init__(self) -> None:
        check_schema(self.frame, PROMPT_SCHEMA, "pool")
        for column in ("id", "question", "answer", "kind"):
            if self.frame[column].null_count():
                raise PoolError(f"pool: column {column!r} holds nulls")

    def __len__(self) -> int:
        return self.frame.height

    @classmethod
    def empty(cls) -> "Pool":
        """A pool of no prompts."""
        return cls(pl.DataFrame(schema=PROMPT_SCHEMA))

    @classmethod
    def from_columns(cls, columns: Mapping[str, Iterable[object]] | pl.DataFrame) -> "Pool":
        """Complete partial columns with defaults, compute ids, validate.

        Args:
            columns: at least ``question``, ``answer`` and ``kind``; an ``id`` column is recomputed.
        """
        frame = columns if isinstance(columns, pl.DataFrame) else pl.DataFrame(dict(columns))
        frame = conform(frame, PROMPT_SCHEMA)
        frame = frame.with_columns(
            pl.col(name).fill_null(pl.lit(value, dtype=PROMPT_SCHEMA[name]))
            for name, value in DEFAULTS.items()
        )
        return cls(frame.with_columns(prompt_ids(frame)))


def check_schema(frame: pl.DataFrame, schema: Schema, what: str) -> None:
    """Raise ``PoolError`` unless ``frame`` has exactly these columns, in order, of these types."""
    found = dict(frame.schema)
    if list(found.items()) == list(schema.items()):
        return
    missing = [name for name in schema if name not in found]
    unknown = [name for name in found if name not in schema]
    wrong = [
        f"{name} is {found[name]}, not {kind}"
        for name, kind in schema.items()
        if name in found and found[name] != kind
    ]
    problems = [
        *(["missing " + ", ".join(missing)] if missing else []),
        *(["unknown " + ", ".join(unknown)] if unknown else []),
        *wrong,
    ]
    raise PoolError(f"{what}: {'; '.join(problems) or 'columns are out of order'}")


def conform(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Select ``schema``'s columns in order, casting, with typed nulls for absent ones."""
    unknown = [name for name in frame.columns if name not in schema]
    if unknown:
        raise PoolError(f"unknown columns: {', '.join(unknown)}")
    return frame.select(
        pl.col(name).cast(kind) if name in frame.columns else pl.lit(None, dtype=kind).alias(name)
        for name, kind in schema.items()
    )


def prompt_ids(frame: pl.DataFrame) -> pl.Series:
    """Content ids: 128-bit BLAKE2b of what the policy sees and how it is judged, as 32 hex digits.

    Two rows get one id exactly when system, question, answer, kind, verifier options and choices
    are all the same strings.
    """
    choices = frame["choices"].list.join("\x1e").fill_null("")
    columns = [
        frame["system"].fill_null(""),
        *(frame[name] for name in ("question", "answer", "kind", "verifier_options")),
        choices,
    ]
    return pl.Series(
        "id",
        [
            hashlib.blake2b("\x1f".join(row).encode(), digest_size=16).hexdigest()
            for row in zip(*columns, strict=True)
        ],
        dtype=pl.String(),
    )


def rejects(
    frame: pl.DataFrame,
    step: str,
    reason: str | pl.Expr,
    detail: str | pl.Expr,
    field: str | None = None,
) -> pl.DataFrame:
    """Turn pool rows into rejected rows, the whole record kept as JSON text.

    Args:
        frame: pool rows that leave the line, plus any columns ``reason`` and ``detail`` refer to.
        step: name of the step that rejects.
        reason: fixed slug, or an expression over ``frame`` giving one per row.
        detail: one readable line, or an expression giving one per row.
        field: the column at fault, when it is the same for all.
    """

    def expression(value: str | pl.Expr) -> pl.Expr:
        return value if isinstance(value, pl.Expr) else pl.lit(value)

    record = pl.struct(name for name in frame.columns if name in PROMPT_SCHEMA)
    return frame.select(
        pl.col("id"),
        pl.col("source"),
        pl.col("source_id"),
        pl.lit(step).alias("step"),
        expression(reason).cast(pl.String()).alias("reason"),
        pl.lit(field, dtype=pl.String()).alias("field"),
        expression(detail).cast(pl.String()).alias("detail"),
        record.struct.json_encode().alias("record"),
    )


def no_rejects() -> pl.DataFrame:
    """An empty rejected table."""
    return pl.DataFrame(schema=REJECT_SCHEMA)


def letters(n: int) -> list[str]:
    """Option labels: A, B, …, Z.

    >>> letters(3)
    ['A', 'B', 'C']
    """
    return [chr(ord("A") + index) for index in range(n)]


def verifier_arguments(options: str, choices: list[str] | None) -> dict[str, object]:
    """Keyword options for ``verify`` from a prompt's ``verifier_options`` and ``choices``.

    >>> verifier_arguments('{"rel_tol": 0.01}', ["red", "blue"])
    {'rel_tol': 0.01, 'options': {'A': 'red', 'B': 'blue'}}
    """
    arguments: dict[str, object] = json.loads(options) if options != "{}" else {}
    if choices:
        arguments["options"] = dict(zip(letters(len(choices)), choices, strict=True))
    return arguments


def read_parquet(path: Path, schema: Schema, what: str) -> pl.DataFrame:
    """Read one Parquet file or a folder of parts and check its schema."""
    parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not parts:
        return pl.DataFrame(schema=schema)
    try:
        frame = pl.read_parquet(parts)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise PoolError(f"{path}: cannot be read as {what}: {error}") from error
    check_schema(frame, schema, f"{path} ({what})")
    return frame
