"""The rollout ledger: every rollout ever spent on a build, appended and never rewritten.

One folder of Parquet parts with ``ROLLOUT_SCHEMA``. A part is written whole under a temporary
name and renamed, so a killed build leaves only whole parts behind.
"""

import hashlib
from pathlib import Path

import polars as pl

from curate.pipelines.errors import PoolError
from curate.pipelines.files import write_parquet
from curate.pipelines.pool import ROLLOUT_SCHEMA, check_schema

#: What makes two rollouts the same draw. The verdict on it may be newer in one of them.
DRAW = [
    "prompt_id", "sample", "policy", "revision", "template", "strategy",
    "seed", "temperature", "top_p", "max_tokens",
]  # fmt: skip

#: Rollouts that share these are of one policy sampled in one way, so share a pass rate.
SAMPLED = ["policy", "revision", "template", "temperature", "top_p", "max_tokens", "seed"]


class Ledger:
    """The rollouts of one build directory.

    Args:
        folder: ``<build>/rollouts``; made on the first append.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, rollouts: pl.DataFrame) -> None:
        """Add rollouts as one new part; its name is its content's digest and its place in line."""
        check_schema(rollouts, ROLLOUT_SCHEMA, "rollouts")
        if rollouts.is_empty():
            return
        keys = rollouts.select(*DRAW, "verifier_version").hash_rows(seed=0)
        digest = hashlib.sha256(keys.to_numpy().tobytes()).hexdigest()[:12]
        number = len(list(self.folder.glob("part-*.parquet")))
        write_parquet(rollouts, self.folder / f"part-{number:05d}-{digest}.parquet")

    def scan(self, judged_by: str | None = None) -> pl.LazyFrame:
        """All rollouts, one row a draw.

        Args:
            judged_by: version of the verifiers whose verdict is wanted where a draw was judged
                more than once; else, and when None, the latest verdict.

        Raises:
            PoolError: a part is not whole.
        """
        parts = sorted(self.folder.glob("part-*.parquet"))
        if not parts:
            return pl.LazyFrame(schema=ROLLOUT_SCHEMA)
        for part in parts:
            _check_whole(part)
        told = pl.scan_parquet(parts)
        if judged_by is not None:
            wanted = pl.col("verifier_version") == judged_by
            told = pl.concat([told.filter(~wanted), told.filter(wanted)])
        return told.unique(subset=DRAW, keep="last", maintain_order=True)


def _check_whole(part: Path) -> None:
    """A footer says whether the rest is there; the rows are read when they are needed."""
    try:
        held = pl.read_parquet_schema(part)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise PoolError(
            f"{part}: cannot be read as rollouts: {error}; restore it, or remove it and build "
            "again to draw its rollouts once more"
        ) from error
    if missing := set(ROLLOUT_SCHEMA) - set(held):
        raise PoolError(f"{part}: has no column {min(missing)!r}, so holds no rollouts")
