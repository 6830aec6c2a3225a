"""Verify an export: load it the trainer's way and check what the trainer will rely on.

Nothing here trusts the step that wrote the files. Every check says which file and row fail it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from curate.pipelines.errors import ConfigError, UsageError
from curate.pipelines.export_checks import (
    Check,
    Failure,
    Part,
    check,
    lineage,
    order,
    prompts,
    rewards,
    same_copies,
    stages,
)
from curate.pipelines.shard import CONTENTS
from curate.pipelines.show import last_pool
from curate.pipelines.sinks import SINKS, FileKind, Sink
from curate.pipelines.step import rng
from curate.pipelines.store import MANIFEST
from curate.pipelines.trainer_view import VIEWS, TrainerView, load

#: Rows whose gold and wrong answer are tried when no number is asked for.
DEFAULT_SAMPLE = 2_000

_SPLITS = ("train", "validation")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was found.

    Args:
        trainer: whose format.
        folder: where.
        rows: rows read from the ordered files, train and validation.
        tried: rows whose gold and wrong answer went through the reward function.
        longest_prompt_chars: characters of the longest prompt.
        checks: every check, in the order made.
    """

    trainer: str
    folder: Path
    rows: int
    tried: int
    longest_prompt_chars: int
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """True when no check failed."""
        return all(one.ok for one in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-able values."""
        return {**asdict(self), "folder": str(self.folder), "ok": self.ok}


Parts: TypeAlias = Mapping[tuple[str, str], Part]


def verify_export(
    shards: Path,
    trainer: str,
    sample: int | None = None,
    seed: int = 0,
) -> ExportReport:
    """Check one trainer's files.

    Args:
        shards: a build, its ``shards`` folder, or the trainer's folder in it. Inside a build, rows
            are also compared with the build's last pool.
        trainer: a name in ``sinks.SINKS``.
        sample: rows to try the reward function on, at random; None for all, up to 2,000.
        seed: of that choice.

    Returns:
        The report; ``report.ok`` tells whether every check passed.

    Raises:
        ConfigError: the trainer is unknown or there are no files for it.
        UsageError: the ``datasets`` library is not installed.
    """
    if sample is not None and sample < 1:
        raise UsageError("the sample must be of at least 1 row")
    if trainer not in SINKS:
        raise ConfigError(f"unknown trainer {trainer!r}; known: {', '.join(SINKS)}")
    folder = _folder(shards, trainer)
    sink, view = SINKS[trainer], VIEWS[trainer]
    checks = [_files(folder)]
    pool = _pool(folder)
    copies: list[Parts] = []
    for kind in sink.files:
        paths = sorted(folder.glob(f"*/*-part-*.{kind}"))
        if paths:
            checks.append(check(f"schema ({kind})", _schemas(paths, folder, sink)))
            parts, failures = _load(paths, folder, sink, view)
            checks.append(check(f"fields ({kind})", failures))
            checks += _structure(kind, parts, pool, view)
            copies.append(parts)
    if len(copies) > 1:
        checks.append(check("copies", _copies(copies[0], copies[1])))
    ordered = [_part(copies[0], split) for split in _SPLITS]
    tried = _sample(ordered, sample, seed)
    checks += rewards(view, tried)
    seen = [one for part in ordered for one in part.seen]
    longest = max((sum(len(text) for _, text in one.prompt) for one in seen), default=0)
    return ExportReport(trainer, folder, len(seen), len(tried.seen), longest, tuple(checks))


def _structure(
    kind: FileKind, parts: Parts, pool: pl.DataFrame | None, view: TrainerView
) -> Iterator[Check]:
    """Order, stages, lineage and, in a build, content, over files of one kind."""
    ordered = [_part(parts, split) for split in _SPLITS]
    yield check(f"order ({kind})", (failure for part in ordered for failure in order(part)))
    staged: dict[str, dict[str, Part]] = {split: {} for split in _SPLITS}
    for (split, label), part in parts.items():
        if label != "ordered":
            staged[split][label] = part
    yield check(
        f"stages ({kind})",
        (failure for split in _SPLITS for failure in stages(_part(parts, split), staged[split])),
    )
    yield check(f"lineage ({kind})", lineage(ordered[0], ordered[1], pool))
    if pool is not None:
        yield check(
            f"prompts ({kind})",
            (failure for part in ordered for failure in prompts(part, pool, view)),
        )


def _folder(shards: Path, trainer: str) -> Path:
    """The trainer's folder in a build or its shards, or the folder given."""
    for folder in (shards / "shards" / trainer, shards / trainer, shards):
        if folder.name == trainer and any(folder.glob("*/*-part-*")):
            return folder
    roots = (shards, shards / "shards")
    there = [name for root in roots for name in SINKS if (root / name).is_dir()]
    hint = f"it holds {', '.join(there)}; " if there else ""
    raise ConfigError(
        f"{shards}: no files for {trainer}; {hint}build with --set shard.formats=all to have every "
        "trainer's"
    )


def _pool(folder: Path) -> pl.DataFrame | None:
    """The last pool of the build the folder lies in, if it lies in one with its pools."""
    build = folder.parent.parent
    whole = (build / MANIFEST).exists() and (build / "steps").is_dir()
    return last_pool(build) if whole else None


def _files(folder: Path) -> Check:
    """Files are those that were written, whole and unchanged."""
    listing = folder / CONTENTS
    try:
        listed = orjson.loads(listing.read_bytes())["files"]
        told = {entry["path"]: (entry["rows"], entry["sha256"]) for entry in listed}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return check("files", [Failure(CONTENTS, None, f"cannot be read: {error}")])

    def failures() -> Iterator[Failure]:
        there = {str(path.relative_to(folder)): path for path in folder.glob("*/*-part-*")}
        for name in sorted(told.keys() - there.keys()):
            yield Failure(name, None, "is missing")
        for name in sorted(there.keys() - told.keys()):
            yield Failure(name, None, f"is not in {CONTENTS}")
        for name in sorted(told.keys() & there.keys()):
            rows, digest = told[name]
            try:
                found = _count(there[name])
            except (OSError, pa.ArrowException) as error:
                yield Failure(name, None, f"cannot be read: {error}")
                continue
            if found != rows:
                yield Failure(name, None, f"has {found} rows, {rows} were written")
            elif hashlib.sha256(there[name].read_bytes()).hexdigest() != digest:
                yield Failure(name, None, "has changed since it was written")

    return check("files", failures())


def _count(path: Path) -> int:
    if path.suffix == ".parquet":
        return int(pq.read_metadata(path).num_rows)
    with path.open("rb") as file:
        return sum(bool(line.strip()) for line in file)


def _schemas(paths: Sequence[Path], folder: Path, sink: Sink) -> Iterator[Failure]:
    """Every file has exactly the format's columns and types, and no library's metadata."""
    for path in paths:
        name = str(path.relative_to(folder))
        if path.suffix == ".jsonl":
            with path.open("rb") as file:
                for row, line in enumerate(file, 1):
                    yield from _keys(line, sink, name, row)
            continue
        try:
            found = pq.read_schema(path)
        except (OSError, pa.ArrowException) as error:
            yield Failure(name, None, f"cannot be read: {error}")
            continue
        for detail in _differences(found, sink):
            yield Failure(name, None, detail)
        if found.metadata:
            yield Failure(name, None, "carries a library's metadata")


def _keys(line: bytes, sink: Sink, name: str, row: int) -> Iterator[Failure]:
    try:
        keys = orjson.loads(line).keys()
    except (ValueError, AttributeError) as error:
        yield Failure(name, row, f"is no JSON object: {error}")
        return
    for column in sink.schema.names:
        if column not in keys and column not in sink.optional:
            yield Failure(name, row, f"column {column!r} is missing")
    for column in keys - set(sink.schema.names):
        yield Failure(name, row, f"column {column!r} is unknown")


def _differences(found: pa.Schema, sink: Sink, *, loosely: bool = False) -> Iterator[str]:
    for wanted in sink.schema:
        if wanted.name not in found.names:
            if wanted.name not in sink.optional:
                yield f"column {wanted.name!r} is missing"
        elif not _same_type(found.field(wanted.name).type, wanted.type, loosely):
            yield f"column {wanted.name!r} is {found.field(wanted.name).type}, not {wanted.type}"
    for name in found.names:
        if name not in sink.schema.names:
            yield f"column {name!r} is unknown"


def _same_type(found: pa.DataType, wanted: pa.DataType, loosely: bool) -> bool:
    """Equal types; loosely, up to a number's width and JSON's nulls."""
    if pa.types.is_list(wanted) and pa.types.is_list(found):
        return _same_type(found.value_type, wanted.value_type, loosely)
    if pa.types.is_struct(wanted) and pa.types.is_struct(found):
        names = [field_.name for field_ in wanted]
        return {field_.name for field_ in found} == set(names) and all(
            _same_type(found.field(name).type, wanted.field(name).type, loosely) for name in names
        )
    if found.equals(wanted):
        return True
    numbers = (pa.types.is_integer, pa.types.is_floating)
    return loosely and (
        pa.types.is_null(found) or any(one(found) and one(wanted) for one in numbers)
    )


def _load(
    paths: Sequence[Path], folder: Path, sink: Sink, view: TrainerView
) -> tuple[dict[tuple[str, str], Part], list[Failure]]:
    """Load every group of files; also what could not be loaded or read."""
    groups: dict[tuple[str, str], list[Path]] = {}
    for path in paths:
        groups.setdefault((path.parent.name, path.name.partition("-part-")[0]), []).append(path)
    parts, failures = {}, []
    for key, group in groups.items():
        first = str(group[0].relative_to(folder))
        part = parts[key] = Part()
        try:
            schema, rows = load(view, group)
            places = [(str(path.relative_to(folder)), row + 1)
                      for path in group for row in range(_count(path))]  # fmt: skip
        except (ValueError, OSError, pa.ArrowException) as error:
            failures.append(Failure(first, None, f"cannot be loaded: {error}"))
            continue
        failures += [Failure(first, None, f"loads with another type: {detail}")
                     for detail in _differences(schema, sink, loosely=True)]  # fmt: skip
        if len(rows) != len(places):
            detail = f"{len(rows)} rows load, {len(places)} are there"
            failures.append(Failure(first, None, detail))
            continue
        for row, place in zip(rows, places, strict=True):
            try:
                part.seen.append(view.see(row))
            except (KeyError, TypeError, ValueError) as error:
                failures.append(Failure(*place, f"cannot be read: {type(error).__name__} {error}"))
                continue
            part.rows.append(row)
            part.places.append(place)
    return parts, failures


def _part(parts: Parts, split: str) -> Part:
    return parts.get((split, "ordered"), Part())


def _copies(one: Parts, other: Parts) -> Iterator[Failure]:
    for key in sorted(one.keys() | other.keys()):
        yield from same_copies(one.get(key, Part()), other.get(key, Part()))


def _sample(parts: Sequence[Part], sample: int | None, seed: int) -> Part:
    """Rows to try the reward function on, in order."""
    whole = Part()
    for part in parts:
        whole.seen += part.seen
        whole.rows += part.rows
        whole.places += part.places
    n = len(whole.seen)
    size = min(n, sample or DEFAULT_SAMPLE)
    chosen = sorted(rng(seed, "verify-export").choice(n, size, replace=False)) if n else []
    return Part(
        [whole.seen[i] for i in chosen],
        [whole.rows[i] for i in chosen],
        [whole.places[i] for i in chosen],
    )
