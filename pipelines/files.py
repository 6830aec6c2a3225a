"""Files that exist whole or not at all: written under a temporary name, then renamed."""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

import orjson
import polars as pl

from curate.pipelines.errors import CurateError

#: Bytes; with less left a write that failed has failed for want of space.
_FULL = 1 << 16


def temporary(path: Path) -> Path:
    """A sibling name for ``path`` while it is being written; readers never match it."""
    return path.with_name(f".tmp-{os.getpid()}-{path.name}")


def write_bytes(path: Path, data: bytes) -> None:
    """Write and rename.

    Raises:
        CurateError: the disk is full or the folder cannot be written.
    """
    scratch = temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(data)
        scratch.replace(path)
    except OSError as error:
        _discard(scratch)
        raise CurateError(f"{path}: cannot be written: {error.strerror}") from error


def write_json(path: Path, value: object) -> None:
    """Canonical JSON: sorted keys, two-space indent, final newline."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    write_bytes(path, orjson.dumps(value, option=options))


def write_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Write a frame as Parquet (zstd), whole or not at all.

    Raises:
        CurateError: the disk is full or the folder cannot be written.
    """
    scratch = temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(scratch, compression="zstd", compression_level=3)
        scratch.replace(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        # Polars wraps what the system said; a full disk comes out as broken Parquet.
        full = path.parent.is_dir() and shutil.disk_usage(path.parent).free < _FULL
        _discard(scratch)
        reason = os.strerror(errno.ENOSPC) if full else str(error)
        raise CurateError(f"{path}: cannot be written: {reason}") from error


def _discard(scratch: Path) -> None:
    with suppress(OSError):  # a read-only disk has nothing to remove
        scratch.unlink(missing_ok=True)


def remove_scratch(*folders: Path) -> None:
    """Remove what a killed process left half-written; only for who holds the folders' lock."""
    for folder in folders:
        for path in folder.glob(".tmp-*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def replace_folder(scratch: Path, target: Path) -> None:
    """Put a finished folder in place of ``target``, which may exist."""
    old = temporary(target).with_suffix(".old")
    if target.exists():
        target.rename(old)
    scratch.rename(target)
    shutil.rmtree(old, ignore_errors=True)
