"""Decontaminate: find prompts that a benchmark also holds, and say which row of it.

Four rules, the first that fits names the match:

- ``exact``: the same words and the same signature (``curate.pipelines.guard``).
- ``ngram``: a run of ``ngram`` words in common, where both questions have as many, and more than
  ``min_overlap`` of the benchmark question's runs.
- ``short_ngram``: the same with ``short_ngram`` words, where the shorter question has fewer than
  ``ngram``. A question of fewer than ``short_ngram`` words is matched by no run: it would match
  everywhere.
- ``near_question``: Jaccard similarity of the whole questions, and the same numbers and operators
  or the same answer.
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field, field_validator

from curate.pipelines import overlap
from curate.pipelines.benchmarks import open_benchmark, read_benchmarks
from curate.pipelines.errors import ConfigError, UsageError
from curate.pipelines.files import write_parquet
from curate.pipelines.hub import PREFIX
from curate.pipelines.pool import Pool, no_rejects, rejects
from curate.pipelines.step import Context, Metric, Step, StepResult, phase

#: Prompts compared at a time.
_CHUNK = 50_000
#: The report of which prompt matched which benchmark row, in the step's artifact.
REPORT = "contamination.parquet"
#: Rules, the strongest first.
RULES = ("exact", "ngram", "short_ngram", "near_question")

_MATCHES = {
    "_row": pl.Int64(),  # of the pool
    "_bench": pl.Int64(),
    "rule": pl.String(),
    "overlap": pl.Float64(),  # share of the benchmark question's runs, or null
    "similarity": pl.Float64(),  # Jaccard of the whole questions, or null
    "_n": pl.Int64(),  # words of a run
}


class Decontaminate(Step):
    """Reject or flag prompts found in benchmarks.

    Args:
        against: benchmarks: files, folders, globs or ``hf:`` datasets, as ``--source`` takes them;
            one may be given without a list. None compares with nothing, and the build says so.
        question: their question column; recognised when None.
        answer: their answer column; recognised when None.
        ngram: words of a run.
        short_ngram: words of a run of questions shorter than ``ngram``.
        min_overlap: a match holds more than this share of a benchmark question's runs, 0…1; runs
            of boilerplate alone stay below it.
        similarity: least Jaccard similarity of a near question.
        action: ``reject``, or ``flag`` to keep the prompt; both note the match in ``metadata``.
    """

    name: ClassVar[str] = "decontaminate"
    version: ClassVar[int] = 3

    against: tuple[str, ...] = ()
    question: str | None = None
    answer: str | None = None
    ngram: int = Field(default=13, ge=4)
    short_ngram: int = Field(default=8, ge=4)
    min_overlap: float = Field(default=0.5, ge=0, le=1)
    similarity: float = Field(default=0.6, gt=0.3, lt=1)
    action: Literal["reject", "flag"] = "reject"

    @field_validator("against", mode="before")
    @classmethod
    def _listed(cls, against: object) -> object:
        """A single benchmark needs no list."""
        return (against,) if isinstance(against, str) else against

    @field_validator("against")
    @classmethod
    def _there(cls, against: tuple[str, ...]) -> tuple[str, ...]:
        """A missing file stops a build before any work; the hub is asked only when it is needed."""
        for uri in dict.fromkeys(against):
            try:
                if not uri.startswith(PREFIX):
                    open_benchmark(uri)
            except UsageError as error:
                raise ValueError(f"benchmark {error}") from error
        return tuple(dict.fromkeys(against))

    def inputs(self) -> Mapping[str, str]:
        """Digests of the benchmarks.

        Raises:
            ConfigError: a benchmark is not there.
        """
        try:
            return {uri: open_benchmark(uri).digest for uri in self.against}
        except UsageError as error:
            raise ConfigError(f"decontaminate.against: {error}") from error

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        """Match every prompt with every benchmark question.

        Raises:
            ConfigError: a benchmark holds no question that can be read.
        """
        if not self.against:
            return StepResult(kept=pool, metrics={"benchmarks": {}, "matched": 0})
        sources = [open_benchmark(uri) for uri in self.against]
        known = read_benchmarks(sources, self.question, self.answer)
        bench = overlap.Benchmark(known.frame, self.ngram, self.short_ngram)
        found: list[pl.DataFrame] = [pl.DataFrame(schema=_MATCHES)]
        with phase(ctx.progress, "decontaminating", len(pool), "prompts") as progress:
            for start in range(0, len(pool), _CHUNK):
                part = overlap.prepare(pool.frame[start : start + _CHUNK])
                found.append(self._match(part, bench, start))
                progress.advance(part.height)
        matches = self._report(pl.concat(found), pool.frame, known.frame, bench.prepared)
        write_parquet(matches.drop("_row"), ctx.artifact / REPORT)
        figures = {name: dict(told) for name, told in known.figures.items()}
        for name, rows in matches.group_by("benchmark"):
            figures[str(name[0])]["matched"] = rows["_row"].n_unique()
        for (name, rule), rows in matches.group_by("benchmark", "rule"):
            figures[str(name)][str(rule)] = rows["_row"].n_unique()
        return self._split(pool, matches, {"benchmarks": dict(figures)})

    def _match(self, part: pl.DataFrame, bench: overlap.Benchmark, start: int) -> pl.DataFrame:
        row, other, n, share = overlap.shared_runs(part, bench)
        runs = pl.DataFrame({"_row": row, "_bench": other, "overlap": share, "_n": n}).filter(
            pl.col("overlap") > self.min_overlap
        )
        row, other, score = overlap.alike(part, bench, self.similarity)
        same = pl.Series(np.ones(len(row), bool))
        for column in ("words", "signature"):
            same &= part[column][row] == bench.prepared[column][other]
        near = pl.DataFrame({"_row": row, "_bench": other, "similarity": score, "_same": same})
        both = runs.join(near, on=["_row", "_bench"], how="full", coalesce=True)
        rule = (
            pl.when(pl.col("_same").fill_null(False)).then(pl.lit("exact"))
            .when(pl.col("_n") == self.ngram).then(pl.lit("ngram"))
            .when(pl.col("_n").is_not_null()).then(pl.lit("short_ngram"))
            .otherwise(pl.lit("near_question"))
        )  # fmt: skip
        return (
            both.with_columns(rule.alias("rule"), pl.col("_row") + start)
            .select(pl.col(name).cast(kind) for name, kind in _MATCHES.items())
            .sort("_row", "_bench")
        )

    def _report(
        self, found: pl.DataFrame, frame: pl.DataFrame, bench: pl.DataFrame, words: pl.DataFrame
    ) -> pl.DataFrame:
        """Matches with names instead of row numbers, best first for each prompt."""
        rows, others = found["_row"].to_numpy(), found["_bench"].to_numpy()
        texts = overlap.prepare(frame[rows])["words"]
        snippets = [
            overlap.first_run(here, there, int(n)) if n else there
            for here, there, n in zip(texts, words["words"][others], found["_n"], strict=True)
        ]
        return (
            found.select(
                "_row",
                frame["id"][rows].alias("id"),
                frame["source_id"][rows].alias("source_id"),
                bench["benchmark"][others].alias("benchmark"),
                bench["row"][others].alias("benchmark_row"),
                "rule",
                "overlap",
                "similarity",
                pl.Series("matched", snippets, dtype=pl.String()),
                pl.lit(self.action).alias("action"),
            )
            .sort("_row", pl.col("rule").cast(pl.Enum(RULES)),
                  pl.col("overlap").fill_null(0) * -1, maintain_order=True)
        )  # fmt: skip

    def _split(self, pool: Pool, matches: pl.DataFrame, metrics: dict[str, Metric]) -> StepResult:
        names = ["benchmark", "benchmark_row", "rule", "overlap", "similarity"]
        notes: dict[int, list[dict[str, object]]] = {}
        details: dict[int, str] = {}
        for match in matches.iter_rows(named=True):
            row = match["_row"]
            notes.setdefault(row, []).append({name: match[name] for name in names})
            details.setdefault(row, self._detail(match))
        noted = list(pool.frame["metadata"])
        for row, note in notes.items():
            noted[row] = json.dumps({**json.loads(noted[row]), "contamination": note})
        frame = pool.frame.with_columns(pl.Series("metadata", noted, dtype=pl.String()))
        metrics["matched"] = len(notes)
        if self.action == "flag":
            return StepResult(kept=Pool(frame), rejected=no_rejects(), metrics=metrics)
        hit = np.zeros(frame.height, bool)
        hit[list(notes)] = True
        told = pl.Series("_detail", [details[row] for row in sorted(details)], dtype=pl.String())
        gone = frame.filter(pl.Series(hit)).with_columns(told)
        return StepResult(
            kept=Pool(frame.filter(pl.Series(~hit))),
            rejected=rejects(gone, self.name, "contaminated", pl.col("_detail"), "question"),
            metrics=metrics,
        )

    def _detail(self, match: Mapping[str, Any]) -> str:
        """One match as a readable line."""
        words = {"ngram": self.ngram, "short_ngram": self.short_ngram}.get(match["rule"])
        if words:
            why = f"{100 * match['overlap']:.0f} % of its runs of {words} words"
        elif match["rule"] == "exact":
            why = "the same text"
        else:
            why = f"{match['similarity']:.2f} similar"
        where = f"{match['benchmark']}:{match['benchmark_row']}"
        return f"{where} by {match['rule']} ({why}): {match['matched'][:120]}"
