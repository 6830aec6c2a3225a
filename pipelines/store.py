"""The build directory: content-addressed step artifacts, manifest, lock, resume.

An artifact is ``steps/NN-name-DIGEST/`` with ``part-00000.parquet`` (the pool that goes on),
``rejected.parquet``, ``step.json`` and whatever files the step made. It is written under a
temporary name and renamed when whole, so it exists or it doesn't; a rerun takes what is there.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import orjson
import polars as pl
from filelock import FileLock, Timeout

from curate.pipelines.errors import ConfigError, CurateError, PoolError
from curate.pipelines.files import remove_scratch, replace_folder, write_json, write_parquet
from curate.pipelines.ledger import SAMPLED, Ledger
from curate.pipelines.pool import PROMPT_SCHEMA, REJECT_SCHEMA, Pool, no_rejects, read_parquet
from curate.pipelines.step import Metric, StepResult

MANIFEST = "manifest.json"
#: An artifact's files; one that lacks any is none.
_POOL, _REJECTED, _RECORD = "part-00000.parquet", "rejected.parquet", "step.json"


@dataclass(frozen=True, slots=True)
class PoolRef:
    """A pool by reference: what steps and Prefect tasks pass on instead of rows.

    Args:
        path: the artifact's folder.
        digest: 64 hex digits of the step, its settings and everything before it.
        rows: prompts in the pool.
    """

    path: Path
    digest: str
    rows: int

    def load(self) -> Pool:
        """Read the pool."""
        return Pool(read_parquet(self.path / _POOL, PROMPT_SCHEMA, "pool"))

    def rejected(self) -> pl.DataFrame:
        """Read what left the line at this step."""
        return read_parquet(self.path / _REJECTED, REJECT_SCHEMA, "rejected")

    def record(self) -> dict[str, Metric]:
        """The step's entry in the manifest.

        Raises:
            PoolError: it cannot be read.
        """
        return read_object(self.path / _RECORD)


def digest_of(value: object) -> str:
    """SHA-256 of canonical JSON, 64 hex digits."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Store:
    """One build directory.

    Args:
        root: the folder; made if it is not there.

    Raises:
        ConfigError: the folder holds something that is not a build, or can't be made.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            root.mkdir(parents=True, exist_ok=True)
            strangers = [
                entry.name
                for entry in root.iterdir()
                if entry.name not in {"steps", MANIFEST, ".lock", "rollouts"}
            ]
        except OSError as error:
            raise ConfigError(
                f"build directory {root}: cannot be used: {error.strerror}"
            ) from error
        if strangers and not (root / MANIFEST).exists() and not (root / "steps").exists():
            raise ConfigError(
                f"build directory {root}: not empty and not a build "
                f"(found {sorted(strangers)[0]!r}); choose a new folder"
            )

    @property
    def ledger(self) -> Ledger:
        """The build's rollouts."""
        return Ledger(self.root / "rollouts")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the build directory; a second build fails at once and clearly.

        Raises:
            CurateError: another process holds it, or the folder is read-only.
        """
        lock = FileLock(self.root / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise CurateError(
                f"{self.root}: another build is writing here; wait for it or use another --out"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"build directory {self.root}: cannot be written: {error.strerror}"
            ) from error
        try:
            remove_scratch(self.root, self.root / "steps", self.root / "rollouts")
            yield
        finally:
            lock.release()

    def artifact(self, index: int, name: str, digest: str) -> Path:
        """Where a step's artifact is, or will be."""
        return self.root / "steps" / f"{index:02d}-{name}-{digest[:12]}"

    def find(self, index: int, name: str, digest: str) -> PoolRef | None:
        """The finished artifact of this digest, if there is one."""
        path = self.artifact(index, name, digest)
        if not (path / _POOL).is_file() or not (path / _REJECTED).is_file():
            return None
        try:
            record = read_object(path / _RECORD)
        except PoolError:  # a disk lost it; the step is run once more
            return None
        if record.get("digest") != digest:
            return None
        return PoolRef(path, digest, cast(int, record["rows_out"]))

    @contextmanager
    def scratch(self, index: int, name: str, digest: str) -> Iterator[Path]:
        """A fresh folder to write the artifact in; gone afterwards unless it was committed."""
        path = self.artifact(index, name, digest)
        scratch = path.with_name(f".tmp-{os.getpid()}-{path.name}")
        try:
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
        except OSError as error:
            raise CurateError(f"{scratch}: cannot be written: {error.strerror}") from error
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def commit(
        self,
        scratch: Path,
        target: Path,
        result: StepResult,
        record: Mapping[str, Metric],
    ) -> PoolRef:
        """Write pool, rejects and record into ``scratch`` and rename it into place."""
        write_parquet(result.kept.frame, scratch / _POOL)
        write_parquet(result.rejected, scratch / _REJECTED)
        write_json(scratch / _RECORD, record)
        try:
            replace_folder(scratch, target)
        except OSError as error:
            raise CurateError(f"{target}: cannot be written: {error.strerror}") from error
        return PoolRef(target, str(record["digest"]), len(result.kept))

    def write_manifest(self, manifest: Mapping[str, Metric]) -> None:
        """Replace the manifest."""
        write_json(self.root / MANIFEST, manifest)

    def publish(self, refs: list[PoolRef]) -> None:
        """Lay the last shards and all rejects where a person looks for them.

        Shards of an earlier build that this one has no counterpart of are removed: they would pass
        for its own.
        """
        rejected = pl.concat([ref.rejected() for ref in refs]) if refs else no_rejects()
        write_parquet(rejected, self.root / _REJECTED)
        made = [ref.path / "shards" for ref in refs if (ref.path / "shards").is_dir()]
        scratch = self.root / f".tmp-{os.getpid()}-shards"
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            if made:
                shutil.copytree(made[-1], scratch, copy_function=_link)
                replace_folder(scratch, self.root / "shards")
            elif (self.root / "shards").is_dir():
                shutil.rmtree(self.root / "shards")
        except OSError as error:
            raise CurateError(f"{self.root}/shards: cannot be written: {error}") from error


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copy2(source, target)
    return target


def read_manifest(build: Path) -> dict[str, Metric]:
    """The manifest of a build.

    Raises:
        ConfigError: the folder is no build.
        PoolError: its manifest cannot be read.
    """
    if not (build / MANIFEST).is_file():
        raise ConfigError(f"{build}: not a build directory (no {MANIFEST})")
    return read_object(build / MANIFEST)


def read_object(path: Path) -> dict[str, Metric]:
    """The object in a JSON file of a build.

    Raises:
        PoolError: it cannot be read, or holds something else.
    """
    try:
        loaded = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise PoolError(f"{path}: cannot be read: {error}") from error
    if not isinstance(loaded, dict):
        raise PoolError(f"{path}: cannot be read: it holds no JSON object")
    return loaded


def judged_rollouts(build: Path) -> pl.LazyFrame:
    """The rollouts a build's pass rates stand on, with the verdicts of its verifiers.

    A ledger may hold more: rollouts of prompts that are in the source no more, of another policy or
    temperature, or beyond the number asked for last. Until a pool is measured it is all of them.

    Raises:
        ConfigError: the folder is no build.
        PoolError: a file of the ledger cannot be read.
    """
    manifest = read_manifest(build)
    version = manifest.get("verifiers")
    told = Ledger(build / "rollouts").scan(version if isinstance(version, str) else None)
    tables = [
        build / "steps" / str(step["artifact"]) / "pass_rates.parquet"
        for step in cast("list[dict[str, Metric]]", manifest.get("steps", []))
        if step["name"] == "measure"
    ]
    if not tables:
        return told
    measured = pl.scan_parquet(tables).group_by("prompt_id", *SAMPLED).agg(pl.max("attempts"))
    return (
        told.join(
            measured,
            on=["prompt_id", *SAMPLED],
            nulls_equal=True,
            how="inner",
            maintain_order="left",
        )
        .filter(pl.col("sample") < pl.col("attempts"))
        .drop("attempts")
    )
