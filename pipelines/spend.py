"""Spending rollouts on one pool, each only once.

What the ledger holds is taken, judged anew where the verifiers have changed since, and only what is
missing is generated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from curate.engines.api import Completion, Engine, Message, Request, Sampling
from curate.pipelines.errors import PromptTooLong
from curate.pipelines.pool import ROLLOUT_SCHEMA, conform, verifier_arguments
from curate.pipelines.replay import DRAWN, SETTINGS, Replay
from curate.pipelines.step import Context, phase
from curate.verifiers.api import VERIFIER_VERSION, Row, verify_many

#: Prompts a block: small enough to hold all its rollouts, large enough to keep an engine full.
BLOCK = 2048
JUDGED = ["prompt_id", "sample", "answer", "verdict", "tokens", "finish_reason"]


@dataclass(eq=False)
class Spending:
    """One policy on one pool.

    Args:
        engine: the policy, or its stored rollouts.
        sampling: how completions are drawn.
        k: rollouts a prompt; of imported ones all are taken.
        ctx: ledger, workers, progress.

    Attributes:
        too_long: ids of prompts that do not fit the model's context, most tokens that would in
            ``limit``.
        rejudged: verdicts made anew on stored rollouts.
        changed: how many of those differ, as ``old → new`` counts.
    """

    engine: Engine | Replay
    sampling: Sampling
    k: int
    ctx: Context
    too_long: list[str] = field(default_factory=list)
    limit: int = 0
    rejudged: int = 0
    changed: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        identity, sampling = self.engine.identity, self.sampling
        #: What all these draws have in common, as the ledger keeps it.
        self.constants: dict[str, Any] = {
            "policy": identity.model,
            "revision": identity.revision,
            "template": identity.template,
            "strategy": "direct",
            "seed": sampling.seed,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        }
        if isinstance(self.engine, Replay) and self.engine.settings is not None:
            self.constants |= {name: self.engine.settings.get(name) for name in SETTINGS}

    def spend(self, prompts: pl.DataFrame) -> pl.DataFrame:
        """All judged rollouts of ``prompts`` (without texts), stored or made now.

        Args:
            prompts: pool rows with distinct ids, in a fixed order.
        """
        stored = None
        if isinstance(self.engine, Replay):
            stored = self.engine.stored(prompts, self.k, self.constants)
            if self.engine.settings is not None:
                self.k = max(stored["sample"].to_list(), default=-1) + 1
        held = self._held(prompts)
        current = pl.col("verifier_version") == VERIFIER_VERSION
        known = held.filter(current).select(JUDGED)
        stale = held.filter(~current)
        # Samples are drawn in turn, so what is held of a prompt are its first ones.
        first: dict[str, int] = dict(held.group_by("prompt_id").len().iter_rows())
        total = len(prompts) * self.k
        if stored is not None:
            stored = stored.join(held, on=["prompt_id", "sample"], how="anti")
            total = len(held) + len(stored)
        judged = [known]
        label = f"rollouts of {self.engine.identity.model}"
        with phase(self.ctx.progress, label, total, "rollouts") as progress:
            for start in range(0, len(prompts), BLOCK):
                block = prompts.slice(start, BLOCK)
                within = pl.col("prompt_id").is_in(block["id"].implode())
                old = stale.filter(within)
                if len(old):
                    judged.append(self._again(block, old))
                n_held = sum(first.get(key, 0) for key in block["id"])
                progress.advance(n_held)
                if stored is not None:
                    judged.append(self._found(block, stored.filter(within)))
                elif n_held < len(block) * self.k:
                    judged.append(self._made(block, first))
        return pl.concat(judged)

    def _same(self) -> list[pl.Expr]:
        return [
            pl.col(name).eq_missing(pl.lit(value, dtype=ROLLOUT_SCHEMA[name]))
            for name, value in self.constants.items()
        ]

    def _held(self, prompts: pl.DataFrame) -> pl.DataFrame:
        ids = prompts.lazy().select(pl.col("id").alias("prompt_id"))
        return (
            self.ctx.ledger.scan(VERIFIER_VERSION)
            .filter(*self._same(), pl.col("sample") < self.k)
            .join(ids, on="prompt_id", how="semi")
            .select(*JUDGED, "verifier_version")
            .collect()
        )

    def _again(self, block: pl.DataFrame, stale: pl.DataFrame) -> pl.DataFrame:
        """New verdicts on stored draws; returns them as ``JUDGED``."""
        which = stale.lazy().select("prompt_id", "sample")
        draws = (
            self.ctx.ledger.scan().filter(*self._same())
            .join(which, on=["prompt_id", "sample"], how="semi")
            .select(list(DRAWN))
            .collect()
        )  # fmt: skip
        rollouts = self._judge(draws, block)
        self._compare(rollouts, stale)
        self.ctx.ledger.append(rollouts)
        return rollouts.select(JUDGED)

    def _compare(self, rollouts: pl.DataFrame, stale: pl.DataFrame) -> None:
        both = rollouts.join(
            stale.select("prompt_id", "sample", pl.col("verdict").alias("was")),
            on=["prompt_id", "sample"],
        )
        self._count_changes(both["was"], both["verdict"])

    def _count_changes(self, was: pl.Series, now: pl.Series) -> None:
        """Count verdicts made anew (``was`` not null), and those that differ."""
        both = pl.DataFrame({"was": was, "now": now}).drop_nulls("was")
        self.rejudged += len(both)
        moved = both.filter(pl.col("now") != pl.col("was")).select(
            pl.format("{} → {}", "was", "now").alias("move")
        )
        for move, count in moved["move"].value_counts().iter_rows():
            self.changed[move] = self.changed.get(move, 0) + count

    def _made(self, block: pl.DataFrame, first: Mapping[str, int]) -> pl.DataFrame:
        """Draw what is missing of one block, judge it, and append it to the ledger."""
        return self._keep(self._generate(self.engine, block, first), block)

    def _found(self, block: pl.DataFrame, stored: pl.DataFrame) -> pl.DataFrame:
        """Judge stored draws of one block, and append them to the ledger under its own ids."""
        self.ctx.progress.advance(len(stored))
        judged = self._keep(stored.drop("was"), block)
        self._count_changes(stored["was"], judged["verdict"])
        return judged

    def _keep(self, drawn: pl.DataFrame, block: pl.DataFrame) -> pl.DataFrame:
        rollouts = self._judge(drawn, block)
        self.ctx.ledger.append(rollouts)
        return rollouts.select(JUDGED)

    def _generate(
        self, engine: Engine, block: pl.DataFrame, first: Mapping[str, int]
    ) -> pl.DataFrame:
        requests = [
            Request(key, _messages(system, question), self.k - first.get(key, 0), first.get(key, 0))
            for key, system, question in block.select("id", "system", "question").iter_rows()
            if first.get(key, 0) < self.k
        ]
        told = 0

        def on_batch(indices: list[int], batch: list[list[Completion]]) -> None:
            nonlocal told
            made = [completion for completions in batch for completion in completions]
            told += len(made)
            self.ctx.progress.advance(len(made), tokens=float(sum(c.tokens for c in made)))

        try:
            answers = engine.generate(requests, self.sampling, on_batch)
        except PromptTooLong as error:
            self.too_long += error.keys
            self.limit = error.limit
            # The batches before it come again, from the cache.
            gone = sum(request.n for request in requests if request.key in set(error.keys))
            self.ctx.progress.advance(gone - told)
            rest = block.filter(~pl.col("id").is_in(error.keys))
            return self._generate(engine, rest, first)
        return pl.DataFrame(
            [
                (request.key, c.sample, c.text, c.prompt_tokens, c.tokens, c.finish_reason,
                 c.logprob_sum, c.seconds)
                for request, completions in zip(requests, answers, strict=True)
                for c in completions
            ],
            schema=DRAWN,
            orient="row",
        )  # fmt: skip

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
            pl.lit(VERIFIER_VERSION).alias("verifier_version"),
            *(
                pl.lit(value, dtype=ROLLOUT_SCHEMA[name]).alias(name)
                for name, value in self.constants.items()
            ),
        )
        return conform(judged, ROLLOUT_SCHEMA)


def _messages(system: str | None, question: str) -> tuple[Message, ...]:
    user = Message("user", question)
    return (user,) if system is None else (Message("system", system), user)
