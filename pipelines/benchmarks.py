"""Benchmarks to compare prompts with: opened like sources, read into questions and answers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from curate.curators.rows import Columns, Draft, draft
from curate.pipelines.errors import ConfigError
from curate.pipelines.hub import PREFIX, HubSource, open_hub
from curate.pipelines.readers import Problem, RawRow
from curate.pipelines.sources import STDIN, Source, open_source
from curate.pipelines.step import Metric

_NO_ANSWER = "\x00answer"
_SCHEMA = {
    "benchmark": pl.String(), "row": pl.Int64(), "question": pl.String(), "answer": pl.String(),
}  # fmt: skip


@dataclass(frozen=True)
class Questions:
    """What benchmarks hold.

    Args:
        frame: ``benchmark`` (file, or dataset and split), ``row`` in it from 1, ``question`` and
            ``answer``, which is empty where a row has none.
        figures: benchmark → ``rows`` with a question, rows that are ``unusable``, and ``digest`` of
            the source it belongs to.
    """

    frame: pl.DataFrame
    figures: dict[str, dict[str, Metric]]


def open_benchmark(uri: str) -> Source | HubSource:
    """Open one benchmark.

    Args:
        uri: file, folder, glob, or ``hf:owner/name[@revision][:config][:split]``.

    Raises:
        ConfigError: standard input is asked for, which can be read only once.
        SourceError: it is not there or cannot be read.
        UsageError: an ``hf:`` URI makes no sense, or ``datasets`` is not installed.
    """
    if uri == STDIN:
        raise ConfigError("-: standard input can be read only once; give a file")
    return open_hub(uri) if uri.startswith(PREFIX) else open_source(uri)


def read_benchmarks(
    sources: Sequence[Source | HubSource], question: str | None = None, answer: str | None = None
) -> Questions:
    """Read every question.

    Args:
        sources: opened benchmarks.
        question: their question column; recognised when None.
        answer: their answer column; recognised when None.

    Raises:
        ConfigError: a benchmark has no row whose question is recognised.
        SourceError: a benchmark cannot be read.
    """
    columns = Columns(question, answer, None, None, None)
    rows: list[tuple[str, int, str, str]] = []
    usable: Counter[str] = Counter()
    unusable: Counter[str] = Counter()
    digests: dict[str, str] = {}
    shared = _shared_names(sources)
    for source in sources:
        before = usable.total()
        for file, raw in source.rows():
            name = _name(source, file, shared)
            digests.setdefault(name, source.digest)
            found = _question(raw, columns)
            if isinstance(found, Problem):
                unusable[name] += 1
                continue
            usable[name] += 1
            rows.append((name, raw.row, found.question, found.answer))
        if usable.total() == before:
            raise ConfigError(
                f"decontaminate.against {source.uri}: no row has a question that is recognised; "
                "name its column with --set decontaminate.question=COLUMN"
            )
    figures: dict[str, dict[str, Metric]] = {
        name: {"digest": digest, "rows": usable[name], "unusable": unusable[name]}
        for name, digest in digests.items()
    }
    return Questions(pl.DataFrame(rows, schema=_SCHEMA, orient="row"), figures)


def _question(raw: RawRow, columns: Columns) -> Draft | Problem:
    """The question of a row and, where it has one, the answer."""
    if raw.problem is not None:
        return raw.problem
    made = draft(raw.record, columns)
    if not isinstance(made, Problem):
        return made
    # Test sets without answers still have questions.
    bare = {**raw.record, _NO_ANSWER: "-"}
    made = draft(bare, columns._replace(answer=_NO_ANSWER, kind="text"))
    return made if isinstance(made, Problem) else made._replace(answer="")


def _shared_names(sources: Sequence[Source | HubSource]) -> set[str]:
    """File names that more than one source has."""
    names = Counter(
        file.name for source in sources if isinstance(source, Source) for file in source.files
    )
    return {name for name, n in names.items() if n > 1}


def _name(source: Source | HubSource, file: str, shared: set[str]) -> str:
    """How a benchmark is called: as shortly as tells it from the others."""
    if isinstance(source, HubSource):
        return f"{source.name}/{file}"
    if file not in shared:
        return file
    return source.uri if source.name == file else f"{source.uri}/{file}"
