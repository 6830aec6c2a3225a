"""Real cases: a development set of reported mistakes, and real models' solutions."""

import gzip
import json
from pathlib import Path

import pytest

from curate.pipelines.errors import SourceError
from curate.verifiers.api import Row, verify_many
from curate.verifiers.cases import load_cases


def test_development_cases(shared: Path) -> None:
    cases = load_cases(shared / "cases/verify_dev.jsonl")
    verdicts = verify_many([case.row for case in cases])
    wrong = [
        (case.id, found) for case, found in zip(cases, verdicts, strict=True)
        if found.value != case.expected
    ]  # fmt: skip
    rewarded = [miss for miss in wrong if miss[1].value == "correct"]
    assert rewarded == []
    assert len(wrong) <= len(cases) / 100, wrong


def test_model_solutions_of_gsm8k_are_judged_as_published(shared: Path) -> None:
    rows, labels = [], []
    with gzip.open(shared / "data/gsm8k/model_solutions.jsonl.gz", "rt") as file:
        for line in file:
            raw = json.loads(line)
            gold = raw["ground_truth"].rsplit("A:", 1)[1].strip()
            for model in [value for value in raw.values() if isinstance(value, dict)]:
                rows.append(Row("math", gold, model["solution"]))
                labels.append(model["is_correct"])
    verdicts = verify_many(rows)
    wrong = [
        (row.gold, row.response[-60:], found)
        for row, found, label in zip(rows, verdicts, labels, strict=True)
        if (found.value == "correct") != label
    ]
    assert len(rows) > 2000
    assert wrong == []


def test_a_case_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(
        '{"id": "a", "kind": "math", "gold": "1", "response": "1", "expected": true}\n'
        '{"id": "b", "kind": "math", "gold": "1", "response": "1", "expected": "yes"}\n'
    )
    with pytest.raises(SourceError, match=r"cases\.jsonl:2"):
        load_cases(path)
