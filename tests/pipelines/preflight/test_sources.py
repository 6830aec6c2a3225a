"""Preflight of sources: columns, counts and what a sample becomes."""

import polars as pl
import pytest


@pytest.mark.parametrize(
    "record, told",
    [
        ({"problem": "1+1?", "solution": "so \\boxed{2}"}, "question ← problem, answer ← solution"),
        (
            {"prompt": [{"role": "system", "content": "Be short."},
                        {"role": "user", "content": "1+1?"}],
             "reward_model": {"style": "rule", "ground_truth": "2"}, "data_source": "sums"},
            "question ← prompt, system ← prompt, answer ← reward_model.ground_truth, "
            "source ← data_source",
        ),
        (
            {"question": "Which?", "choices": "red|blue", "answer": "blue", "subject": "colours"},
            "question ← question, answer ← answer, choices ← choices, domain ← subject",
        ),
        (
            {"question": "Which?", "options": {"text": ["r", "b"], "label": ["A", "B"]},
             "answerKey": "B"},
            "question ← question, answer ← answerKey, choices ← options",
        ),
        ({"question": "Which?", "A": "red", "B": "blue", "answer": "A"}, "choices ← A + B"),
        (
            {"question": "1+1?", "answer": "2", "solution": "One and one. \\boxed{2}"},
            "answer ← answer, solutions ← solution",
        ),
    ],
)  # fmt: skip
def test_columns_are_told_as_they_are_taken(look, rows, record, told) -> None:
    assert told in look(source=rows(record))["source sums.jsonl"].detail


def test_columns_that_are_set_are_told(look, rows) -> None:
    source = rows({"ask": "Colour?", "say": "red", "how": "text"})
    settings = {"qa": {"question": "ask", "answer": "say", "kind": "how", "system": "Be short."}}
    found = look(source=source, settings=settings)["source sums.jsonl"]
    assert found.detail.endswith(
        "columns: question ← ask, answer ← say, kind ← how, system ← as set"
    )
    found = look(source=source, settings={"qa": {**settings["qa"], "question": "aks"}})
    assert found["sample sums.jsonl"].state == "failed"
    assert "did you mean 'ask'?" in found["sample sums.jsonl"].detail


def test_rejects_are_told_by_reason_with_the_first_row(look, rows) -> None:
    good = {"question": "Is it red?", "answer": "yes"}
    bad = {"question": "Is it red?", "answer": ""}
    gold = {"question": "Is it red?", "answer": "perhaps"}
    settings = {"qa": {"kind": "boolean"}}
    found = look(source=rows(good, bad, gold, bad), settings=settings)["sample sums.jsonl"]
    assert (found.state, found.exit_code) == ("warning", 0)
    assert found.detail.startswith(
        "1 of the first 4 rows would be kept (boolean 1); 3 rejected: missing_answer 2 "
        "(first sums.jsonl:2 answer: answer is empty); bad_gold 1 (first sums.jsonl:3 answer: "
    )


def test_a_sample_without_a_usable_row_fails(look, rows) -> None:
    found = look(source=rows({"text": "a document"}))["sample sums.jsonl"]
    assert (found.state, found.exit_code) == ("failed", 2)
    assert "missing_question 1" in found.detail


def test_a_recipe_without_check_is_warned_of(look, tmp_path) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\nsteps: [qa]\n")
    found = look(recipe=str(tmp_path / "mine.yaml"))["sample sums.jsonl"]
    assert found.state == "warning"
    assert "no check step" in found.detail


def test_sources_that_do_not_go_together_are_told_once(look, rows) -> None:
    one = {"uri": rows(), "weight": 1}
    other = {"uri": rows(name="other.jsonl")}
    found = look(source=[one, other])
    assert "has no weight" in found["sources"].detail
    assert found["source sums.jsonl"].state == "ok"


def test_a_broken_file_in_a_folder_is_found(look, tmp_path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n')
    (folder / "b.parquet").write_bytes(b"PAR1 cut short")
    found = look(source=str(folder))["source data"]
    assert found.state == "failed"
    assert "b.parquet" in found.detail
    (folder / "b.parquet").unlink()
    pl.DataFrame({"question": ["1?"] * 7, "answer": ["1"] * 7}).write_parquet(folder / "c.parquet")
    assert "2 files, .jsonl, .parquet; 8 rows" in look(source=str(folder))["source data"].detail


@pytest.mark.parametrize(
    "name, text, told",
    [
        ("a.csv", 'question,answer\n"two\nlines",1\nb,2\n', "about 3 rows"),
        ("a.jsonl", '{"question": "a", "answer": "1"}\n\n{"question": "b", "answer": "2"}\n',
         "2 rows"),
        ("a.json", '[{"question": "a", "answer": "1"}]', "1 rows"),
    ],
)  # fmt: skip
def test_rows_are_counted_or_estimated(look, tmp_path, name, text, told) -> None:
    (tmp_path / name).write_text(text)
    assert f"; {told}; " in look(source=str(tmp_path / name))[f"source {name}"].detail


def test_rows_of_a_large_file_are_estimated_from_its_start(monkeypatch, look, rows) -> None:
    """Large being what the limits say, which are lowered here."""
    from curate.pipelines import row_counts

    monkeypatch.setattr(row_counts, "MOST_BYTES", 2_000)
    monkeypatch.setattr(row_counts, "_MEASURED", 1_000)
    found = look(source=rows(n=900))["source sums.jsonl"]
    n = int(found.detail.split("about ")[1].split(" rows")[0].replace(",", ""))
    assert 700 < n < 1100
    assert "; 20 rows" in look(source=rows(n=900), limit=20)["source sums.jsonl"].detail


def test_a_dataset_leaves_nothing_in_the_librarys_cache(look, tmp_path, rows) -> None:
    datasets = pytest.importorskip("datasets")
    folder = tmp_path / "set"
    folder.mkdir()
    rows(n=3, name="set/train.jsonl")
    usual = datasets.config.HF_DATASETS_CACHE
    datasets.config.HF_DATASETS_CACHE = tmp_path / "notes"
    try:
        found = look(source=f"hf:{folder}")
        assert tmp_path / "notes" == datasets.config.HF_DATASETS_CACHE
    finally:
        datasets.config.HF_DATASETS_CACHE = usual
    assert found["sample set"].detail.startswith("3 of the first 3 rows")
    assert not (tmp_path / "notes").exists()
