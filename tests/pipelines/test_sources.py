"""Sources: every format, every encoding, and what is broken in them."""

import csv
import gzip
import io
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curate.pipelines.errors import SourceError
from curate.pipelines.sources import open_source

ROWS = [{"question": f"What is {i} + é?", "answer": str(i)} for i in range(5)]
JSONL = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


def csv_text(rows: list[dict], delimiter: str = ",") -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def records(uri: object, **options: object) -> list[dict]:
    found = list(open_source(str(uri), **options).rows())
    assert all(row.problem is None for _, row in found), found
    assert [row.row for _, row in found] == list(range(1, len(found) + 1))
    return [row.record for _, row in found]


CONTENTS = {
    "a.jsonl": JSONL.encode(),
    "a.ndjson": JSONL.encode(),
    "a.JSONL": JSONL.encode(),
    "a.json": json.dumps(ROWS).encode(),
    "wrapped.json": json.dumps({"version": 1, "data": ROWS}).encode(),
    "lines.json": JSONL.encode(),
    "a.csv": csv_text(ROWS).encode(),
    "a.tsv": csv_text(ROWS, "\t").encode(),
    "a.jsonl.gz": gzip.compress(JSONL.encode()),
    "a.csv.gz": gzip.compress(csv_text(ROWS).encode()),
    "crlf.jsonl": JSONL.replace("\n", "\r\n").encode(),
    "no-newline-at-end.jsonl": JSONL.rstrip().encode(),
    "blank-lines.jsonl": JSONL.replace("\n", "\n\n  \n").encode(),
    "bom.jsonl": JSONL.encode("utf-8-sig"),
    "bom.csv": csv_text(ROWS).encode("utf-8-sig"),
    "bom.json": json.dumps(ROWS).encode("utf-8-sig"),
    "utf16.jsonl": JSONL.encode("utf-16"),
    "utf16.csv": csv_text(ROWS).encode("utf-16"),
    "utf32.jsonl": JSONL.encode("utf-32"),
    "crlf.csv": csv_text(ROWS).replace("\r\n", "\n").replace("\n", "\r\n").encode(),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_every_format_and_encoding_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(CONTENTS[name])
    assert records(tmp_path / name) == ROWS


def test_parquet_with_nested_columns(tmp_path: Path) -> None:
    rows = [{**row, "reward_model": {"ground_truth": row["answer"]}} for row in ROWS]
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    assert records(tmp_path / "a.parquet") == rows


def test_a_folder_is_read_file_by_file_in_name_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.jsonl").write_text('{"question": "b", "answer": "1"}\n')
    (tmp_path / "sub" / "a.csv").write_text("question,answer\na,1\n")
    (tmp_path / "README.md").write_text("not a source")
    (tmp_path / ".hidden.jsonl").write_text("{")
    found = list(open_source(str(tmp_path)).rows())
    assert [(name, row.row) for name, row in found] == [("b.jsonl", 1), ("sub/a.csv", 1)]


def test_a_glob_names_rows_by_their_place_under_its_fixed_part(tmp_path: Path) -> None:
    for name in ("x/one.jsonl", "y/one.jsonl"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text('{"question": "q", "answer": "1"}\n')
    found = list(open_source(str(tmp_path / "*" / "*.jsonl")).rows())
    assert [name for name, _ in found] == ["x/one.jsonl", "y/one.jsonl"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "bom.jsonl"])
def test_standard_input_is_recognised_by_its_content(name: str) -> None:
    source = open_source("-", stdin=io.BytesIO(CONTENTS[name]))
    assert [row.record for _, row in source.rows()] == ROWS


def test_limit_counts_rows_over_all_files(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(JSONL)
    assert len(list(open_source(str(tmp_path), limit=7).rows())) == 7


def test_the_digest_follows_content_and_names_not_the_folder(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jsonl").write_text(JSONL)
    digest = open_source(str(tmp_path / "one")).digest
    assert open_source(str(tmp_path / "other")).digest == digest
    (tmp_path / "other" / "a.jsonl").write_text(JSONL + "\n")
    assert open_source(str(tmp_path / "other")).digest != digest


@pytest.mark.parametrize(
    "line, reason, detail",
    [
        (b'{"question": "q", ', "bad_json", "Expecting"),
        (b"[1, 2]", "bad_json", "expected an object, found list"),
        (b"null", "bad_json", "expected an object, found NoneType"),
        (b'{"question": "caf\xe9"}', "bad_encoding", "not UTF-8 at byte 17"),
        (b"[" * 100_000, "bad_json", ""),
    ],
)
def test_a_broken_line_is_a_row_with_a_problem(tmp_path, line, reason, detail) -> None:
    good = b'{"question": "q", "answer": "1"}\n'
    (tmp_path / "a.jsonl").write_bytes(good + line + b"\n" + good)
    rows = [row for _, row in open_source(str(tmp_path / "a.jsonl")).rows()]
    assert [row.problem is None for row in rows] == [True, False, True]
    assert rows[1].row == 2
    assert rows[1].problem.reason == reason
    assert detail in rows[1].problem.detail
    assert rows[1].record["raw"]


def test_a_csv_row_of_another_width_or_encoding_is_a_row_with_a_problem(tmp_path) -> None:
    text = b"question,answer\nq,1\nq,1,2\nq\ncaf\xe9,3\n"
    (tmp_path / "a.csv").write_bytes(text)
    rows = [row for _, row in open_source(str(tmp_path / "a.csv")).rows()]
    problems = [row.problem and row.problem.reason for row in rows]
    assert problems == [None, "bad_row", "bad_row", "bad_encoding"]
    assert rows[3].problem.field == "question"


def test_huge_fields_are_read_whole(tmp_path) -> None:
    long = "x" * 5_000_000
    (tmp_path / "a.jsonl").write_text(json.dumps({"question": long, "answer": "1"}))
    (tmp_path / "a.csv").write_text(f"question,answer\n{long},1\n")
    for name in ("a.jsonl", "a.csv"):
        assert records(tmp_path / name) == [{"question": long, "answer": "1"}]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.json", b"{not json", "not JSON"),
        ("a.json", b'"text"', "expected a list of objects"),
        ("a.json", b'{"train": [{"q": 1}], "test": [{"q": 2}]}', "several lists of rows"),
        ("a.parquet", b"PAR1 no", "not readable Parquet"),
        ("a.jsonl.gz", gzip.compress(JSONL.encode() * 500)[:-20], "broken gzip file"),
        ("a.jsonl.gz", b"not gzip", "broken gzip file"),
        ("a.csv", b"a,a\n1,2\n", "column 'a' is there more than once"),
        ("a.jsonl", b"", "holds no rows"),
        ("a.csv", b"question,answer\n", "holds no rows"),
        ("a.txt", b"words", "unknown format; known: .jsonl"),
        ("a.jsonl", b"\xff\xfeq", "not in the encoding its first bytes name"),
    ],
)
def test_a_file_that_cannot_be_read_at_all_is_named(tmp_path, name, content, message) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message) as caught:
        list(open_source(str(tmp_path / name)).rows())
    assert name in str(caught.value)


@pytest.mark.parametrize("uri", ["nothing.jsonl", "no*thing.jsonl", "empty"])
def test_a_source_that_is_not_there_is_named(tmp_path, uri) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=uri.replace("*", r"\*")):
        open_source(str(tmp_path / uri))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.text())))
def test_jsonl_gives_back_what_was_written(tmp_path, rows) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if not rows:
        return
    (tmp_path / "a.jsonl").write_text(text)
    assert records(tmp_path / "a.jsonl") == rows
