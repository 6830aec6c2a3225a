"""Preflight of where a build writes: folder, lock, ledger, cache, and whether the disk has room.

Nothing is written to find out: rights are asked of the system, and the lock is only tried where
its file is there.
"""

import fcntl
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import polars as pl

from curate.pipelines.errors import ConfigError, CurateError, EngineError, PoolError
from curate.pipelines.findings import Finding, refusal
from curate.pipelines.ledger import Ledger
from curate.pipelines.measure import Measure
from curate.pipelines.recipe import Recipe
from curate.pipelines.row_counts import RowCount
from curate.pipelines.shard import Shard
from curate.pipelines.store import Store

#: Least free bytes with which anything is worth beginning.
_FLOOR = 32 << 20
#: Bytes of a stored rollout: of each token of its text at most, and of everything else about it.
_TOKEN_BYTES = 4
_ROLLOUT_BYTES = 300
#: A short answer, compressed.
_LEAST_ROLLOUT_BYTES = 50
_SQLITE = b"SQLite format 3\x00"
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class Work:
    """How much a build would do, as far as it is known.

    Args:
        count: rows, so prompts to measure at most.
        per_prompt: rollouts a prompt; 0 when nothing is measured.
        max_tokens: tokens of a rollout at most.
        pool_bytes: a pool's size in memory, or None.
        copies: how often a pool is written: by step, and by export.
    """

    count: RowCount
    per_prompt: int
    max_tokens: int
    pool_bytes: int | None
    copies: int

    @classmethod
    def of(
        cls, recipe: Recipe | None, count: RowCount, row_bytes: int, *, generates: bool
    ) -> "Work":
        """The work a recipe makes of so many rows.

        Args:
            recipe: its steps; None where they are not known.
            count: rows.
            row_bytes: mean size of a prompt in memory, bytes.
            generates: rollouts come from a model, not from what is stored.
        """
        steps = recipe.steps if recipe else ()
        measures = [step for step in steps if generates and isinstance(step, Measure)]
        shards = [step for step in steps if isinstance(step, Shard)]
        # Each format holds the whole order and the stages, in each type of file.
        exported = sum(2 * len(step.formats) * len(step.files) for step in shards)
        return cls(
            count,
            sum(step.rollouts.per_prompt for step in measures),
            max((step.max_tokens for step in measures), default=0),
            None if count.rows is None else count.rows * row_bytes,
            len(steps) + exported,
        )

    @property
    def rollouts(self) -> int | None:
        """Rollouts at most."""
        return None if self.count.rows is None else self.count.rows * self.per_prompt

    def ledger_bytes(self) -> tuple[int, int]:
        """Least and most bytes of the ledger, and of the cache; 0 where unknown."""
        n = self.rollouts or 0
        return (
            n * _LEAST_ROLLOUT_BYTES,
            n * (self.max_tokens * _TOKEN_BYTES + _ROLLOUT_BYTES),
        )


def output_finding(out: Path, *, measures: bool) -> Finding:
    """The build folder: can it be used, is it in use, what does it hold.

    Args:
        out: the build directory; may not be there.
        measures: the recipe spends rollouts, so those held matter.
    """
    try:
        there = _exists(out)
        if there and not out.is_dir():
            raise ConfigError(f"--out {out}: is a file, not a folder")
        if there:
            Store(out)  # of a folder that is there, this only looks
            if _locked(out / ".lock"):
                raise CurateError(
                    f"{out}: another build is writing here; wait for it or use another --out"
                )
        problem = _unwritable(out)
        if problem:
            raise ConfigError(f"--out {out}: cannot be written: {problem}")
        return Finding("output", "ok", _held(out, measures) if there else f"{out} will be made")
    except CurateError as error:
        return refusal("output", error)


def held_rollouts(out: Path) -> int:
    """Rollouts in a build's ledger, each draw once.

    Raises:
        PoolError: the ledger cannot be read.
    """
    try:
        count = Ledger(out / "rollouts").scan().select(pl.len()).collect().item()
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0]
        raise PoolError(f"{out / 'rollouts'}: cannot be read: {reason}") from error
    return int(count)


def _held(out: Path, measures: bool) -> str:
    if not any(out.iterdir()):
        return f"{out} is empty"
    told = f"{out} holds a build, which goes on"
    return f"{told}; {held_rollouts(out):,} rollouts are in its ledger" if measures else told


def cache_finding(cache: Path | None) -> Finding:
    """The completion cache: can it be used."""
    if cache is None:
        return Finding("cache", "ok", "none: completions are kept in memory only")
    try:
        problem = _unwritable(cache)
        if problem:
            raise EngineError(f"completion cache {cache}: cannot be written: {problem}")
        if not _exists(cache):
            return Finding("cache", "ok", f"{cache} will be made")
        with cache.open("rb") as file:
            head = file.read(len(_SQLITE))
        if head and head != _SQLITE:
            raise EngineError(
                f"completion cache {cache}: is no database; give another file with --cache, "
                "or move this one away to start anew"
            )
        return Finding("cache", "ok", f"{cache}: {_size(cache.stat().st_size)}")
    except OSError as error:
        told = f"completion cache {cache}: cannot be read: {error.strerror or error}"
        return refusal("cache", EngineError(told))
    except CurateError as error:
        return refusal("cache", error)


def disk_findings(out: Path, cache: Path | None, work: Work) -> list[Finding]:
    """Free room where the build and the cache go, against an estimate of what they need."""
    low, high = work.ledger_bytes()
    pools = work.pool_bytes or 0
    needs = [_Need("output", out, low + pools // 4, high + pools * work.copies)]
    if cache is not None and work.per_prompt:
        needs.append(_Need("cache", cache, low, high))
    disks: dict[int, list[_Need]] = {}
    for need in needs:
        disks.setdefault(_nearest(need.path).stat().st_dev, []).append(need)
    findings = []
    for there in disks.values():
        name = "disk" if len(disks) == 1 else f"disk of {there[0].label}"
        free = shutil.disk_usage(_nearest(there[0].path)).free
        least, most = sum(need.least for need in there), sum(need.most for need in there)
        findings.append(_room(name, free, least, most, work))
    return findings


class _Need(NamedTuple):
    """Bytes something will take, at least and at most."""

    label: str
    path: Path
    least: int
    most: int


def _room(name: str, free: int, least: int, most: int, work: Work) -> Finding:
    told = f"{_size(free)} free"
    if work.count.rows is None:
        told += "; rows are not counted, so what is needed is not known"
    else:
        told += f"; estimated need {_size(least)} to {_size(most)} ({_formula(work)})"
    if free < max(least, _FLOOR):
        if least < _FLOOR:
            told += f"; at least {_size(_FLOOR)} should be free"
        return Finding(name, "failed", f"{told}: make room, or use another disk", exit_code=1)
    return Finding(name, "warning" if free < most else "ok", told)


def _formula(work: Work) -> str:
    pools = f"pools {_size(work.pool_bytes or 0)} × {work.copies} copies"
    if not work.per_prompt:
        return pools
    most = f"{work.max_tokens:,} tokens × {_TOKEN_BYTES} + {_ROLLOUT_BYTES} bytes"
    return f"{work.rollouts:,} rollouts of at most {most}; {pools}"


def cost_finding(out: Path, work: Work) -> Finding:
    """What would be generated at most, and what is there already."""
    if not work.per_prompt:
        return Finding("cost", "ok", "nothing is generated")
    try:
        held = held_rollouts(out)
    except CurateError:
        held = 0  # told with the output
    there = f"; the ledger holds {held:,}" if held else ""
    if work.rollouts is None:
        told = f"{work.per_prompt:,} rollouts a prompt; the number of prompts is not known"
        return Finding("cost", "ok", told + there)
    tokens = work.rollouts * work.max_tokens
    told = (
        f"at most {work.count} × {work.per_prompt:,} rollouts × {work.max_tokens:,} tokens: "
        f"{work.rollouts:,} rollouts, {tokens:,} tokens"
    )
    return Finding("cost", "ok", told + there)


def _unwritable(path: Path) -> str | None:
    """Why a file or folder cannot be made or changed at ``path``, or None.

    The system is asked for rights; nothing is written to try them.
    """
    near = _nearest(path)
    # A database makes files beside itself.
    folder = near.parent if near == path.absolute() and near.is_file() else near
    if not folder.is_dir():
        return f"{folder} is no folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"no right to write in {folder}"
    return None if os.access(near, os.W_OK) else f"no right to write {near}"


def _nearest(path: Path) -> Path:
    """``path``, or the nearest folder above it that is there."""
    whole = path.absolute()
    return next(place for place in (whole, *whole.parents) if _exists(place))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder that may not be looked into
        return False


def _locked(lock: Path) -> bool:
    """Whether a process holds a lock file, which is neither made nor changed by asking."""
    try:
        handle = os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"{lock}: cannot be read: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)
    return False


def _size(n_bytes: float) -> str:
    """Bytes as text.

    >>> _size(3 << 30)
    '3.0 GiB'
    """
    for unit in _UNITS[:-1]:
        if n_bytes < 1024:
            return f"{n_bytes:,.0f} {unit}" if unit == "bytes" else f"{n_bytes:,.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:,.1f} {_UNITS[-1]}"
