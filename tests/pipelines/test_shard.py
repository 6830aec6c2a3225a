"""Shards: exact schemas, whole and staged, split by family."""

import json

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from curate.pipelines.order import Order
from curate.pipelines.pool import Pool
from curate.pipelines.shard import Shard

CHAT = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))


@pytest.fixture
def ordered(make_pool, context):
    def make(n: int = 200, **columns) -> Pool:
        return Order(by="random", stages=3).run(make_pool(n, **columns), context()).kept

    return make


def read(context, pattern: str) -> list[pa.Table]:
    return [pq.read_table(path) for path in sorted((context.artifact / "shards").glob(pattern))]


def test_trl_shards_have_the_shape_trl_reads(ordered, context) -> None:
    ctx = context()
    pool = ordered(50, system=["Add."] + [None] * 49)
    Shard(validation=0).run(pool, ctx)
    (table,) = read(ctx, "trl/train/ordered-part-00000.parquet")
    assert table.schema.field("prompt").type == CHAT
    assert table.schema.field("solution").type == pa.string()
    assert table.schema.metadata is None
    by_id = {row["prompt_id"]: row for row in table.to_pylist()}
    first = by_id[pool.frame.sort("source_id").filter(pl.col("system") == "Add.")["id"][0]]
    assert first["prompt"] == [
        {"role": "system", "content": "Add."},
        {"role": "user", "content": "0 + 1"},
    ]
    assert first["solution"] == "\\boxed{1}"
    assert first["answer"] == "1"


def test_verl_shards_have_the_shape_verl_reads(ordered, context) -> None:
    ctx = context()
    Shard(validation=0.2).run(ordered(100), ctx)
    (table,) = read(ctx, "verl/train/ordered-part-00000.parquet")
    assert table.column_names == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
    row = table.to_pylist()[0]
    assert row["reward_model"]["style"] == "rule"
    question = row["prompt"][0]["content"]
    assert str(sum(map(int, question.split(" + ")))) == row["reward_model"]["ground_truth"]
    assert row["extra_info"]["split"] == "train"
    assert isinstance(row["extra_info"]["index"], int)


def test_no_column_of_a_shard_is_null_throughout_or_of_a_large_type(ordered, context) -> None:
    ctx = context()
    Shard().run(ordered(60), ctx)
    for table in read(ctx, "trl/**/*.parquet"):
        for name in table.column_names:
            assert table[name].null_count < len(table), name
    for table in read(ctx, "**/*.parquet"):
        assert "large" not in str(table.schema)
        assert table.schema.metadata is None


def test_stages_add_up_to_the_ordered_file_in_order(ordered, context) -> None:
    ctx = context()
    pool = ordered(90)
    Shard(validation=0).run(pool, ctx)
    (whole,) = read(ctx, "trl/train/ordered-*.parquet")
    stages = read(ctx, "trl/train/stage-*.parquet")
    assert len(stages) == 3
    assert pa.concat_tables(stages).equals(whole)
    assert whole["rank"].to_pylist() == list(range(90))


def test_long_files_are_cut_and_keep_their_order(ordered, context) -> None:
    ctx = context()
    Shard(validation=0, rows_per_file=40, files=("parquet",)).run(ordered(90), ctx)
    parts = read(ctx, "trl/train/ordered-*.parquet")
    assert [len(part) for part in parts] == [40, 40, 10]
    assert pa.concat_tables(parts)["rank"].to_pylist() == list(range(90))


def test_jsonl_and_parquet_hold_the_same_rows(ordered, context) -> None:
    ctx = context()
    Shard(validation=0).run(ordered(20), ctx)
    folder = ctx.artifact / "shards/trl/train"
    lines = (folder / "ordered-part-00000.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == pq.read_table(
        folder / "ordered-part-00000.parquet"
    ).to_pylist()


def test_a_family_is_never_split(ordered, context) -> None:
    ctx = context()
    pool = ordered(200)
    first = pool.frame["id"][:100]
    children = pool.frame.with_columns(
        pl.when(pl.int_range(pl.len()) < 100)
        .then(pl.lit([], dtype=pl.List(pl.String())))
        .otherwise(pl.concat_list(pl.Series([*first, *first])))
        .alias("parents")
    )
    kept = Shard(validation=0.3).run(Pool(children), ctx).kept.frame
    split = dict(kept.select("id", "split").iter_rows())
    families = kept.filter(pl.col("parents").list.len() > 0)
    assert len(families) == 100
    for child, parents in families.select("id", "parents").iter_rows():
        assert split[child] == split[parents[0]]
    assert set(split.values()) == {"train", "validation"}


def test_choices_reach_the_trainer_as_verifier_arguments(ordered, context) -> None:
    ctx = context()
    Shard(validation=0).run(ordered(2, choices=[["red", "blue"], None]), ctx)
    (table,) = read(ctx, "trl/train/ordered-*.parquet")
    found = {json.dumps(json.loads(text)) for text in table["verifier_args"].to_pylist()}
    assert found == {"{}", '{"options": {"A": "red", "B": "blue"}}'}


def test_the_same_pool_gives_the_same_bytes(ordered, context, tmp_path) -> None:
    pool = ordered(80)
    made = []
    for name in ("one", "other"):
        ctx = context(artifact=tmp_path / name)
        Shard().run(pool, ctx)
        made.append({p.relative_to(tmp_path / name): p.read_bytes()
                     for p in (tmp_path / name).rglob("*.*")})  # fmt: skip
    assert made[0] == made[1]
    assert len(made[0]) > 8


def test_datasets_loads_the_folder_as_it_is(ordered, context, tmp_path) -> None:
    datasets = pytest.importorskip("datasets")
    ctx = context()
    Shard(validation=0, rows_per_file=30).run(ordered(70), ctx)
    for fmt in ("trl", "verl"):
        for kind, loader in (("parquet", "parquet"), ("jsonl", "json")):
            loaded = datasets.load_dataset(
                loader,
                data_files=str(ctx.artifact / f"shards/{fmt}/train/ordered-part-*.{kind}"),
                split="train",
                cache_dir=str(tmp_path / "hf"),
            )
            assert len(loaded) == 70
            assert loaded[0]["prompt"][-1]["role"] == "user"


def test_an_empty_pool_writes_nothing_and_says_so(context) -> None:
    result = Shard().run(Pool.empty(), context())
    assert result.metrics["files"] == 0


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValidationError, match="known: trl, verl"):
        Shard(formats=("trll",))
