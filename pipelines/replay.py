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
from curate.pipelines.pool import ROLLOUT_SCHEMA, Schema

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

    def stored(self, prompts: pl.DataFrame, k: int, settings: Mapping[str, object]) -> pl.DataFrame:
        """The draws of each prompt: its own, then those of the same text under another id.

        Args:
            prompts: rows with distinct ``id``, ``system`` and ``question``.
            k: most draws a prompt; of imported ones, which no recipe asked for, all are taken.
            settings: values of ``SETTINGS`` that draws out of a ledger must have been made with.

        Returns:
            ``DRAWN`` rows under the prompts' own ids, and ``was``, the verdict a draw has had under
            another id, or null; none for a prompt that has no draws.
        """
        numbered = self.draws.with_row_index("_row")
        if self.settings is None:
            numbered = numbered.filter(
                [pl.col(name).eq_missing(pl.lit(settings[name])) for name in SETTINGS]
            )
        wanted = prompts.select(
            pl.col("id").alias("_id"), text_key(prompts, self.with_system).alias("text")
        )
        by_id = numbered.drop("text").join(wanted, left_on="prompt_id", right_on="_id", how="inner")
        by_text = numbered.join(wanted, on="text", how="inner")
        was = pl.col("verdict") if "verdict" in numbered.columns else pl.lit(None, pl.String())
        found = pl.concat(
            [
                by_id.select("_row", *DRAWN, pl.lit(None, pl.String()).alias("was")),
                by_text.with_columns(pl.col("_id").alias("prompt_id")).select(
                    "_row", *DRAWN, was.alias("was")
                ),
            ]
        )
        if self.settings is None:
            # Under two ids one number means two draws; the prompt's own comes first.
            own = found.unique(["prompt_id", "sample"], keep="first", maintain_order=True)
            return own.filter(pl.col("sample") < k).select(*DRAWN, "was")
        place = pl.struct(pl.col("sample").fill_null(0), "_row").rank("ordinal").over("prompt_id")
        return found.unique(["prompt_id", "_row"], keep="first", maintain_order=True).select(
            *(
                (place - 1).cast(pl.Int32).alias(name) if name == "sample" else pl.col(name)
                for name in DRAWN
            ),
            "was",
        )

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
