"""Shard: write the ordered pool as files that trainers load as they are.

For every format and split there is the whole split in curriculum order (``ordered-part-*``) and
one set of files per stage (``stage-SS-part-*``), because some trainers shuffle whatever they are
given and can then only be staged. Beside the data go the files that make the trainer keep the
order and judge with our verifiers, and ``shards.json``: what was written, with rows and digests.
"""

import hashlib
from pathlib import Path
from typing import ClassVar, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, field_validator

from curate.pipelines.errors import SinkError
from curate.pipelines.files import write_bytes, write_json
from curate.pipelines.lineage import held_out, roots
from curate.pipelines.order import in_blocks
from curate.pipelines.pool import Pool
from curate.pipelines.sinks import SINKS, FileKind, with_prompt_columns
from curate.pipelines.step import Context, Metric, Step, StepResult, phase
from curate.pipelines.trainer_config import Layout, config_files

#: What a format's folder holds, file by file.
CONTENTS = "shards.json"


class Shard(Step):
    """Split by lineage and write.

    Args:
        formats: trainers to write for (see ``sinks.SINKS``), or ``all``.
        files: file types; a trainer that reads none of them gets those it does read.
        validation: expected share of families (prompts that share an ancestor) held out.
        rows_per_file: most rows in one file.
        batch: prompts in a training batch. The training rows, without those held out, are then
            put into blocks of so many (see ``order.in_blocks``) and the trainers told the number.
    """

    name: ClassVar[str] = "shard"
    version: ClassVar[int] = 2

    formats: tuple[str, ...] = ("trl", "verl")
    files: tuple[FileKind, ...] = Field(default=("parquet", "jsonl"), min_length=1)
    validation: float = Field(default=0.05, ge=0, lt=1)
    rows_per_file: int = Field(default=500_000, ge=1)
    batch: int | None = Field(default=None, ge=1)

    @field_validator("formats", mode="before")
    @classmethod
    def _every(cls, formats: object) -> object:
        return tuple(SINKS) if formats in ("all", ["all"], ("all",)) else formats

    @field_validator("formats")
    @classmethod
    def _known(cls, formats: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in formats if name not in SINKS]
        if unknown or not formats:
            raise ValueError(f"unknown format {unknown}; known: {', '.join(SINKS)}, or all")
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
        if self.batch:
            frame = _train_in_blocks(frame, self.batch, ctx.seed)
        ready = with_prompt_columns(frame)
        n_files = 0
        with phase(ctx.progress, "writing shards", len(self.formats), "formats") as progress:
            for name in self.formats:
                n_files += self._format(name, ready, ctx.artifact / "shards" / name)
                progress.advance(1)
        sizes: dict[str, Metric] = {
            part: int((frame["split"] == part).sum()) for part in ("train", "validation")
        }
        return StepResult(
            kept=Pool(frame),
            metrics={"formats": list(self.formats), "files": n_files, "splits": sizes},
        )

    def _format(self, name: str, ready: pl.DataFrame, folder: Path) -> int:
        """Write one trainer's folder; returns the number of data files."""
        sink = SINKS[name]
        kinds = [kind for kind in sink.files if kind in self.files] or list(sink.files)
        written: dict[Path, int] = {}
        try:
            for part in ("train", "validation"):
                rows = ready.filter(pl.col("split") == part)
                if len(rows):
                    table = sink.table(rows)
                    written |= self._write(table, rows["stage"], folder / part, kinds)
            if not written:
                return 0
            layout = self._layout(ready, {str(p.relative_to(folder)): n for p, n in written.items()
                                          if p.suffix == f".{kinds[0]}"})  # fmt: skip
            contents = [
                {"path": str(path.relative_to(folder)), "rows": rows, "sha256": _digest(path)}
                for path, rows in sorted(written.items())
            ]
        except (OSError, pa.ArrowException) as error:
            raise SinkError(f"{folder}: cannot be written: {error}") from error
        if layout.train:
            for file, text in config_files(name, layout).items():
                write_bytes(folder / file, text.encode())
        longest = {"chars": layout.longest_chars, "bytes": layout.longest_bytes}
        about = {"format": name, "batch": self.batch, "longest_prompt": longest}
        write_json(folder / CONTENTS, {**about, "files": contents})
        return len(written)

    def _layout(self, ready: pl.DataFrame, files: dict[str, int]) -> Layout:
        text = pl.concat_str("system", "question", ignore_nulls=True).str
        longest = ready.select(
            text.len_chars().max().alias("chars"), text.len_bytes().max().alias("bytes")
        )
        train = [file for file in files if file.startswith("train/")]
        labels = sorted({_label(file) for file in train} - {"ordered"})
        return Layout(
            train=[file for file in train if _label(file) == "ordered"],
            validation=[file for file in files if file.startswith("validation/ordered-")],
            stages=[[file for file in train if _label(file) == label] for label in labels],
            longest_chars=cast(int, longest["chars"][0]),
            longest_bytes=cast(int, longest["bytes"][0]),
            batch=self.batch,
        )

    def _write(
        self, table: pa.Table, stage: pl.Series, folder: Path, kinds: list[FileKind]
    ) -> dict[Path, int]:
        """Write one split; returns rows by file, in order."""
        stages = stage.to_numpy()
        groups = {"ordered": table}
        for number in sorted(set(stages.tolist())):
            groups[f"stage-{number:02d}"] = table.filter(pa.array(stages == number))
        written = {}
        folder.mkdir(parents=True, exist_ok=True)
        for label, rows in groups.items():
            for part, start in enumerate(range(0, len(rows), self.rows_per_file)):
                piece = rows.slice(start, self.rows_per_file)
                for kind in kinds:
                    path = folder / f"{label}-part-{part:05d}.{kind}"
                    _write_file(piece, path)
                    written[path] = len(piece)
        return written


def _train_in_blocks(frame: pl.DataFrame, batch: int, seed: int) -> pl.DataFrame:
    """Give the training rows' ranks to the same rows in blocks; held-out rows keep theirs."""
    train = frame.filter(pl.col("split") == "train")
    mixed = in_blocks(train, batch, seed).with_columns(train["rank"])
    return pl.concat([mixed, frame.filter(pl.col("split") != "train")]).sort("rank")


def _label(file: str) -> str:
    return Path(file).name.partition("-part-")[0]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
