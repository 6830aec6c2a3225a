"""The rollout ledger: every rollout ever spent on a build, appended and never rewritten.

One folder of Parquet parts with ``ROLLOUT_SCHEMA``. A part is written whole under a temporary
name and renamed, so a killed build leaves only whole parts behind.
"""

import hashlib
from pathlib import Path

import polars as pl

from curate.pipelines.files import write_parquet
from curate.pipelines.pool import ROLLOUT_SCHEMA, check_schema

#: What makes two rollouts the same draw. The verdict on it may be newer in one of them.
DRAW = [
    "prompt_id", "sample", "policy", "revision", "template", "strategy",
    "seed", "temperature", "top_p", "max_tokens",
]  # fmt: skip


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
        self.folder.mkdir(parents=True, exist_ok=True)
        keys = rollouts.select(*DRAW, "verifier_version").hash_rows(seed=0)
        digest = hashlib.sha256(keys.to_numpy().tobytes()).hexdigest()[:12]
        number = len(list(self.folder.glob("part-*.parquet")))
        write_parquet(rollouts, self.folder / f"part-{number:05d}-{digest}.parquet")

    def scan(self, judged_by: str | None = None) -> pl.LazyFrame:
        """All rollouts, one row a draw.

        Args:
            judged_by: version of the verifiers whose verdict is wanted where a draw was judged
                more than once; else, and when None, the latest verdict.
        """
        parts = sorted(self.folder.glob("part-*.parquet"))
        if not parts:
            return pl.LazyFrame(schema=ROLLOUT_SCHEMA)
        told = pl.scan_parquet(parts)
        if judged_by is not None:
            wanted = pl.col("verifier_version") == judged_by
            told = pl.concat([told.filter(~wanted), told.filter(wanted)])
        return told.unique(subset=DRAW, keep="last", maintain_order=True)
