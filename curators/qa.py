"""``qa``: rows of questions and answers, in the shapes the field publishes, as prompts.

A row that cannot be used is rejected with its file, row number, field and reason.
"""

import hashlib
from itertools import islice
from typing import Any, ClassVar, cast

import polars as pl
from pydantic import Field

from curate.curators.rows import Columns, Draft, draft, json_text, paths, suggestion
from curate.pipelines.errors import ConfigError, SourceError
from curate.pipelines.mixture import Mixture, Part, as_mixture
from curate.pipelines.pool import PROMPT_SCHEMA, REJECT_SCHEMA, Pool, rejects
from curate.pipelines.readers import Problem, RawRow
from curate.pipelines.step import Context, Metric, Need, Progress, Step, StepResult, phase
from curate.verifiers.api import kinds
from curate.verifiers.verdict import read_options

#: Rows looked at before anything is read: enough to know a source's columns.
_PEEK = 1000
#: Rows turned into a frame at a time.
_CHUNK = 20_000
_SCHEMA = {name: PROMPT_SCHEMA[name] for name in (*Draft._fields, "source_id")}


class QuestionAnswer(Step):
    """Questions with answers.

    What a source states for itself under ``sources:`` overrides these settings.

    Args:
        question: column that holds the question (``a.b`` for a nested one); recognised when None.
        answer: column that holds the gold answer; recognised when None.
        kind: verifier for every row, or the column that names it; guessed by answer when None.
        system: system message for prompts that bring none.
        verifier_options: keyword options of ``verify`` for every row, such as ``{rel_tol: 0.01}``.
    """

    name: ClassVar[str] = "qa"
    version: ClassVar[int] = 2
    needs: ClassVar[frozenset[Need]] = frozenset({"source"})

    question: str | None = None
    answer: str | None = None
    kind: str | None = None
    system: str | None = None
    verifier_options: dict[str, object] = Field(default_factory=dict)

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        """Read every source.

        Raises:
            ConfigError: a column, kind or verifier option named in the settings does not exist.
            SourceError: a file cannot be read, or a weighted source has no usable row.
        """
        mixture = as_mixture(ctx.source)
        every = [self._columns(part) for part in mixture.parts]
        kept: list[pl.DataFrame] = []
        rejected: list[pl.DataFrame] = []
        told: dict[str, Metric] = {}
        for part, columns in zip(mixture.parts, every, strict=True):
            read, good, bad = self._read(part, columns, ctx.progress)
            kept.append(good)
            rejected.append(bad)
            told[part.name] = {"read": read, "prompts": len(good)}
        frame = Pool.from_columns(pl.concat(kept)).frame
        sizes = [len(good) for good in kept]
        over = _over_weight(frame["id"], sizes, mixture, ctx.seed)
        if over is not None:
            detail = "left out to keep the sources' weights; no prompt is repeated to reach one"
            rejected.append(rejects(frame.filter(over), self.name, "over_weight", detail))
            frame = frame.filter(~over)
        return StepResult(
            kept=Pool(frame),
            rejected=pl.concat(rejected),
            read=sum(cast(dict[str, int], figures)["read"] for figures in told.values()),
            metrics={"files": sum(len(part.source.files) for part in mixture.parts),
                     "sources": told},
        )  # fmt: skip

    def _columns(self, part: Part) -> Columns:
        """Check the settings against the source's first rows."""
        spec, source = part.spec, part.source
        question = spec.question or self.question
        answer = spec.answer or self.answer
        kind = spec.kind or self.kind
        seen: dict[str, None] = {}
        for _, row in islice(source.rows(), _PEEK):
            if row.problem is None:
                seen |= dict.fromkeys(paths(row.record))
        for setting, value in (("question", question), ("answer", answer)):
            if value is not None and seen and value not in seen:
                raise ConfigError(
                    f"--{setting} {value!r}: {part.name} has no such column"
                    + suggestion(value, list(seen))
                )
        column = None
        if kind is not None and kind not in kinds():
            if kind not in seen:
                raise ConfigError(
                    f"--kind {kind!r}: neither a verifier ({', '.join(kinds())}) nor a column"
                    f" of {part.name}" + suggestion(kind, [*kinds(), *seen])
                )
            kind, column = None, kind
        read_options(self._options(part))
        return Columns(question, answer, kind, column, spec.system or self.system)

    def _options(self, part: Part) -> dict[str, object]:
        return {**self.verifier_options, **part.spec.verifier_options}

    def _read(
        self, part: Part, columns: Columns, progress: Progress
    ) -> tuple[int, pl.DataFrame, pl.DataFrame]:
        """Number of rows read, prompts to be, and rejected rows of one source."""
        read = 0
        kept: list[pl.DataFrame] = []
        rejected: list[pl.DataFrame] = []
        with phase(progress, f"reading {part.name}", None, "rows"):
            rows = part.source.rows()
            while chunk := list(islice(rows, _CHUNK)):
                good, bad = self._chunk(chunk, columns, f"{part.label}/" if part.label else "")
                kept.append(good)
                rejected.append(bad)
                read += len(chunk)
                progress.advance(len(chunk))
        stated = {"domain": part.spec.domain, "language": part.spec.language,
                  "license": part.license}  # fmt: skip
        frame = pl.concat(kept).with_columns(
            pl.col(name).fill_null(pl.lit(value, dtype=pl.String())) for name, value in
            stated.items()
        )  # fmt: skip
        if part.label:
            frame = frame.with_columns(pl.lit(part.label).alias("source"))
        if options := self._options(part):
            frame = frame.with_columns(pl.lit(json_text(options)).alias("verifier_options"))
        else:
            frame = frame.with_columns(pl.lit("{}").alias("verifier_options"))
        return read, frame, pl.concat(rejected)

    def _chunk(
        self, chunk: list[tuple[str, RawRow]], columns: Columns, label: str
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        good: list[tuple[Any, ...]] = []
        bad: list[tuple[Any, ...]] = []
        for file, row in chunk:
            found = row.problem or draft(row.record, columns)
            place = f"{label}{file}:{row.row}"
            if isinstance(found, Problem):
                name = label.rstrip("/") or file
                bad.append((None, name, place, self.name, *found, json_text(row.record)))
            else:
                good.append((*found[:-1], found.source or file, place))
        try:
            frame = pl.DataFrame(good, schema=_SCHEMA, orient="row")
        except (UnicodeEncodeError, pl.exceptions.PolarsError):
            # A lone surrogate, which JSON may spell but no text holds: find the rows it is in.
            frame, more = _encodable(good, self.name)
            bad += more
        return frame, pl.DataFrame(bad, schema=REJECT_SCHEMA, orient="row")


def _over_weight(ids: pl.Series, sizes: list[int], mixture: Mixture, seed: int) -> pl.Series | None:
    """True for prompts that the weights leave out, or None when there are no weights."""
    weights = [part.spec.weight for part in mixture.parts]
    if len(weights) < 2 or None in weights:
        return None
    empty = [part.name for part, size in zip(mixture.parts, sizes, strict=True) if not size]
    if empty:
        raise SourceError(
            f"{empty[0]}: has no usable row, so no mixture holds its weight; "
            "leave the source or the weights out"
        )
    stated = [cast(float, weight) for weight in weights]
    scale = min(size / weight for size, weight in zip(sizes, stated, strict=True))
    over: list[bool] = []
    start = 0
    for size, weight in zip(sizes, stated, strict=True):
        keep = min(size, max(1, round(weight * scale)))
        # By hash, so that which prompts stay does not depend on the order of the rows.
        draw = [_draw(key, seed) for key in ids[start : start + size]]
        ranked = sorted(range(size), key=lambda row: (draw[row], row))
        left_out = set(ranked[keep:])
        over += [row in left_out for row in range(size)]
        start += size
    return pl.Series(over, dtype=pl.Boolean())


def _draw(key: str, seed: int) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=8, key=f"mixture {seed}".encode()).digest()


def _encodable(
    rows: list[tuple[Any, ...]], step: str
) -> tuple[pl.DataFrame, list[tuple[Any, ...]]]:
    good, bad = [], []
    for row in rows:
        text = json_text(dict(zip(_SCHEMA, row, strict=True)))
        try:
            good.append(pl.DataFrame([row], schema=_SCHEMA, orient="row"))
        except (UnicodeEncodeError, pl.exceptions.PolarsError):
            detail = "holds half of a surrogate pair, which is no character"
            bad.append((None, *row[-2:], step, "bad_encoding", None, detail, text))
    return pl.concat(good) if good else pl.DataFrame(schema=_SCHEMA), bad
