"""Counting rows without reading them: never wrong where it says that it is exact."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.pipelines import row_counts
from curate.pipelines.errors import SourceError
from curate.pipelines.row_counts import RowCount, count_rows, total
from curate.pipelines.sources import open_source

ROW = st.fixed_dictionaries({"question": st.text(max_size=20), "answer": st.integers()})


@given(
    lines=st.lists(ROW.map(json.dumps) | st.sampled_from(["", " ", "\t"]), min_size=1, max_size=20),
    end=st.sampled_from(["", "\n"]),
    packed=st.booleans(),
    limit=st.none() | st.integers(1, 25),
)
def test_json_lines_are_counted_exactly(
    tmp_path_factory: pytest.TempPathFactory, lines, end, packed, limit
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    text = ("\n".join(lines) + end).encode()
    path = folder / ("a.jsonl.gz" if packed else "a.jsonl")
    path.write_bytes(gzip.compress(text) if packed else text)
    source = open_source(str(path), limit=limit)
    try:
        expected = sum(1 for _ in source.rows())
    except SourceError:  # holds no rows
        expected = 0
    assert count_rows(source) == RowCount(expected, exact=True)


@given(rows=st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), min_size=1, max_size=9))
def test_rows_of_tables_are_estimates(tmp_path_factory: pytest.TempPathFactory, rows) -> None:
    path = tmp_path_factory.mktemp("rows") / "a.csv"
    pl.DataFrame(rows, schema=["question", "answer"], orient="row").write_csv(path)
    count = count_rows(open_source(str(path)))
    assert count.rows is not None and not count.exact
    assert str(count).startswith("about ")


def test_parquet_tells_its_rows(tmp_path: Path) -> None:
    pl.DataFrame({"a": range(70_000)}).write_parquet(tmp_path / "a.parquet")
    assert count_rows(open_source(str(tmp_path / "a.parquet"))) == RowCount(70_000)
    assert count_rows(open_source(str(tmp_path / "a.parquet"), limit=9)) == RowCount(9)


def test_what_would_take_reading_much_is_not_counted(tmp_path: Path, monkeypatch) -> None:
    """Much being what the limits say, which are lowered here."""
    rows = [{"question": str(i), "answer": str(i)} for i in range(200)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    source = open_source(str(tmp_path / "a.json"))
    assert count_rows(source) == RowCount(200)
    monkeypatch.setattr(row_counts, "MOST_BYTES", 100)
    assert count_rows(source) == RowCount(None)
    assert str(RowCount(None)) == "rows not counted"
    limited = open_source(str(tmp_path / "a.json"), limit=7)
    assert count_rows(limited) == RowCount(7, exact=False)


def test_a_total_is_known_when_all_parts_are() -> None:
    assert total([RowCount(2), RowCount(3)]) == RowCount(5)
    assert total([RowCount(2), RowCount(3, exact=False)]) == RowCount(5, exact=False)
    assert total([RowCount(2), RowCount(None)]).rows is None
    assert total([]).rows is None
