"""Check: reject what no rollout should be spent on, before any is.

A record must have readable text, a question of sane length, consistent choices, a known verifier,
and a gold that this verifier can use (it must verify against itself).
"""

from typing import ClassVar

import polars as pl
from pydantic import Field

from curate.pipelines.pool import Pool, no_rejects, rejects, verifier_arguments
from curate.pipelines.step import Context, Need, Step, StepResult, phase
from curate.verifiers.api import check_golds, kinds

#: Replacement character, and controls other than tab, newline and carriage return.
_BROKEN = r"[\x{FFFD}\x00-\x08\x0B\x0C\x0E-\x1F\x7F]"
#: Golds checked between two progress reports.
_CHUNK = 50_000


class Check(Step):
    """Reject unusable records.

    Args:
        max_chars: longest question, in characters.
        max_gold_chars: longest gold, in characters; a longer one is prose, not an answer.
    """

    name: ClassVar[str] = "check"
    needs: ClassVar[frozenset[Need]] = frozenset({"verifiers"})

    max_chars: int = Field(default=20_000, ge=1)
    max_gold_chars: int = Field(default=2_000, ge=1)

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        """Apply the cheap rules to all rows at once, then try every distinct gold of the rest."""
        frame = pool.frame.with_columns(self._fault().alias("_fault"))
        sound = frame.filter(pl.col("_fault").is_null())
        broken = frame.filter(pl.col("_fault").is_not_null())
        problems = self._golds(sound, ctx)
        sound = sound.with_columns(problems.alias("_gold"))
        bad_gold = sound.filter(pl.col("_gold").is_not_null())
        rejected = [
            rejects(
                broken,
                self.name,
                pl.col("_fault").struct.field("reason"),
                pl.col("_fault").struct.field("detail"),
            ).with_columns(broken["_fault"].struct.field("field").alias("field")),
            rejects(
                bad_gold,
                self.name,
                "bad_gold",
                pl.format("{}: {} cannot use {}", "_gold", "kind", pl.col("answer").str.head(200)),
                "answer",
            ),
        ]
        kept = sound.filter(pl.col("_gold").is_null()).drop("_fault", "_gold")
        return StepResult(kept=Pool(kept), rejected=pl.concat([no_rejects(), *rejected]))

    def _fault(self) -> pl.Expr:
        """Struct of reason, field and detail for the first rule a row breaks, else null."""
        question, answer, choices = pl.col("question"), pl.col("answer"), pl.col("choices")
        length, gold_length = question.str.len_chars(), answer.str.len_chars()
        known = pl.col("kind").is_in(kinds())
        system = pl.col("system").fill_null("")
        doubled = choices.list.eval(pl.element().str.strip_chars()).list.n_unique()
        return (
            pl.when(question.str.strip_chars() == "").then(_told("empty_question", "question", ""))
            .when(length > self.max_chars).then(_told("too_long", "question", pl.format(
                "{} characters; at most {}", length, self.max_chars)))
            .when(pl.concat_str(question, system).str.contains(_BROKEN)).then(_told(
                "bad_text", "question", "control or replacement characters: the text is damaged"))
            .when(answer.str.contains(_BROKEN)).then(_told(
                "bad_text", "answer", "control or replacement characters: the text is damaged"))
            .when(~known).then(_told("unknown_kind", "kind", pl.format(
                "{}; known: {}", "kind", pl.lit(", ".join(kinds())))))
            .when(gold_length > self.max_gold_chars).then(_told("bad_gold", "answer", pl.format(
                "{} characters; at most {}", gold_length, self.max_gold_chars)))
            .when(doubled < choices.list.len()).then(_told(
                "bad_choices", "choices", "the same option is there more than once"))
        )  # fmt: skip

    def _golds(self, frame: pl.DataFrame, ctx: Context) -> pl.Series:
        """Why each row's gold cannot be used, or null."""
        columns = ["kind", "answer", "verifier_options", "choices"]
        # Lists have no cheap identity: their JSON text has.
        keyed = frame.select(*columns[:3], pl.col("choices").list.join("\x1e"))
        distinct = keyed.with_row_index("_row").unique(subset=columns, maintain_order=True)
        rows = frame[distinct["_row"]].select(columns)
        triples = [
            (kind, answer, verifier_arguments(options, choices))
            for kind, answer, options, choices in rows.iter_rows()
        ]
        found: list[str | None] = []
        with phase(ctx.progress, "checking golds", len(triples), "golds") as progress:
            for start in range(0, len(triples), _CHUNK):
                part = triples[start : start + _CHUNK]
                verdicts = check_golds(part, workers=ctx.workers)
                found += [None if v.value == "correct" else v.reason for v in verdicts]
                progress.advance(len(part))
        judged = distinct.select(columns).with_columns(pl.Series("_gold", found, dtype=pl.String()))
        return keyed.join(judged, on=columns, how="left", nulls_equal=True, maintain_order="left")[
            "_gold"
        ]


def _told(reason: str, field: str, detail: str | pl.Expr) -> pl.Expr:
    return pl.struct(
        pl.lit(reason).alias("reason"),
        pl.lit(field).alias("field"),
        (detail if isinstance(detail, pl.Expr) else pl.lit(detail)).alias("detail"),
    )
