"""``--source``: a file, a folder, a glob or standard input, as one stream of raw rows."""

import atexit
import glob
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, takewhile
from pathlib import Path
from typing import IO, NamedTuple

from curate.pipelines.errors import SourceError
from curate.pipelines.readers import READERS, RawRow, kind_of, read

STDIN = "-"
_BLOCK = 1 << 20


class SourceFile(NamedTuple):
    """One file of a source.

    Args:
        path: where it is.
        name: how rows refer to it: relative to the folder given, or its base name.
        kind: its reader.
    """

    path: Path
    name: str
    kind: str


@dataclass(frozen=True)
class Source:
    """Raw rows to be read, as often as needed.

    Args:
        uri: as given.
        name: base name of the file or folder.
        files: in reading order.
        limit: at most this many rows, or None.
    """

    uri: str
    name: str
    files: tuple[SourceFile, ...]
    limit: int | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the files' names and contents, 64 hex digits; read once, when asked for.

        Raises:
            SourceError: a file cannot be read.
        """
        return _digest(self.files)

    def rows(self) -> Iterator[tuple[str, RawRow]]:
        """File name and row, in order.

        Raises:
            SourceError: a file cannot be read at all, or none holds a row.
        """
        n_rows = 0
        every = ((file.name, row) for file in self.files for row in read(file.path, file.kind))
        for named in islice(every, self.limit):
            n_rows += 1
            yield named
        if not n_rows:
            raise SourceError(f"{self.uri}: holds no rows")


def open_source(uri: str, *, stdin: IO[bytes] | None = None, limit: int | None = None) -> Source:
    """Find a source's files.

    Args:
        uri: file, folder, glob, or ``-``.
        stdin: stream for ``-``; standard input when None.
        limit: read at most this many rows.

    Raises:
        SourceError: nothing is there, or its format is not known.
    """
    if uri == STDIN:
        files, name = [_spool(stdin or sys.stdin.buffer)], "stdin"
    else:
        files, name = _find(uri), Path(uri).name or uri
    return Source(uri, name, tuple(files), limit)


def _find(uri: str) -> list[SourceFile]:
    path = Path(uri).expanduser()
    if path.is_dir():
        inside = (
            p for p in sorted(path.rglob("*"))
            if p.is_file() and not any(part.startswith(".") for part in p.relative_to(path).parts)
        )  # fmt: skip
        return _known([(p, p.relative_to(path).as_posix()) for p in inside], uri)
    if path.exists():
        kind = kind_of(path.name)
        if kind is None:
            raise SourceError(f"{uri}: unknown format; known: {' '.join(READERS)}")
        return [SourceFile(path, path.name, kind)]
    matches = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207 - may be absolute
    found = [match for match in matches if match.is_file()]
    if not found:
        kind_of_thing = "no file matches" if glob.has_magic(uri) else "no such file or folder"
        raise SourceError(f"{uri}: {kind_of_thing}")
    fixed = list(takewhile(lambda part: not glob.has_magic(part), path.parts))
    root = Path(*fixed) if len(fixed) < len(path.parts) else path.parent
    return _known([(p, _relative(p, root)) for p in found], uri)


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def _known(paths: list[tuple[Path, str]], uri: str) -> list[SourceFile]:
    files = [
        SourceFile(path, name, kind) for path, name in paths if (kind := kind_of(name)) is not None
    ]
    if not files:
        raise SourceError(f"{uri}: no file of a known format ({' '.join(READERS)})")
    return files


def _spool(stream: IO[bytes]) -> SourceFile:
    """Standard input as a file, since rows are read after the digest is taken."""
    folder = Path(tempfile.mkdtemp(prefix="curate-stdin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "stdin"
    with path.open("wb") as file:
        shutil.copyfileobj(stream, file, _BLOCK)
    with path.open("rb") as file:
        head = file.read(_BLOCK).lstrip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n")
    if not head:
        raise SourceError("-: standard input is empty")
    if head.startswith(b"PAR1"):
        return SourceFile(path, "stdin", ".parquet")
    return SourceFile(path, "stdin", {b"{": ".jsonl", b"[": ".json"}.get(head[:1], ".csv"))


def _digest(files: Sequence[SourceFile]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\x1f".encode("utf-8", "surrogateescape"))
        try:
            with file.path.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    digest.update(block)
        except OSError as error:
            raise SourceError(f"{file.path}: cannot be read: {error.strerror}") from error
        digest.update(b"\x1e")
    return digest.hexdigest()
