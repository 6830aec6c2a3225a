"""Select: keep the prompts worth training on; what leaves says whether it was easy or hard."""

from typing import ClassVar, Self

import polars as pl
from pydantic import Field, model_validator

from curate.pipelines.measure import frontier
from curate.pipelines.pool import Pool, rejects
from curate.pipelines.step import Context, Step, StepResult


class Select(Step):
    """Keep by posterior: informative enough, within a band, the best so many.

    Args:
        min_q: least probability that a group holds both outcomes (``q_hat``).
        seen_mixed: also keep what ``min_q`` would not when its own rollouts held both outcomes: on
            a pool that is nearly all too hard or too easy the prior pulls every ``q_hat`` down,
            and the prompts already seen at the frontier are the ones worth having.
        p_band: lowest and highest posterior pass rate (``p_hat``).
        limit: at most this many, highest ``q_hat`` first, ties by id.
    """

    name: ClassVar[str] = "select"
    version: ClassVar[int] = 2

    min_q: float | None = Field(default=None, ge=0, le=1)
    seen_mixed: bool = False
    p_band: tuple[float, float] | None = None
    limit: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min_q is None and self.p_band is None and self.limit is None:
            raise ValueError("give at least one of min_q, p_band, limit")
        if self.seen_mixed and self.min_q is None:
            raise ValueError("seen_mixed widens min_q: give min_q too")
        if self.p_band and not 0 <= self.p_band[0] <= self.p_band[1] <= 1:
            raise ValueError("p_band must be [low, high] with 0 ≤ low ≤ high ≤ 1")
        return self

    def required_columns(self) -> frozenset[str]:
        """Pass rates."""
        return frozenset({"pass_rate"})

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        """Split the pool into kept and rejected."""
        p, q = pl.col("p_hat"), pl.col("q_hat")
        keep = pl.lit(True)
        if self.min_q is not None:
            informative = q >= self.min_q
            keep &= (informative | frontier()) if self.seen_mixed else informative
        if self.p_band is not None:
            keep &= p.is_between(*self.p_band)
        keep = keep.fill_null(False)
        frame = pool.frame.with_columns(keep.alias("_keep"))
        if self.limit is not None:
            best = (
                frame.filter("_keep").sort("q_hat", "id", descending=[True, False]).head(self.limit)
            )
            over = pl.col("_keep") & ~pl.col("id").is_in(best["id"].implode())
        else:
            over = pl.lit(False)
        middle = 0.5 if self.p_band is None else sum(self.p_band) / 2
        reason = (
            pl.when(p.is_null()).then(pl.lit("unmeasured"))
            .when(over).then(pl.lit("over_limit"))
            .when(p > middle).then(pl.lit("too_easy"))
            .otherwise(pl.lit("too_hard"))
        )  # fmt: skip
        frame = frame.with_columns(
            reason.alias("_reason"), (pl.col("_keep") & ~over).alias("_keep")
        )
        detail = pl.format(
            "p_hat {}, q_hat {}, {} of {} rollouts correct",
            p.round(3), q.round(3), pl.col("successes"), pl.col("attempts"),
        ).fill_null("no rollout has a verdict")  # fmt: skip
        kept = frame.filter("_keep").drop("_keep", "_reason")
        rejected = rejects(
            frame.filter(~pl.col("_keep")), self.name, pl.col("_reason"), detail, "p_hat"
        )
        return StepResult(
            kept=Pool(kept),
            rejected=rejected,
            metrics={"kept_share": len(kept) / max(1, len(pool))},
        )
