"""How many rows a source has, where that can be told without reading much."""

import gzip
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from curate.pipelines.errors import SourceError
from curate.pipelines.mixture import AnySource
from curate.pipelines.readers import read
from curate.pipelines.sources import Source, SourceFile

#: Formats whose first row is known only when the whole file is read.
WHOLE = frozenset({".json", ".json.gz"})
#: Bytes of a file that are read to count its rows; of a larger one only so many, as a measure.
MOST_BYTES = 64 << 20
_MEASURED = 4 << 20


class RowCount(NamedTuple):
    """A number of rows.

    Args:
        rows: how many, or None where counting would mean reading much: large compressed and JSON
            files, and datasets.
        exact: whether that is the number, not an estimate.
    """

    rows: int | None
    exact: bool = True

    def __str__(self) -> str:
        if self.rows is None:
            return "rows not counted"
        return f"{'' if self.exact else 'about '}{self.rows:,} rows"


def count_rows(source: AnySource) -> RowCount:
    """Rows that would be read.

    Raises:
        SourceError: a file cannot be read.
    """
    if not isinstance(source, Source):
        return RowCount(source.limit, exact=source.limit is None)
    every = total(_count(file) for file in source.files)
    if source.limit is None:
        return every
    if every.rows is None:
        return RowCount(source.limit, exact=False)
    return RowCount(min(every.rows, source.limit), every.exact or source.limit <= every.rows // 2)


def total(counts: Iterable[RowCount]) -> RowCount:
    """The sum; not known when one of them is not."""
    found = list(counts)
    known = [count.rows for count in found if count.rows is not None]
    whole = bool(found) and len(known) == len(found)
    return RowCount(sum(known) if whole else None, all(count.exact for count in found))


def _count(file: SourceFile) -> RowCount:
    try:
        return _parquet(file) if file.kind == ".parquet" else _text(file)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise SourceError(f"{file.path}: cannot be read: {error}") from error


def _parquet(file: SourceFile) -> RowCount:
    with pq.ParquetFile(file.path) as table:
        return RowCount(table.metadata.num_rows)


def _text(file: SourceFile) -> RowCount:
    size = file.path.stat().st_size
    packed = file.path.name.endswith(".gz")
    if size > (_MEASURED if packed else MOST_BYTES):
        return RowCount(None) if packed or file.kind in WHOLE else _measured(file, size)
    if file.kind in WHOLE:
        return RowCount(sum(1 for _ in read(file.path, file.kind)))
    with gzip.open(file.path, "rb") if packed else file.path.open("rb") as lines:
        filled = sum(1 for line in lines if not line.isspace())
    if file.kind.startswith((".csv", ".tsv")):  # a quoted field may hold line breaks
        return RowCount(max(0, filled - 1), exact=False)
    return RowCount(filled)


def _measured(file: SourceFile, size: int) -> RowCount:
    """Rows of a large text file, by the length of its first ones."""
    with file.path.open("rb") as stream:
        block = stream.read(_MEASURED)
    return RowCount(round(size * max(1, block.count(b"\n")) / len(block)), exact=False)
