"""Sinks: the pool in one trainer's exact shape.

Each sink is a function from ordered prompts to an Arrow table with an explicit schema of plain
strings, lists and structs (no large_* types, no library metadata), and open-ended fields as JSON
text. A column that would be null in every row is left out, because a reader that meets it first
locks its type to null.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import orjson
import polars as pl
import pyarrow as pa

from curate.pipelines.pool import verifier_arguments
from curate.verifiers.rewards import label

Prepare: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]
FileKind: TypeAlias = Literal["parquet", "jsonl"]

_CHAT = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))

#: What every sink can tell about a prompt besides its text and gold; nullable, dropped when empty.
_ABOUT: dict[str, pa.DataType] = {
    "domain": pa.string(),
    "topic": pa.string(),
    "source": pa.string(),
    "license": pa.string(),
    "policy": pa.string(),
    "attempts": pa.int32(),
    "successes": pa.int32(),
    "p_hat": pa.float64(),
    "q_hat": pa.float64(),
}


@dataclass(frozen=True, slots=True)
class Sink:
    """One trainer's format.

    Args:
        name: folder name and recipe word.
        schema: columns in order.
        optional: columns left out when null in every row.
        prepare: frame with pool columns plus ``prompt`` (chat) and ``verifier_args`` (JSON text)
            → frame with at least the schema's columns.
        files: file kinds the trainer reads, the one to recommend first. Where a gold has a column
            of its own that is Parquet: from JSON, ``datasets`` makes a column of dates timestamps.
    """

    name: str
    schema: pa.Schema
    optional: frozenset[str]
    prepare: Prepare
    files: tuple[FileKind, ...] = ("parquet", "jsonl")

    def table(self, frame: pl.DataFrame) -> pa.Table:
        """The Arrow table of these prompts, in their order."""
        made = self.prepare(frame)
        names = [
            name
            for name in self.schema.names
            if name not in self.optional or made[name].null_count() < made.height
        ]
        schema = pa.schema([self.schema.field(name) for name in names])
        oldest = pl.CompatLevel.oldest()
        return made.select(names).to_arrow(compat_level=oldest).cast(schema)


def with_prompt_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``prompt`` (chat messages) and ``verifier_args`` (JSON text) to pool rows."""
    user = pl.struct(pl.lit("user").alias("role"), pl.col("question").alias("content"))
    system = pl.struct(pl.lit("system").alias("role"), pl.col("system").alias("content"))
    prompt = (
        pl.when(pl.col("system").is_null())
        .then(pl.concat_list(user))
        .otherwise(pl.concat_list(system, user))
    )
    plain = (frame["verifier_options"] == "{}") & frame["choices"].is_null()
    if plain.all():
        arguments = pl.Series("verifier_args", ["{}"], dtype=pl.String()).new_from_index(
            0, len(frame)
        )
    else:
        arguments = pl.Series(
            "verifier_args",
            [
                orjson.dumps(verifier_arguments(options, choices)).decode()
                for options, choices in frame.select("verifier_options", "choices").iter_rows()
            ],
            dtype=pl.String(),
        )
    return frame.with_columns(prompt.alias("prompt"), arguments)


def _trl(frame: pl.DataFrame) -> pl.DataFrame:
    # TRL's accuracy_reward parses `solution` as LaTeX: a bare gold is skipped, a boxed one is not.
    boxed = pl.when(pl.col("kind") == "math").then(
        pl.concat_str(pl.lit("\\boxed{"), "answer", pl.lit("}"))
    )
    return frame.with_columns(
        boxed.otherwise(pl.col("answer")).alias("solution"), pl.col("id").alias("prompt_id")
    )


def _verl(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.lit("curate").alias("data_source"),
        pl.coalesce("domain", "kind").alias("ability"),
        pl.struct(pl.lit("rule").alias("style"), pl.col("answer").alias("ground_truth")).alias(
            "reward_model"
        ),
        _extra_info(),
    )


def _extra_info() -> pl.Expr:
    place = [pl.col("rank").alias("index"), pl.col("id").alias("prompt_id")]
    about = ["stage", "kind", "verifier_args", *_EXTRA_ABOUT]
    return pl.struct("split", *place, *about).alias("extra_info")


def _skyrl(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.lit("curate").alias("data_source"),
        pl.lit("curate").alias("env_class"),
        pl.struct(pl.lit("rule").alias("method"), pl.col("answer").alias("ground_truth")).alias(
            "reward_spec"
        ),
        _extra_info(),
    )


def _openrlhf(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        _labels(frame).alias("label"),
        pl.coalesce("domain", "kind").alias("datasource"),
        pl.col("id").alias("prompt_id"),
    )


def _open_instruct(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.col("prompt").alias("messages"),
        _labels(frame).alias("ground_truth"),
        pl.lit("curate").alias("dataset"),
        pl.col("id").alias("prompt_id"),
    )


def _nemo_rl(frame: pl.DataFrame) -> pl.DataFrame:
    # ResponseDataset takes one user turn, so a system message goes in front of the question.
    return frame.with_columns(
        pl.concat_str("system", "question", separator="\n\n", ignore_nulls=True).alias("input"),
        _labels(frame).alias("output"),
        pl.col("id").alias("prompt_id"),
    )


def _prime_rl(frame: pl.DataFrame) -> pl.DataFrame:
    columns = ("id", "kind", "verifier_args", "rank", "stage", "split")
    told = [
        {"args": orjson.loads(args), "kind": kind, "prompt_id": key, "rank": rank, "split": split,
         "stage": stage}
        for key, kind, args, rank, stage, split in frame.select(columns).iter_rows()
    ]  # fmt: skip
    return frame.with_columns(
        pl.Series("info", [orjson.dumps(value).decode() for value in told], dtype=pl.String()),
        pl.coalesce("domain", "kind").alias("task"),
    )


def _labels(frame: pl.DataFrame) -> pl.Series:
    triples = frame.select("answer", "kind", "verifier_args").iter_rows()
    return pl.Series("label", [label(*triple) for triple in triples], dtype=pl.String())


# One struct for every domain and build, so that shards of different pools concatenate.
_EXTRA_ABOUT = {
    "source": pa.string(),
    "policy": pa.string(),
    "p_hat": pa.float64(),
    "q_hat": pa.float64(),
}

_EXTRA = pa.struct(
    [
        ("split", pa.string()),
        ("index", pa.int64()),
        ("prompt_id", pa.string()),
        ("stage", pa.int32()),
        ("kind", pa.string()),
        ("verifier_args", pa.string()),
        *_EXTRA_ABOUT.items(),
    ]
)

#: Where a row stands, for formats that have no struct for it.
_PLACE = [("prompt_id", pa.string()), ("rank", pa.int64()), ("stage", pa.int32())]

SINKS: dict[str, Sink] = {
    sink.name: sink
    for sink in (
        Sink(
            "trl",
            pa.schema(
                [
                    ("prompt", _CHAT),
                    ("solution", pa.string()),
                    ("answer", pa.string()),
                    ("kind", pa.string()),
                    ("verifier_args", pa.string()),
                    *_PLACE,
                    *_ABOUT.items(),
                ]
            ),
            frozenset(_ABOUT),
            _trl,
        ),
        Sink(
            "verl",
            pa.schema(
                [
                    ("data_source", pa.string()),
                    ("prompt", _CHAT),
                    ("ability", pa.string()),
                    (
                        "reward_model",
                        pa.struct([("style", pa.string()), ("ground_truth", pa.string())]),
                    ),
                    ("extra_info", _EXTRA),
                ]
            ),
            frozenset(),
            _verl,
        ),
        Sink(
            "openrlhf",
            pa.schema(
                [
                    ("prompt", _CHAT),
                    ("label", pa.string()),
                    ("datasource", pa.string()),
                    *_PLACE,
                ]
            ),
            frozenset(),
            _openrlhf,
            ("jsonl", "parquet"),
        ),
        Sink(
            "open-instruct",
            pa.schema(
                [
                    ("messages", _CHAT),
                    ("ground_truth", pa.string()),
                    ("dataset", pa.string()),
                    *_PLACE,
                ]
            ),
            frozenset(),
            _open_instruct,
            ("jsonl", "parquet"),
        ),
        Sink(
            "skyrl",
            pa.schema(
                [
                    ("data_source", pa.string()),
                    ("prompt", _CHAT),
                    ("env_class", pa.string()),
                    (
                        "reward_spec",
                        pa.struct([("method", pa.string()), ("ground_truth", pa.string())]),
                    ),
                    ("extra_info", _EXTRA),
                ]
            ),
            frozenset(),
            _skyrl,
        ),
        Sink(
            "nemo-rl",
            pa.schema([("input", pa.string()), ("output", pa.string()), *_PLACE]),
            frozenset(),
            _nemo_rl,
            ("jsonl",),
        ),
        Sink(
            "prime-rl",
            pa.schema(
                [
                    ("prompt", _CHAT),
                    ("answer", pa.string()),
                    ("info", pa.string()),
                    ("task", pa.string()),
                ]
            ),
            frozenset(),
            _prime_rl,
        ),
    )
}
