"""Files to raw rows: JSONL, JSON, CSV, TSV and Parquet, compressed or not, in whatever encoding.

A row that cannot be read is a ``RawRow`` with a problem; only a file that cannot be read at all
raises.
"""

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias, cast

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from curate.pipelines.errors import SourceError

Record: TypeAlias = dict[str, Any]

#: Longest marks first: UTF-32's begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PARQUET_BATCH = 8192


class Problem(NamedTuple):
    """Why a row cannot be used.

    Args:
        reason: fixed slug.
        field: the column at fault, or None.
        detail: one readable line.
    """

    reason: str
    field: str | None
    detail: str


class RawRow(NamedTuple):
    """One row of a file.

    Args:
        row: its number, from 1, headers and blank lines not counted.
        record: column → value; for an unreadable row what there is of it under ``raw``.
        problem: why it cannot be read, or None.
    """

    row: int
    record: Record
    problem: Problem | None = None


def read(path: Path, kind: str) -> Iterator[RawRow]:
    """Rows of a file.

    Args:
        path: the file.
        kind: a key of ``READERS``, such as ``.jsonl`` or ``.csv.gz``.

    Raises:
        SourceError: the file cannot be read at all; names it.
    """
    try:
        yield from READERS[kind](path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceError(f"{path}: broken gzip file: {error}") from error
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeError as error:
        raise SourceError(f"{path}: not in the encoding its first bytes name: {error}") from error


def _open(path: Path) -> IO[bytes]:
    if path.name.endswith(".gz"):
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")


def _encoding(file: IO[bytes]) -> str:
    """The encoding that the first bytes name, UTF-8 if none; leaves the file at its start."""
    head = file.read(4)
    file.seek(0)
    return next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Lines as UTF-8 without a byte order mark; what is not UTF-8 stays as it is."""
    encoding = _encoding(file)
    if encoding == "utf-8":
        yield from file
    elif encoding == "utf-8-sig":
        file.seek(len(codecs.BOM_UTF8))
        yield from file
    else:
        for line in io.TextIOWrapper(file, encoding=encoding, newline="\n"):
            yield line.encode()


def _jsonl(path: Path) -> Iterator[RawRow]:
    with _open(path) as file:
        number = 0
        for line in _lines(file):
            text = line.strip()
            if text:
                number += 1
                yield _parsed(text, number)


def _parsed(text: bytes, number: int) -> RawRow:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:  # slower, but takes NaN and Infinity, and tells where it goes wrong
            value = json.loads(text)
        except UnicodeDecodeError as error:
            return _broken(number, text, "bad_encoding", f"not UTF-8 at byte {error.start}")
        except RecursionError:
            return _broken(number, text, "bad_json", "nested too deep")
        except ValueError as error:
            return _broken(number, text, "bad_json", str(error))
    return _record(value, number, text)


def _record(value: object, number: int, text: bytes) -> RawRow:
    if isinstance(value, dict):
        return RawRow(number, value)
    detail = f"expected an object, found {type(value).__name__}"
    return _broken(number, text, "bad_json", detail)


def _broken(number: int, text: bytes, reason: str, detail: str) -> RawRow:
    raw = text.decode("utf-8", "backslashreplace")
    return RawRow(number, {"raw": raw}, Problem(reason, None, detail))


def _json(path: Path) -> Iterator[RawRow]:
    with _open(path) as file:
        text = b"".join(_lines(file)).strip()
    try:
        value = json.loads(text) if text else []
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise SourceError(f"{path}: nested too deep") from error
    except ValueError as error:
        if b"\n" in text and text.startswith(b"{"):  # JSON lines under the wrong name
            yield from _jsonl(path)
            return
        raise SourceError(f"{path}: not JSON: {error}") from error
    for number, item in enumerate(_items(value, path), start=1):
        yield _record(item, number, repr(item).encode("utf-8", "backslashreplace"))


def _items(value: object, path: Path) -> list[object]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        lists = [name for name, inner in value.items() if _is_table(inner)]
        if len(lists) > 1:
            raise SourceError(
                f"{path}: holds several lists of rows ({', '.join(map(str, lists))}); "
                "write the one you mean to a file of its own"
            )
        return cast("list[object]", value[lists[0]]) if lists else [value]
    raise SourceError(f"{path}: expected a list of objects, found {type(value).__name__}")


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value) \
        and "role" not in value[0]  # fmt: skip


def _table(delimiter: str) -> Callable[[Path], Iterator[RawRow]]:
    def read_table(path: Path) -> Iterator[RawRow]:
        csv.field_size_limit(2**31 - 1)
        with _open(path) as binary:
            encoding = _encoding(binary)
            errors = "surrogateescape" if encoding.startswith("utf-8") else "strict"
            with io.TextIOWrapper(binary, encoding=encoding, errors=errors, newline="") as file:
                rows = csv.reader(file, delimiter=delimiter)
                try:
                    header = [name.strip() for name in next(rows, [])]
                    _check_header(header, path)
                    number = 0
                    for values in rows:
                        if values:
                            number += 1
                            yield _tabular(header, values, number)
                except csv.Error as error:
                    raise SourceError(f"{path}: line {rows.line_num}: {error}") from error

    return read_table


def _check_header(header: list[str], path: Path) -> None:
    doubled = sorted({name for name in header if header.count(name) > 1})
    if doubled:
        raise SourceError(f"{path}: column {doubled[0]!r} is there more than once")


def _tabular(header: list[str], values: list[str], number: int) -> RawRow:
    record: Record = dict(zip(header, values, strict=False))
    if any(not value.isascii() and _undecoded(value) for value in values):
        field = next(name for name, value in record.items() if _undecoded(value))
        shown = {
            k: v.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            for k, v in record.items()
        }
        return RawRow(number, shown, Problem("bad_encoding", field, "not UTF-8"))
    if len(values) != len(header):
        detail = f"{len(values)} fields where the header has {len(header)}"
        record["raw"] = values
        return RawRow(number, record, Problem("bad_row", None, detail))
    return RawRow(number, record)


def _undecoded(text: str) -> bool:
    return any("\udc80" <= character <= "\udcff" for character in text)


def _parquet(path: Path) -> Iterator[RawRow]:
    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=_PARQUET_BATCH):
                for record in batch.to_pylist():
                    number += 1
                    yield RawRow(number, record)
    except pa.ArrowException as error:
        raise SourceError(f"{path}: not readable Parquet: {error}") from error


READERS: dict[str, Callable[[Path], Iterator[RawRow]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json,
    ".csv": _table(","),
    ".tsv": _table("\t"),
    ".parquet": _parquet,
    ".jsonl.gz": _jsonl,
    ".json.gz": _json,
    ".csv.gz": _table(","),
}


def kind_of(name: str) -> str | None:
    """The reader for a file name, or None.

    >>> kind_of("a/B.JSONL.gz"), kind_of("a.txt")
    ('.jsonl.gz', None)
    """
    lower = name.lower()
    fitting = [kind for kind in READERS if lower.endswith(kind)]
    return max(fitting, key=len, default=None)
