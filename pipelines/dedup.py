"""Dedup: one prompt a question, and none whose copies disagree about the answer.

Two prompts are the same when system message, question and choices are, after Unicode NFKC, case
folding and collapsing white space. Copies with one gold keep the first in the order of
``source_id``'s position in the pool; copies whose golds differ are all set aside, because at least
one of them is wrong and nothing here can say which.
"""

from typing import ClassVar

import polars as pl

from curate.pipelines.pool import Pool, rejects
from curate.pipelines.step import Context, Step, StepResult


class Dedup(Step):
    """Exact duplicates, after normalisation."""

    name: ClassVar[str] = "dedup"

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        """Keep the first of equal prompts; set aside all prompts with conflicting golds."""
        frame = pool.frame.with_row_index("_row").with_columns(
            _same_text().hash(seed=0).alias("_hash")
        )
        # Only rows that share a hash can be copies; texts are compared for those alone.
        groups = (
            frame.filter(pl.col("_hash").is_duplicated())
            .select("_row", "id", "source_id", _same_text().alias("_text"), _gold().alias("_gold"))
            .with_columns(
                pl.len().over("_text").alias("_copies"),
                pl.col("_gold").n_unique().over("_text").alias("_golds"),
                pl.col("_row").min().over("_text").alias("_first"),
                pl.col("source_id").sort_by("_row").first().over("_text").alias("_kept"),
            )
            .filter(pl.col("_copies") > 1)
        )
        out = groups.filter((pl.col("_golds") > 1) | (pl.col("_row") > pl.col("_first"))).select(
            "_row",
            pl.when(pl.col("_golds") > 1)
            .then(pl.lit("conflicting_gold"))
            .otherwise(pl.lit("duplicate"))
            .alias("_reason"),
            pl.when(pl.col("_golds") > 1)
            .then(pl.format("{} copies with {} different golds, first at {}", "_copies", "_golds",
                            pl.col("_kept").fill_null("?")))
            .otherwise(pl.format("copy of {}", pl.col("_kept").fill_null("?")))
            .alias("_detail"),
        )  # fmt: skip
        left = frame.join(out, on="_row", how="inner", maintain_order="left")
        kept = frame.join(out, on="_row", how="anti", maintain_order="left")
        return StepResult(
            kept=Pool(kept.drop("_row", "_hash")),
            rejected=rejects(left, self.name, pl.col("_reason"), pl.col("_detail"), "question"),
        )


def _plain(expression: pl.Expr) -> pl.Expr:
    return (
        expression.str.normalize("NFKC")
        .str.to_lowercase()
        .str.replace_all(r"\s+", " ")
        .str.strip_chars()
    )


def _same_text() -> pl.Expr:
    parts = (
        pl.col("system").fill_null(""),
        pl.col("question"),
        pl.col("choices").list.join("\x1e").fill_null(""),
    )
    return pl.concat_str([_plain(part) for part in parts], separator="\x1f")


def _gold() -> pl.Expr:
    return pl.concat_str(pl.col("kind"), _plain(pl.col("answer")), separator="\x1f")
