"""Sinks: the pool in one trainer's exact shape.

Each sink is a function from ordered prompts to an Arrow table with an explicit schema of plain
strings, lists and structs (no large_* types, no library metadata), and open-ended fields as JSON
text. A column that would be null in every row is left out, because a reader that meets it first
locks its type to null.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import orjson
import polars as pl
import pyarrow as pa

from curate.pipelines.pool import verifier_arguments

Prepare: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]

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
    """

    name: str
    schema: pa.Schema
    optional: frozenset[str]
    prepare: Prepare

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
    about = ["kind", "verifier_args", *_VERL_ABOUT]
    return frame.with_columns(
        pl.lit("curate").alias("data_source"),
        pl.coalesce("domain", "kind").alias("ability"),
        pl.struct(pl.lit("rule").alias("style"), pl.col("answer").alias("ground_truth")).alias(
            "reward_model"
        ),
        pl.struct("split", pl.col("rank").alias("index"), pl.col("id").alias("prompt_id"), "stage",
                  *about).alias("extra_info"),
    )  # fmt: skip


# One struct for every domain and build, so that shards of different pools concatenate.
_VERL_ABOUT = {
    "source": pa.string(),
    "policy": pa.string(),
    "p_hat": pa.float64(),
    "q_hat": pa.float64(),
}

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
                    ("prompt_id", pa.string()),
                    ("rank", pa.int64()),
                    ("stage", pa.int32()),
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
                    (
                        "extra_info",
                        pa.struct(
                            [
                                ("split", pa.string()),
                                ("index", pa.int64()),
                                ("prompt_id", pa.string()),
                                ("stage", pa.int32()),
                                ("kind", pa.string()),
                                ("verifier_args", pa.string()),
                                *_VERL_ABOUT.items(),
                            ]
                        ),
                    ),
                ]
            ),
            frozenset(),
            _verl,
        ),
    )
}
