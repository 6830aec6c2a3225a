"""Order: the curriculum. Every prompt gets a rank, a stage and a weight.

Ties never follow input order: they are broken by a hash of seed and prompt id, so shuffled input
gives the same curriculum.
"""

import hashlib
from typing import ClassVar, Literal, Self, cast

import polars as pl
from pydantic import Field, model_validator

from curate.pipelines.pool import Pool
from curate.pipelines.step import Context, Metric, Step, StepResult


class Order(Step):
    """Rank the pool.

    Args:
        by: ``easy_to_hard`` (p_hat falling), ``frontier_first`` (q_hat falling), ``staged``
            (buckets of p_hat from easy to hard, shuffled inside), ``random``.
        stages: for every order but ``staged``, how many equal stages the ranks are cut into.
        edges: for ``staged``, falling pass rates between stages; a prompt on an edge belongs to
            the easier stage.
        batch: prompts in a training batch. Ranks are then given in blocks of so many: a block
            holds the very prompts it would without, but its domains are spread over it. Prompts
            held out later leave holes, so a pool that is split wants ``shard``'s ``batch`` too.
    """

    name: ClassVar[str] = "order"
    gives: ClassVar[frozenset[str]] = frozenset({"rank"})

    by: Literal["easy_to_hard", "frontier_first", "staged", "random"] = "easy_to_hard"
    stages: int = Field(default=3, ge=1, le=99)
    edges: tuple[float, ...] = (0.7, 0.3)
    batch: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        falling = all(a > b for a, b in zip(self.edges, self.edges[1:], strict=False))
        if not self.edges or not falling or not all(0 < edge < 1 for edge in self.edges):
            raise ValueError("edges must be falling pass rates between 0 and 1, such as [0.7, 0.3]")
        return self

    def required_columns(self) -> frozenset[str]:
        """Pass rates, unless the order is random."""
        return frozenset() if self.by == "random" else frozenset({"pass_rate"})

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        """Sort, rank, cut into stages. Unmeasured prompts come last."""
        frame = pool.frame.with_columns(_tie(pool.frame["id"], ctx.seed).alias("_tie"))
        if self.by == "staged":
            stage = sum(
                ((pl.col("p_hat") < edge).cast(pl.Int32) for edge in self.edges), start=pl.lit(0)
            ).fill_null(len(self.edges))
            frame = frame.with_columns(stage.cast(pl.Int32).alias("stage")).sort("stage", "_tie")
        else:
            key = {"easy_to_hard": "p_hat", "frontier_first": "q_hat", "random": "_tie"}[self.by]
            frame = frame.sort(key, "_tie", descending=[True, False], nulls_last=True)
            share = pl.int_range(pl.len()) * self.stages // pl.len()
            frame = frame.with_columns(share.cast(pl.Int32).alias("stage"))
        frame = frame.drop("_tie")
        if self.batch:
            frame = in_blocks(frame, self.batch, ctx.seed)
        frame = frame.with_columns(
            pl.int_range(pl.len(), dtype=pl.Int64).alias("rank"), pl.lit(1.0).alias("weight")
        )
        sizes = frame.group_by("stage").agg(
            pl.len().alias("rows"), pl.col("p_hat").mean().alias("mean_p_hat")
        )
        return StepResult(
            kept=Pool(frame),
            metrics={"by": self.by, "stages": cast(Metric, sizes.sort("stage").to_dicts())},
        )


def in_blocks(frame: pl.DataFrame, batch: int, seed: int) -> pl.DataFrame:
    """Spread the domains over each block of ``batch`` consecutive rows.

    Block by block the rows are the same as before, so with batches of ``batch`` prompts in file
    order every batch is one block. Inside a block, stages stay in order; within a stage, the k-th
    of a domain's m rows goes to about (k + ½)/m of the way, ties and turns by hash.

    Args:
        frame: rows in curriculum order, with ``id``, ``domain`` and ``stage``.
        batch: rows in a block; the last one may be shorter.
        seed: the build's seed.
    """
    group = ["_block", "stage", "domain"]
    turn = (pl.int_range(pl.len()) + 0.5) / pl.len()
    return (
        frame.with_columns(
            (pl.int_range(pl.len()) // batch).alias("_block"), _tie(frame["id"], seed).alias("_tie")
        )
        .sort("_block", "stage", "_tie")
        .with_columns(turn.over(group).alias("_turn"))
        .sort("_block", "stage", "_turn", "_tie")
        .drop("_block", "_turn", "_tie")
    )


def _tie(ids: pl.Series, seed: int) -> pl.Series:
    salt = str(seed).encode()
    return pl.Series(
        [
            int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8, key=salt).digest())
            for key in ids
        ],
        dtype=pl.UInt64(),
    )
