"""Measure: roll the policy out, judge every rollout, estimate how hard each prompt is.

Prompts are worked through in blocks of a fixed make-up; one that does not fit the model's context
is set aside. Inside a block the engine commits batch
by batch to the completion cache; a finished block is appended to the ledger. A block whose draws
are all in the ledger costs neither a model call nor a verdict, so a killed build goes on where it
was, and the engine sees the same batches it would have seen uninterrupted.
"""

from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from curate.engines.api import Completion, Engine, Message, Request, Sampling
from curate.pipelines.cluster import answer_entropies
from curate.pipelines.errors import ConfigError, PromptTooLong
from curate.pipelines.pool import ROLLOUT_SCHEMA, Pool, conform, rejects, verifier_arguments
from curate.pipelines.step import Context, Metric, Need, Step, StepResult, phase
from curate.selectors.stats import fit_prior, posterior
from curate.verifiers.api import VERIFIER_VERSION, Row, verify_many

#: Prompts a block: small enough to hold all its rollouts, large enough to keep an engine full.
BLOCK = 2048
ESTIMATOR = "beta-eb-1"


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
    needs: ClassVar[frozenset[Need]] = frozenset({"engine", "verifiers"})
    gives: ClassVar[frozenset[str]] = frozenset({"pass_rate"})

    rollouts: Rollouts = Rollouts()
    temperature: float = Field(default=1.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=256, ge=1)
    stop: tuple[str, ...] = ()
    group_size: int = Field(default=8, ge=2)

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        """Spend the rollouts and fill the measured and estimated columns.

        Raises:
            ConfigError: the build has no policy.
            EngineError: the policy cannot be loaded.
        """
        if ctx.engine is None:
            raise ConfigError("measure needs a policy: give --policy")
        run = _Run(self, ctx, ctx.engine)
        prompts = pool.frame.unique(subset="id", keep="first").sort("id")
        started = perf_counter()
        judged = run.spend(prompts)
        counts = _counts(judged).join(
            answer_entropies(judged, prompts, workers=ctx.workers), on="prompt_id", how="left"
        )
        long = pl.col("id").is_in(run.too_long)
        frame = self._estimate(pool.frame.filter(~long), counts, ctx.engine.identity.model)
        return StepResult(
            kept=Pool(frame),
            rejected=rejects(
                pool.frame.filter(long),
                self.name,
                "too_long",
                f"more than {run.limit} tokens leave no room for {self.max_tokens} in the context "
                f"of {ctx.engine.identity.model}",
                "question",
            ),
            metrics=run.metrics(frame, judged, perf_counter() - started),
        )

    def _estimate(self, frame: pl.DataFrame, counts: pl.DataFrame, policy: str) -> pl.DataFrame:
        measured = frame.drop(set(counts.columns) & set(frame.columns)).join(
            counts, left_on="id", right_on="prompt_id", how="left", maintain_order="left"
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


@dataclass
class _Run:
    """One measuring of one pool: settings, engine, and what it cost so far."""

    step: Measure
    ctx: Context
    engine: Engine

    def __post_init__(self) -> None:
        self.too_long: list[str] = []
        self.limit = 0
        step = self.step
        self.sampling = Sampling(
            step.temperature, step.top_p, step.max_tokens, step.stop, self.ctx.seed
        )
        identity = self.engine.identity
        self.constants: dict[str, object] = {
            "policy": identity.model,
            "revision": identity.revision,
            "template": identity.template,
            "strategy": "direct",
            "seed": self.ctx.seed,
            "temperature": step.temperature,
            "top_p": step.top_p,
            "max_tokens": step.max_tokens,
            "verifier_version": VERIFIER_VERSION,
        }

    def spend(self, prompts: pl.DataFrame) -> pl.DataFrame:
        """All judged rollouts of ``prompts`` (without texts), from the ledger or made now."""
        k = self.step.rollouts.per_prompt
        known = self._known(prompts, k)
        complete = known.group_by("prompt_id").len().filter(pl.col("len") == k)["prompt_id"]
        done = prompts["id"].is_in(complete.implode())
        judged = [known]
        label = f"rollouts of {self.engine.identity.model}"
        with phase(self.ctx.progress, label, len(prompts) * k, "rollouts") as progress:
            for start in range(0, len(prompts), BLOCK):
                block = prompts.slice(start, BLOCK)
                if done.slice(start, BLOCK).all():
                    progress.advance(len(block) * k)
                    continue
                judged.append(self._block(block, known))
        return pl.concat(judged)

    def _known(self, prompts: pl.DataFrame, k: int) -> pl.DataFrame:
        same = [pl.col(name) == pl.lit(value) for name, value in self.constants.items()]
        return (
            self.ctx.ledger.scan()
            .filter(*same, pl.col("sample") < k)
            .join(
                prompts.lazy().select(pl.col("id").alias("prompt_id")), on="prompt_id", how="semi"
            )
            .select(_JUDGED)
            .collect()
        )

    def _block(self, block: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
        """Generate and judge one block; returns what the ledger did not hold yet."""
        requests = [
            Request(key, _messages(system, question), self.step.rollouts.per_prompt)
            for key, system, question in block.select("id", "system", "question").iter_rows()
        ]

        told = 0

        def on_batch(indices: list[int], batch: list[list[Completion]]) -> None:
            nonlocal told
            made = [completion for completions in batch for completion in completions]
            told += len(made)
            self.ctx.progress.advance(len(made), tokens=float(sum(c.tokens for c in made)))

        try:
            answers = self.engine.generate(requests, self.sampling, on_batch)
        except PromptTooLong as error:
            self.too_long += error.keys
            self.limit = error.limit
            # The batches before it come again, from the cache.
            self.ctx.progress.advance(len(error.keys) * self.step.rollouts.per_prompt - told)
            return self._block(block.filter(~pl.col("id").is_in(error.keys)), known)
        drawn = pl.DataFrame(
            [
                (request.key, c.sample, c.text, c.prompt_tokens, c.tokens, c.finish_reason,
                 c.logprob_sum, c.seconds)
                for request, completions in zip(requests, answers, strict=True)
                for c in completions
            ],
            schema=_DRAWN,
            orient="row",
        )  # fmt: skip
        fresh = drawn.join(known, on=["prompt_id", "sample"], how="anti")
        rollouts = self._judge(fresh, block)
        self.ctx.ledger.append(rollouts)
        return rollouts.select(_JUDGED)

    def _judge(self, drawn: pl.DataFrame, block: pl.DataFrame) -> pl.DataFrame:
        golds = block.select("id", "kind", "answer", "verifier_options", "choices")
        rows = [
            Row(kind, gold, response, verifier_arguments(options, choices))
            for response, kind, gold, options, choices in drawn.select("prompt_id", "response")
            .join(golds, left_on="prompt_id", right_on="id", how="left", maintain_order="left")
            .drop("prompt_id")
            .iter_rows()
        ]
        verdicts = verify_many(rows, workers=self.ctx.workers)
        judged = drawn.with_columns(
            pl.Series("answer", [v.extracted for v in verdicts], dtype=pl.String()),
            pl.Series("verdict", [v.value for v in verdicts], dtype=pl.String()),
            pl.Series("reason", [v.reason for v in verdicts], dtype=pl.String()),
            *(pl.lit(value).alias(name) for name, value in self.constants.items()),
        )
        return conform(judged, ROLLOUT_SCHEMA)

    def metrics(
        self, frame: pl.DataFrame, judged: pl.DataFrame, seconds: float
    ) -> dict[str, Metric]:
        """Figures for manifest, table and card."""
        n = len(judged)
        frontier = int(frame.select((_FRONTIER).sum()).item())
        reasons = judged["verdict"].value_counts().sort("verdict")
        return {
            "policy": self.engine.identity.model,
            "revision": self.engine.identity.revision,
            "template": self.engine.identity.template,
            "rollouts": n,
            "tokens": int(judged["tokens"].sum()),
            "generated": getattr(self.engine, "generated", n),
            "seconds_generating": round(seconds, 3),
            "verdicts": dict(zip(reasons["verdict"], reasons["count"], strict=True)),
            "truncated": int((judged["finish_reason"] == "length").sum()),
            "frontier_prompts": frontier,
            "frontier_share": frontier / max(1, len(frame)),
            "mean_pass_rate": _mean(frame, "p_hat"),
            "mean_q_hat": _mean(frame, "q_hat"),
        }


_FRONTIER = (pl.col("successes") > 0) & (
    pl.col("successes") < pl.col("attempts") - pl.col("errors")
)
_JUDGED = ["prompt_id", "sample", "answer", "verdict", "tokens", "finish_reason"]
_DRAWN = {
    name: ROLLOUT_SCHEMA[name]
    for name in (
        "prompt_id", "sample", "response", "prompt_tokens", "tokens", "finish_reason",
        "logprob_sum", "seconds",
    )
}  # fmt: skip


def frontier() -> pl.Expr:
    """True for prompts with both a success and a failure among their judged rollouts."""
    return _FRONTIER.fill_null(False)


def _messages(system: str | None, question: str) -> tuple[Message, ...]:
    user = Message("user", question)
    return (user,) if system is None else (Message("system", system), user)


def _counts(judged: pl.DataFrame) -> pl.DataFrame:
    verdict = pl.col("verdict")
    return judged.group_by("prompt_id").agg(
        pl.len().cast(pl.Int32).alias("attempts"),
        (verdict == "correct").sum().cast(pl.Int32).alias("successes"),
        (verdict == "error").sum().cast(pl.Int32).alias("errors"),
        (pl.col("finish_reason") == "length").sum().cast(pl.Int32).alias("truncated"),
        pl.col("tokens").mean().alias("mean_tokens"),
    )


def _mean(frame: pl.DataFrame, column: str) -> float | None:
    value = frame[column].mean()
    return None if value is None else float(value)  # type: ignore[arg-type]
