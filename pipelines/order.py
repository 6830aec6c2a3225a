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
    """

    name: ClassVar[str] = "order"
    gives: ClassVar[frozenset[str]] = frozenset({"rank"})

    by: Literal["easy_to_hard", "frontier_first", "staged", "random"] = "easy_to_hard"
    stages: int = Field(default=3, ge=1, le=99)
    edges: tuple[float, ...] = (0.7, 0.3)

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
        frame = frame.drop("_tie").with_columns(
            pl.int_range(pl.len(), dtype=pl.Int64).alias("rank"), pl.lit(1.0).alias("weight")
        )
        sizes = frame.group_by("stage").agg(
            pl.len().alias("rows"), pl.col("p_hat").mean().alias("mean_p_hat")
        )
        return StepResult(
            kept=Pool(frame),
            metrics={"by": self.by, "stages": cast(Metric, sizes.sort("stage").to_dicts())},
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
