"""Shard: write the ordered pool as files that trainers load as they are.

For every format and split there is the whole split in curriculum order (``ordered-part-*``) and
one set of files per stage (``stage-SS-part-*``), because some trainers shuffle whatever they are
given and can then only be staged.
"""

from pathlib import Path
from typing import ClassVar, Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, field_validator

from curate.pipelines.errors import SinkError
from curate.pipelines.lineage import held_out, roots
from curate.pipelines.pool import Pool
from curate.pipelines.sinks import SINKS, with_prompt_columns
from curate.pipelines.step import Context, Step, StepResult, phase


class Shard(Step):
    """Split by lineage and write.

    Args:
        formats: trainers to write for: ``trl``, ``verl``.
        files: file types.
        validation: expected share of families (prompts that share an ancestor) held out.
        rows_per_file: most rows in one file.
    """

    name: ClassVar[str] = "shard"

    formats: tuple[str, ...] = ("trl", "verl")
    files: tuple[Literal["parquet", "jsonl"], ...] = ("parquet", "jsonl")
    validation: float = Field(default=0.05, ge=0, lt=1)
    rows_per_file: int = Field(default=500_000, ge=1)

    @field_validator("formats")
    @classmethod
    def _known(cls, formats: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in formats if name not in SINKS]
        if unknown or not formats:
            raise ValueError(f"unknown format {unknown}; known: {', '.join(SINKS)}")
        return formats

    def required_columns(self) -> frozenset[str]:
        """An order."""
        return frozenset({"rank"})

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        """Write every format.

        Raises:
            SinkError: the disk is full or a value does not fit the format.
        """
        out = held_out(roots(pool.frame), self.validation, ctx.seed)
        split = pl.when(out).then(pl.lit("validation")).otherwise(pl.lit("train"))
        frame = pool.frame.with_columns(split.alias("split")).sort("rank")
        ready = with_prompt_columns(frame)
        sizes: dict[str, int] = {}
        n_files = 0
        with phase(ctx.progress, "writing shards", len(self.formats), "formats") as progress:
            for name in self.formats:
                for part in ("train", "validation"):
                    rows = ready.filter(pl.col("split") == part)
                    sizes[part] = len(rows)
                    if len(rows):
                        folder = ctx.artifact / "shards" / name / part
                        n_files += self._write(SINKS[name].table(rows), rows["stage"], folder)
                progress.advance(1)
        return StepResult(
            kept=Pool(frame),
            metrics={"formats": list(self.formats), "files": n_files, "splits": dict(sizes)},
        )

    def _write(self, table: pa.Table, stage: pl.Series, folder: Path) -> int:
        stages = stage.to_numpy()
        groups = {"ordered": table}
        for number in sorted(set(stages.tolist())):
            groups[f"stage-{number:02d}"] = table.filter(pa.array(stages == number))
        n_files = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for label, rows in groups.items():
                for part, start in enumerate(range(0, len(rows), self.rows_per_file)):
                    piece = rows.slice(start, self.rows_per_file)
                    for kind in self.files:
                        _write_file(piece, folder / f"{label}-part-{part:05d}.{kind}")
                        n_files += 1
        except (OSError, pa.ArrowException) as error:
            raise SinkError(f"{folder}: cannot be written: {error}") from error
        return n_files


def _write_file(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(
            table,
            path,
            compression="zstd",
            use_content_defined_chunking=True,
            write_page_index=True,
            store_schema=False,
        )
    else:
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        frame.write_ndjson(path)
