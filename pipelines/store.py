"""The build directory: content-addressed step artifacts, manifest, lock, resume.

An artifact is ``steps/NN-name-DIGEST/`` with ``part-00000.parquet`` (the pool that goes on),
``rejected.parquet``, ``step.json`` and whatever files the step made. It is written under a
temporary name and renamed when whole, so it exists or it doesn't; a rerun takes what is there.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import polars as pl
from filelock import FileLock, Timeout

from curate.pipelines.errors import ConfigError, CurateError, PoolError
from curate.pipelines.files import remove_scratch, replace_folder, write_json, write_parquet
from curate.pipelines.ledger import Ledger
from curate.pipelines.pool import PROMPT_SCHEMA, REJECT_SCHEMA, Pool, no_rejects, read_parquet
from curate.pipelines.step import Metric, StepResult

MANIFEST = "manifest.json"


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
        return Pool(read_parquet(self.path / "part-00000.parquet", PROMPT_SCHEMA, "pool"))

    def rejected(self) -> pl.DataFrame:
        """Read what left the line at this step."""
        return read_parquet(self.path / "rejected.parquet", REJECT_SCHEMA, "rejected")

    def record(self) -> dict[str, Metric]:
        """The step's entry in the manifest."""
        loaded: dict[str, Metric] = orjson.loads((self.path / "step.json").read_bytes())
        return loaded


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
        if not (path / "step.json").exists():
            return None
        record = json.loads((path / "step.json").read_bytes())
        if record["digest"] != digest:
            return None
        return PoolRef(path, digest, record["rows_out"])

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
        write_parquet(result.kept.frame, scratch / "part-00000.parquet")
        write_parquet(result.rejected, scratch / "rejected.parquet")
        write_json(scratch / "step.json", record)
        try:
            replace_folder(scratch, target)
        except OSError as error:
            raise CurateError(f"{target}: cannot be written: {error.strerror}") from error
        return PoolRef(target, str(record["digest"]), len(result.kept))

    def write_manifest(self, manifest: Mapping[str, Metric]) -> None:
        """Replace the manifest."""
        write_json(self.root / MANIFEST, manifest)

    def publish(self, refs: list[PoolRef]) -> None:
        """Lay the last step's shards and all rejects where a person looks for them."""
        rejected = pl.concat([ref.rejected() for ref in refs]) if refs else no_rejects()
        write_parquet(rejected, self.root / "rejected.parquet")
        made = refs[-1].path / "shards" if refs else self.root / "nothing"
        if not made.is_dir():
            return
        scratch = self.root / f".tmp-{os.getpid()}-shards"
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            shutil.copytree(made, scratch, copy_function=_link)
            replace_folder(scratch, self.root / "shards")
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
    """
    path = build / MANIFEST
    try:
        loaded: dict[str, Metric] = orjson.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConfigError(f"{build}: not a build directory (no {MANIFEST})") from error
    except (OSError, orjson.JSONDecodeError) as error:
        raise PoolError(f"{path}: cannot be read: {error}") from error
    return loaded


def judged_rollouts(build: Path) -> pl.LazyFrame:
    """A build's rollouts, with the verdicts of the verifiers its manifest names.

    Raises:
        ConfigError: the folder is no build.
    """
    version = read_manifest(build).get("verifiers")
    return Ledger(build / "rollouts").scan(version if isinstance(version, str) else None)
