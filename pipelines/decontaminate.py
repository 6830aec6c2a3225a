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
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field, field_validator

from curate.curators.rows import Columns, draft
from curate.pipelines import overlap
from curate.pipelines.errors import ConfigError, SourceError
from curate.pipelines.files import write_parquet
from curate.pipelines.near import sketches
from curate.pipelines.pool import Pool, no_rejects, rejects
from curate.pipelines.readers import Problem
from curate.pipelines.sources import open_source
from curate.pipelines.step import Context, Metric, Step, StepResult, phase

#: Prompts compared at a time.
_CHUNK = 50_000
_NO_ANSWER = "\x00answer"

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
        against: benchmark files, as ``--source`` takes them.
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

    against: tuple[str, ...] = Field(min_length=1)
    question: str | None = None
    answer: str | None = None
    ngram: int = Field(default=13, ge=4)
    short_ngram: int = Field(default=8, ge=4)
    min_overlap: float = Field(default=0.5, ge=0, le=1)
    similarity: float = Field(default=0.6, gt=0.3, lt=1)
    action: Literal["reject", "flag"] = "reject"

    @field_validator("against")
    @classmethod
    def _there(cls, against: tuple[str, ...]) -> tuple[str, ...]:
        """A missing benchmark stops a build before any work."""
        for uri in against:
            try:
                open_source(uri)
            except SourceError as error:
                raise ValueError(f"benchmark {error}") from error
        return against

    def inputs(self) -> Mapping[str, str]:
        """Digests of the benchmarks.

        Raises:
            ConfigError: a benchmark is not there.
        """
        try:
            return {uri: open_source(uri).digest for uri in self.against}
        except SourceError as error:
            raise ConfigError(f"decontaminate.against: {error}") from error

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        """Match every prompt with every benchmark question.

        Raises:
            ConfigError: a benchmark holds no question that can be read.
        """
        bench, metrics = self._benchmarks()
        questions = overlap.prepare(bench)
        sketched = sketches(questions["words"], overlap.SHINGLE)
        found: list[pl.DataFrame] = [pl.DataFrame(schema=_MATCHES)]
        with phase(ctx.progress, "decontaminating", len(pool), "prompts") as progress:
            for start in range(0, len(pool), _CHUNK):
                part = overlap.prepare(pool.frame[start : start + _CHUNK])
                found.append(self._match(part, questions, sketched, start))
                progress.advance(part.height)
        matches = self._report(pl.concat(found), pool.frame, bench, questions)
        write_parquet(matches.drop("_row"), ctx.artifact / "contamination.parquet")
        for (name, rule), rows in matches.group_by("benchmark", "rule"):
            figures = metrics[str(name)]
            if isinstance(figures, dict):
                figures[str(rule)] = rows["id"].n_unique()
        return self._split(pool, matches, {"benchmarks": dict(metrics)})

    def _match(
        self,
        part: pl.DataFrame,
        bench: pl.DataFrame,
        bench_sketches: npt.NDArray[np.uint32],
        start: int,
    ) -> pl.DataFrame:
        row, other, n, share = overlap.shared_runs(part, bench, self.ngram, self.short_ngram)
        runs = pl.DataFrame({"_row": row, "_bench": other, "overlap": share, "_n": n}).filter(
            pl.col("overlap") > self.min_overlap
        )
        row, other, score = overlap.alike(part, bench, bench_sketches, self.similarity)
        same = (
            (part["words"][row] == bench["words"][other])
            & (part["signature"][row] == bench["signature"][other])
        )  # fmt: skip
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
        ranks = ["exact", "ngram", "short_ngram", "near_question"]
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
            .sort("_row", pl.col("rule").replace_strict(ranks, [0, 1, 2, 3], return_dtype=pl.Int8),
                  pl.col("overlap").fill_null(0) * -1, maintain_order=True)
        )  # fmt: skip

    def _split(self, pool: Pool, matches: pl.DataFrame, metrics: dict[str, Metric]) -> StepResult:
        names = ["benchmark", "benchmark_row", "rule", "overlap", "similarity"]
        notes: dict[int, list[dict[str, object]]] = {}
        details: dict[int, str] = {}
        for match in matches.iter_rows(named=True):
            row = match["_row"]
            notes.setdefault(row, []).append({name: match[name] for name in names})
            share = match["overlap"] if match["overlap"] is not None else match["similarity"]
            details.setdefault(
                row,
                f"{match['benchmark']}:{match['benchmark_row']} by {match['rule']} "
                f"({share:.2f}): {match['matched'][:120]}",
            )
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

    def _benchmarks(self) -> tuple[pl.DataFrame, dict[str, Metric]]:
        """Benchmark questions with file, row, question and answer; and counts by file."""
        columns = Columns(self.question, self.answer, None, None, None)
        rows: list[tuple[str, int, str, str]] = []
        counts: dict[str, dict[str, Metric]] = {}
        for uri in self.against:
            read = unusable = 0
            for file, raw in open_source(uri).rows():
                read += 1
                made = raw.problem or draft(raw.record, columns)
                if isinstance(made, Problem) and raw.problem is None:
                    # Test sets without answers still have questions.
                    bare = {**raw.record, _NO_ANSWER: "-"}
                    made = draft(bare, columns._replace(answer=_NO_ANSWER, kind="text"))
                    made = made if isinstance(made, Problem) else made._replace(answer="")
                if isinstance(made, Problem):
                    unusable += 1
                    continue
                rows.append((file, raw.row, made.question, made.answer))
                figures = counts.setdefault(file, {"rows": 0})
                figures["rows"] = int(str(figures["rows"])) + 1
            if unusable == read:
                raise ConfigError(
                    f"decontaminate.against {uri}: no row has a question that is recognised; "
                    "name its column with decontaminate.question"
                )
        schema = {"benchmark": pl.String(), "row": pl.Int64(), "question": pl.String(),
                  "answer": pl.String()}  # fmt: skip
        named: dict[str, Metric] = {name: dict(figures) for name, figures in counts.items()}
        return pl.DataFrame(rows, schema=schema, orient="row"), named
