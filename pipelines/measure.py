"""Measure: roll the policy out, judge every rollout, estimate how hard each prompt is.

Prompts are worked through in blocks of a fixed make-up; one that does not fit the model's context
is set aside. Inside a block the engine commits batch
by batch to the completion cache; a finished block is appended to the ledger. A block whose draws
are all in the ledger costs neither a model call nor a verdict, so a killed build goes on where it
was, and the engine sees the same batches it would have seen uninterrupted.
"""

from collections import Counter
from collections.abc import Sequence
from time import perf_counter
from typing import ClassVar

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from curate.engines.api import Engine, Sampling
from curate.pipelines.cluster import answer_entropies
from curate.pipelines.errors import ConfigError
from curate.pipelines.files import write_parquet
from curate.pipelines.ledger import SAMPLED
from curate.pipelines.pool import ROLLOUT_SCHEMA, Pool, conform, rejects
from curate.pipelines.replay import Replay
from curate.pipelines.spend import Spending
from curate.pipelines.step import Context, Metric, Need, Step, StepResult
from curate.selectors.stats import fit_prior, posterior

ESTIMATOR = "beta-eb-1"
_SAMPLING = ("temperature", "top_p", "max_tokens", "seed")


class Rollouts(BaseModel):
    """How many rollouts to spend."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_prompt: int = Field(default=8, ge=1, le=4096)


class Measure(Step):
    """Pass rates of the policy on every prompt.

    Args:
        rollouts: ``{per_prompt: k}``.
        temperature: softmax temperature; use the trainer's.
        top_p: nucleus mass; use the trainer's.
        max_tokens: completion limit; a completion that reaches it counts as truncated.
        stop: strings that end a completion.
        group_size: G of the trainer, for ``q_hat``.
    """

    name: ClassVar[str] = "measure"
    version: ClassVar[int] = 4
    needs: ClassVar[frozenset[Need]] = frozenset({"engine", "verifiers"})
    gives: ClassVar[frozenset[str]] = frozenset({"pass_rate"})

    rollouts: Rollouts = Rollouts()
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=256, ge=1, lt=2**31)
    stop: tuple[str, ...] = ()
    group_size: int = Field(default=8, ge=2)

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        """Spend the rollouts and fill the measured and estimated columns.

        Raises:
            ConfigError: the build has no policy, or one known by rollouts of other prompts.
            EngineError: the policy cannot be loaded.
        """
        if ctx.engine is None:
            raise ConfigError("measure needs a policy: give --policy")
        sampling = Sampling(self.temperature, self.top_p, self.max_tokens, self.stop, ctx.seed)
        prompts = pool.frame.unique(subset="id", keep="first").sort("id")
        started, before = perf_counter(), _generated(ctx.engine)
        spending = Spending(ctx.engine, sampling, self.rollouts.per_prompt, ctx)
        judged = spending.spend(prompts)
        seconds = perf_counter() - started
        if isinstance(ctx.engine, Replay) and judged.is_empty() and len(prompts):
            raise ConfigError(_no_rollouts(ctx.engine, spending))
        entropies = answer_entropies(judged, prompts, workers=ctx.workers)
        long = pl.col("id").is_in(spending.too_long)
        frame = self._estimate(
            pool.frame.filter(~long),
            counts(judged).join(entropies, on="prompt_id", how="left"),
            ctx.engine.identity.model,
        )
        beside = self._beside(pool.frame.filter(~long), prompts, sampling, ctx)
        table = pl.concat([pass_rates(frame, spending), *beside.values()])
        write_parquet(table, ctx.artifact / "pass_rates.parquet")
        metrics = _metrics(frame, judged, spending, seconds) | _judged_again([spending, *beside])
        # An engine counts over all steps it serves, and one that does not count has made them all.
        made = _generated(ctx.engine)
        metrics["generated"] = len(judged) if made is None else made - (before or 0)
        if beside:
            metrics["policies"] = by_policy(table)
        if ctx.imports:
            unused, metrics["imported"] = ctx.imports.settle(prompts)
            write_parquet(unused, ctx.artifact / "unused_rollouts.parquet")
        return StepResult(
            kept=Pool(frame),
            rejected=rejects(
                pool.frame.filter(long),
                self.name,
                "too_long",
                f"more than {spending.limit} tokens leave no room for {self.max_tokens} in the "
                f"context of {ctx.engine.identity.model}",
                "question",
            ),
            metrics=metrics,
        )

    def _beside(
        self, frame: pl.DataFrame, prompts: pl.DataFrame, sampling: Sampling, ctx: Context
    ) -> dict[Spending, pl.DataFrame]:
        """Pass rates of the policies known by their rollouts alone, none of which is the pool's."""
        tables = dict[Spending, pl.DataFrame]()
        for other in ctx.others:
            spending = Spending(other, sampling, self.rollouts.per_prompt, ctx)
            judged = counts(spending.spend(prompts))
            measured = self._estimate(frame, judged, other.identity.model)
            tables[spending] = pass_rates(measured, spending)
        return tables

    def _estimate(self, frame: pl.DataFrame, counts: pl.DataFrame, policy: str) -> pl.DataFrame:
        measured = frame.drop(set(counts.columns) & set(frame.columns)).join(
            counts, left_on="id", right_on="prompt_id", how="left", maintain_order="left"
        )
        measured = measured.with_columns(
            pl.col("attempts", "successes", "errors", "truncated").fill_null(0)
        )
        valid = (measured["attempts"] - measured["errors"]).to_numpy()
        successes = measured["successes"].to_numpy()
        estimate = posterior(successes, valid, fit_prior(successes, valid), self.group_size)
        # Without a verdict there is no estimate: the prior's mean would pass for a measurement.
        seen = pl.col("attempts") > pl.col("errors")
        columns = [
            pl.when(seen).then(pl.Series(name, values)).alias(name)
            for name, values in estimate._asdict().items()
        ]
        return conform(
            measured.with_columns(
                *columns,
                pl.lit(policy).alias("policy"),
                pl.when(seen).then(pl.lit(ESTIMATOR)).alias("estimator"),
            ),
            dict(frame.schema),
        )


_JUDGED = (pl.col("attempts") - pl.col("errors")).fill_null(0)
_FRONTIER = (pl.col("successes") > 0) & (pl.col("successes") < _JUDGED)


def frontier() -> pl.Expr:
    """True for prompts with both a success and a failure among their judged rollouts."""
    return _FRONTIER.fill_null(False)


def frontier_share() -> pl.Expr:
    """Share at the frontier of the prompts with a verdict.

    It is null where no prompt has the two verdicts that it takes to be there.
    """
    return pl.when((_JUDGED > 1).any()).then(frontier().sum() / (_JUDGED > 0).sum())


def unmeasured() -> pl.Expr:
    """Number of prompts without a verdict."""
    return (_JUDGED == 0).sum()


def counts(judged: pl.DataFrame) -> pl.DataFrame:
    """Attempts, successes, errors, truncated and mean tokens by ``prompt_id``."""
    verdict = pl.col("verdict")
    return judged.group_by("prompt_id").agg(
        pl.len().cast(pl.Int32).alias("attempts"),
        (verdict == "correct").sum().cast(pl.Int32).alias("successes"),
        (verdict == "error").sum().cast(pl.Int32).alias("errors"),
        (pl.col("finish_reason") == "length").sum().cast(pl.Int32).alias("truncated"),
        pl.col("tokens").mean().alias("mean_tokens"),
    )


def _metrics(
    frame: pl.DataFrame, judged: pl.DataFrame, spending: Spending, seconds: float
) -> dict[str, Metric]:
    """Figures for manifest, table and card."""
    identity = spending.engine.identity
    mixed = int(frame.select(frontier().sum()).item())
    verdicts = judged["verdict"].value_counts().sort("verdict")
    return {
        "policy": identity.model,
        "revision": identity.revision,
        "template": identity.template,
        "rollouts": len(judged),
        # Of imported rollouts nobody may know.
        "tokens": int(judged["tokens"].sum())
        if judged["tokens"].count() or not len(judged)
        else None,
        "seconds_generating": round(seconds, 3),
        "verdicts": dict(zip(verdicts["verdict"], verdicts["count"], strict=True)),
        "truncated": int((judged["finish_reason"] == "length").sum()),
        "without_rollouts": int((frame["attempts"] == 0).sum()),
        "frontier_prompts": mixed,
        "frontier_share": frame.select(frontier_share()).item(),
        "mean_pass_rate": _mean(frame, "p_hat"),
        "mean_q_hat": _mean(frame, "q_hat"),
    }


def _generated(engine: Engine | Replay) -> int | None:
    """Completions an engine has made so far, where it counts them; stored ones are none."""
    count = getattr(engine, "generated", None)
    return count if isinstance(count, int) else None


def _no_rollouts(stored: Replay, spending: Spending) -> str:
    none = f"no rollout of {stored.identity.model} is for a prompt of this pool"
    if stored.settings is not None:
        return f"{none}: prompts are matched by prompt_id, else by the text of the question"
    drawn = ", ".join(f"{name} {spending.constants[name]}" for name in _SAMPLING)
    return f"{none} and was drawn at {drawn}; to draw some, build again"


def _judged_again(spent: Sequence[Spending]) -> dict[str, Metric]:
    """Verdicts made anew on stored rollouts, of all policies."""
    changed = sum((Counter(spending.changed) for spending in spent), Counter[str]())
    return {
        "rejudged": sum(spending.rejudged for spending in spent),
        "changed_verdicts": dict(sorted(changed.items())),
    }


def pass_rates(frame: pl.DataFrame, spending: Spending) -> pl.DataFrame:
    """One policy's pass rates with the settings they mean something under, a row a prompt.

    Prompts without rollouts of this policy are left out.
    """
    measured = ["attempts", "successes", "errors", "truncated", "mean_tokens", "p_hat", "q_hat",
                "p_low", "p_high"]  # fmt: skip
    settings = {name: spending.constants[name] for name in SAMPLED}
    return frame.filter(pl.col("attempts") > 0).select(
        pl.col("id").alias("prompt_id"),
        *(
            pl.lit(value, dtype=ROLLOUT_SCHEMA[name]).alias(name)
            for name, value in settings.items()
        ),
        *measured,
    )


def by_policy(table: pl.DataFrame) -> dict[str, Metric]:
    """Pass rate and frontier share of every policy, over the prompts it has rollouts of.

    Policies of one name are told apart by their revision.
    """
    grouped = table.group_by("policy", "revision", maintain_order=True).agg(
        pl.len().alias("prompts"),
        pl.col("attempts").sum().alias("rollouts"),
        pl.col("successes").sum(),
        (pl.col("attempts") - pl.col("errors")).sum().alias("judged"),
        frontier_share().alias("frontier_share"),
        pl.col("q_hat").mean().alias("mean_q_hat"),
    )
    several = set(grouped.filter(pl.col("policy").is_duplicated())["policy"])
    return {
        f"{row['policy']}@{row['revision']}" if row["policy"] in several else row["policy"]: {
            "prompts": row["prompts"],
            "rollouts": row["rollouts"],
            "pass_rate": row["successes"] / row["judged"] if row["judged"] else None,
            "frontier_share": row["frontier_share"],
            "mean_q_hat": row["mean_q_hat"],
        }
        for row in grouped.iter_rows(named=True)
    }


def _mean(frame: pl.DataFrame, column: str) -> float | None:
    value = frame[column].mean()
    return None if value is None else float(value)  # type: ignore[arg-type]
