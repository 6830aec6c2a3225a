"""The data card: what it claims is what the manifest says."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from report_build import Reader, make_build
from typer.testing import CliRunner

from curate.cli import app
from curate.pipelines.card import write_card
from curate.pipelines.summary import step_record

POLICIES = {
    "weak|er": {
        "prompts": 7, "rollouts": 7, "pass_rate": 0.25, "frontier_share": None, "mean_q_hat": 0.5,
    },
    "strong": {
        "prompts": 9, "rollouts": 36, "pass_rate": None, "frontier_share": 0.4, "mean_q_hat": None,
    },
}  # fmt: skip
MEASURE = {
    "settings": {
        "rollouts": {"per_prompt": 4}, "temperature": 0.7, "top_p": 0.9, "max_tokens": 64,
    },
    "metrics": {"rollouts": 160, "tokens": 99, "truncated": 3},
}  # fmt: skip


def write(path: str, rows: Iterable[dict]) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def built(tmp_path):
    folder, manifest = make_build(tmp_path / "b")
    manifest["sources"] = []

    def card(name: str, **fields: object) -> str:
        manifest["steps"].append({**manifest["steps"][0], "name": name, **fields})
        return write_card(folder, manifest).read_text()

    return card


def test_every_policy_is_told_with_its_pass_rate_and_frontier_share(built) -> None:
    card = built("measure", **{**MEASURE, "metrics": {**MEASURE["metrics"], "policies": POLICIES}})
    assert "| weaker | 7 | 7 | 0.250 | – | 0.500 |" in card
    assert "| strong | 9 | 36 | – | 0.400 | – |" in card
    assert "at temperature\n0.7, top-p 0.9" in card


def test_a_single_policy_gets_no_table_of_policies(built) -> None:
    assert "| policy |" not in built("measure", **MEASURE)


def test_rollouts_made_elsewhere_are_told_with_their_own_settings(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    questions = [f"{i} + {i + 1}" for i in range(4)]
    write("rows.jsonl", ({"question": q, "answer": 2 * i + 1} for i, q in enumerate(questions)))
    write("rollouts.jsonl", (
        {"question": question, "policy": policy, "response": f"The answer is {2 * i + 1 + wrong}."}
        for policy, wrongs in (("steady", (0, 0)), ("wavering", (0, 1)))
        for i, question in enumerate(questions)
        for wrong in wrongs
    ))  # fmt: skip
    done = CliRunner().invoke(app, [
        "build", "--source", "rows.jsonl", "--import-rollouts", "rollouts.jsonl",
        "--policy", "steady", "--recipe", "qa", "--out", "b",
    ])  # fmt: skip
    assert done.exit_code == 0, done.output
    card = Path("b/README.md").read_text()
    assert "8 rollouts that `steady`" in card
    assert "temperature not stated,\ntop-p not stated,\ntoken limit not stated,\nand" in card
    told = {"steady": ("1.000", "0.000"), "wavering": ("0.500", "1.000")}
    for policy, (rate, share) in told.items():
        assert f"| {policy} | 4 | 8 | {rate} | {share} |" in card
    page = Reader(Path("b/report.html").read_text())
    shown = {row[0]: (row[3], row[4]) for row in page.cells["policies-table"][1:]}
    assert shown == {"steady": ("100.0 %", "0.0 %"), "wavering": ("50.0 %", "100.0 %")}


def test_decontamination_is_told_with_files_counts_and_settings(built) -> None:
    settings = {"ngram": 11, "short_ngram": 6, "min_overlap": 0.3, "similarity": 0.75,
                "action": "flag"}  # fmt: skip
    found = {"digest": "e" * 64, "rows": 30, "unusable": 2, "matched": 4, "exact": 1, "ngram": 3}
    card = built("decontaminate", settings=settings,
                 metrics={"matched": 4, "benchmarks": {"aime`24`.json": found}})  # fmt: skip
    told = "(30 questions, 2 more rows could not be read, digest `eeeeeeeeeeeeeeee…`)"
    assert f"`aime24.json` {told}" in card
    assert "**4 of 42 prompts matched** and were kept" in card
    for words in ("30 % of", "of 11 words, or of 6 where", "least 0.75 similar"):
        assert words in card
    assert "| aime24.json | 4 | 1 | 3 | 0 | 0 |" in card


def test_a_build_without_decontamination_says_so(built) -> None:
    assert "compared with no benchmark" in built("dedup")


def test_a_step_is_found_by_its_name() -> None:
    manifest = {"steps": [{"name": "qa", "n": 1}, {"name": "qa", "n": 2}]}
    assert step_record(manifest, "qa") == {"name": "qa", "n": 1}
    assert step_record(manifest, "measure") is None
