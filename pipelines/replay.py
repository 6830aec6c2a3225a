"""Rollouts that are there already, in place of an engine: a build that generates nothing.

Used to re-verify a build from its ledger, and to measure with rollouts made elsewhere. Draws are
found by prompt id, or, where a corrected gold or another verifier option has given the prompt a new
id, by what the policy saw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from curate.engines.api import Completion, EngineIdentity, OnBatch, Request, Sampling
from curate.pipelines.errors import EngineError
from curate.pipelines.pool import ROLLOUT_SCHEMA, Schema, conform

#: What a draw brings besides its prompt and its settings.
DRAWN: Schema = {
    name: ROLLOUT_SCHEMA[name]
    for name in (
        "prompt_id", "sample", "response", "prompt_tokens", "tokens", "finish_reason",
        "logprob_sum", "seconds",
    )
}  # fmt: skip
SETTINGS = ("seed", "temperature", "top_p", "max_tokens")


@dataclass
class Replay:
    """A policy's stored rollouts; it has no model and never generates.

    Args:
        identity: the policy as recorded.
        draws: ``DRAWN`` columns and ``text`` (see ``text_key``); ``prompt_id`` or ``text`` may be
            null, and for draws out of a ledger the columns of ``SETTINGS``.
        settings: how the draws were sampled, where that is the same for all of them and may differ
            from what the recipe says; None to take only draws made with the recipe's settings.
        with_system: ``text`` holds the system message too.

    Attributes:
        generated: always 0.
    """

    identity: EngineIdentity
    draws: pl.DataFrame
    settings: Mapping[str, object] | None = None
    with_system: bool = True
    generated: int = field(default=0, init=False)

    def most(self, k: int) -> int:
        """Rollouts a prompt to take where a recipe asks for ``k``: of imported ones, all."""
        if self.settings is None or self.draws.is_empty():
            return k
        return int(self.draws["sample"].max()) + 1  # type: ignore[arg-type]

    def stored(self, prompts: pl.DataFrame, k: int, settings: Mapping[str, object]) -> pl.DataFrame:
        """The first ``k`` draws of each prompt.

        Args:
            prompts: rows with ``id``, ``system`` and ``question``.
            k: most draws a prompt.
            settings: values of ``SETTINGS`` that the draws must have been made with.

        Returns:
            ``DRAWN`` rows under the prompts' own ids; none for a prompt that has no draws.
        """
        draws = self.draws
        if self.settings is None:
            draws = draws.filter(
                [pl.col(name).eq_missing(pl.lit(settings[name])) for name in SETTINGS]
            )
        wanted = prompts.select("id", text_key(prompts, self.with_system).alias("text"))
        by_id = draws.filter(pl.col("prompt_id").is_not_null()).join(
            wanted.select("id"), left_on="prompt_id", right_on="id", how="semi"
        )
        rest = wanted.filter(~pl.col("id").is_in(by_id["prompt_id"].implode()))
        by_text = draws.join(rest, on="text", how="inner").with_columns(
            pl.col("id").alias("prompt_id")
        )
        found = pl.concat([conform(part.select(list(DRAWN)), DRAWN) for part in (by_id, by_text)])
        return found.unique(
            subset=["prompt_id", "sample"], keep="last", maintain_order=True
        ).filter(pl.col("sample") < k)

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_batch: OnBatch | None = None,
    ) -> list[list[Completion]]:
        """Refuse: nothing may be generated here."""
        raise EngineError(f"{self.identity.model}: only stored rollouts are at hand, no model")

    def close(self) -> None:
        """Nothing to free."""


def text_key(prompts: pl.DataFrame, with_system: bool) -> pl.Series:
    """What the policy saw, white space collapsed.

    Args:
        prompts: rows with ``question`` and ``system``.
        with_system: put the system message in front.
    """
    question = pl.col("question").str.replace_all(r"\s+", " ").str.strip_chars()
    system = pl.col("system").fill_null("")
    text = pl.concat_str(system, question, separator="\x1f") if with_system else question
    return prompts.select(text.alias("text"))["text"]
