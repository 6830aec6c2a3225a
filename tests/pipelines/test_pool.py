"""The pool: schema, ids, rejects."""

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.pipelines.errors import PoolError
from curate.pipelines.pool import (
    PROMPT_SCHEMA,
    REJECT_SCHEMA,
    Pool,
    check_schema,
    conform,
    read_parquet,
    rejects,
    verifier_arguments,
)

text = st.text(max_size=20)
row = st.fixed_dictionaries(
    {
        "question": text,
        "answer": text,
        "kind": st.sampled_from(["math", "choice"]),
        "system": st.none() | text,
        "choices": st.none() | st.lists(text, min_size=1, max_size=4),
    }
)


@given(st.lists(row, min_size=1, max_size=6, unique_by=lambda r: json.dumps(r)))
def test_ids_differ_exactly_when_what_is_seen_or_judged_differs(rows: list[dict]) -> None:
    # The id's separators cannot be typed by accident; texts that hold them are out of scope.
    rows = [r for r in rows if not any(c in json.dumps(r) for c in ("\\u001e", "\\u001f"))]
    if not rows:
        return
    once = Pool.from_columns(pl.DataFrame(rows, schema_overrides=_types(rows))).frame["id"]
    again = Pool.from_columns(pl.DataFrame(rows[::-1], schema_overrides=_types(rows))).frame["id"]
    assert list(once) == list(again)[::-1]
    same = {json.dumps({**r, "system": r["system"] or "", "choices": r["choices"] or [""]})
            for r in rows}  # fmt: skip
    assert once.n_unique() == len(same)


def _types(rows: list[dict]) -> dict:
    return {name: PROMPT_SCHEMA[name] for name in rows[0]}


def test_the_id_of_a_known_prompt_never_changes(make_pool) -> None:
    # Ledgers and published pools are joined on ids: a change here orphans every stored rollout.
    assert list(make_pool(1).frame["id"]) == ["7f17d7def47b1bf0d1b5178567235d7c"]


def test_where_a_prompt_is_from_does_not_change_its_id(make_pool) -> None:
    one = make_pool(3)
    other = make_pool(3, source_id=["x:9", "x:8", "x:7"], license=["MIT"] * 3)
    assert list(one.frame["id"]) == list(other.frame["id"])


def test_a_frame_with_a_missing_unknown_or_mistyped_column_is_no_pool(make_pool) -> None:
    frame = make_pool(2).frame
    with pytest.raises(PoolError, match="missing p_hat"):
        Pool(frame.drop("p_hat"))
    with pytest.raises(PoolError, match="unknown extra"):
        Pool(frame.with_columns(pl.lit(1).alias("extra")))
    with pytest.raises(PoolError, match="attempts is String, not Int32"):
        Pool(frame.with_columns(pl.lit("1").alias("attempts")))
    with pytest.raises(PoolError, match="out of order"):
        Pool(frame.select(*frame.columns[1:], frame.columns[0]))
    with pytest.raises(PoolError, match="'answer' holds nulls"):
        Pool(frame.with_columns(pl.lit(None, dtype=pl.String()).alias("answer")))


def test_a_pool_survives_parquet(make_pool, tmp_path) -> None:
    pool = make_pool(5, choices=[["a", "b"], None, ["c"], None, None])
    pool.frame.write_parquet(tmp_path / "p.parquet")
    assert read_parquet(tmp_path / "p.parquet", PROMPT_SCHEMA, "pool").equals(pool.frame)


def test_a_broken_parquet_is_named(tmp_path) -> None:
    (tmp_path / "p.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(PoolError, match=r"p\.parquet: cannot be read as pool"):
        read_parquet(tmp_path / "p.parquet", PROMPT_SCHEMA, "pool")


def test_a_rejected_row_keeps_its_whole_record(make_pool) -> None:
    pool = make_pool(3, choices=[["é", '"'], None, None])
    out = rejects(pool.frame, "check", "bad_gold", pl.format("gold {}", "answer"), "answer")
    check_schema(out, REJECT_SCHEMA, "rejected")
    assert list(out["detail"]) == ["gold 1", "gold 3", "gold 5"]
    records = [json.loads(record) for record in out["record"]]
    assert records == pool.frame.to_dicts()


def test_conform_refuses_columns_it_would_lose(make_pool) -> None:
    with pytest.raises(PoolError, match="unknown columns: tmp"):
        conform(make_pool(1).frame.with_columns(pl.lit(1).alias("tmp")), PROMPT_SCHEMA)


def test_an_empty_pool_is_a_pool() -> None:
    assert len(Pool.empty()) == 0


def test_choices_reach_the_verifier_as_lettered_options() -> None:
    assert verifier_arguments("{}", None) == {}
    assert verifier_arguments("{}", ["x", "y"]) == {"options": {"A": "x", "B": "y"}}
