"""Decontamination in whole builds: what reruns it, and where a person meets what it found."""

import json
from pathlib import Path

import polars as pl
import pytest
from report_build import Reader
from typer.testing import CliRunner

from curate.cli import app
from curate.pipelines.recipe import load_recipe, parse_settings
from curate.pipelines.store import read_manifest

RIVERS = "Which of the two rivers that meet in the old town of Passau is the {} one by far?"


def curate(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


def steps(build: Path) -> dict[str, dict]:
    return {step["name"]: step for step in read_manifest(build)["steps"]}


def write(path: Path, questions: list[str]) -> Path:
    rows = [{"question": question, "answer": "7"} for question in questions]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def rebuild(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Build two questions, one of which the benchmark holds, and give the steps by name."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    source = write(tmp_path / "rows.jsonl", [RIVERS.format("longer"), "How much is 3 + 4?"])
    write(tmp_path / "bench.jsonl", [RIVERS.format("longer")])
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "name: mine\nsteps: [qa, check, dedup, decontaminate, order: {by: random}, shard]\n"
    )

    def rebuild(*words: str) -> dict[str, dict]:
        curate("build", "--recipe", recipe, "--source", source, "--out", tmp_path / "b", *words)
        return steps(tmp_path / "b")

    return rebuild


def test_only_a_changed_benchmark_reruns_decontamination_and_what_follows(
    rebuild, tmp_path
) -> None:
    against = ("--set", f"decontaminate.against={tmp_path / 'bench.jsonl'}")
    assert rebuild(*against)["decontaminate"]["rejected"] == 1
    assert all(step["reused"] for step in rebuild(*against).values())
    write(tmp_path / "bench.jsonl", ["How much is 3 + 4?", RIVERS.format("longer")])
    found = rebuild(*against)
    reused = {name for name, step in found.items() if step["reused"]}
    assert reused == {"qa", "check", "dedup"}
    assert found["decontaminate"]["rejected"] == 2


def test_a_step_without_benchmarks_says_that_it_is_off(rebuild, tmp_path) -> None:
    assert rebuild()["decontaminate"]["rejected"] == 0
    assert "off: no" in curate("inspect", tmp_path / "b")
    assert "compared with no benchmark" in (tmp_path / "b/README.md").read_text()
    assert "compared with no benchmark" in (tmp_path / "b/report.html").read_text()


def test_a_flagged_match_is_told_as_kept(rebuild, tmp_path) -> None:
    settings = (f"decontaminate.against={tmp_path / 'bench.jsonl'}", "decontaminate.action=flag")
    found = rebuild(*(word for setting in settings for word in ("--set", setting)))
    assert found["shard"]["rows_out"] == 2
    assert "kept, with the match in their `metadata`" in (tmp_path / "b/README.md").read_text()


@pytest.mark.parametrize("name", ["qa", "frontier"])
def test_a_built_in_recipe_takes_benchmarks_before_rollouts_are_spent(name, tmp_path) -> None:
    bench = write(tmp_path / "bench.jsonl", ["How much is 3 + 4?"])
    recipe = load_recipe(name, parse_settings([f"decontaminate.against={bench}"]))
    words = [step.name for step in recipe.steps]
    assert words.index("decontaminate") < words.index("measure")
    assert recipe.plain()["steps"][words.index("decontaminate")]["decontaminate"]["against"] == [
        str(bench)
    ]


def test_matches_in_real_rows_are_told_wherever_a_person_looks(
    shared, tmp_path, monkeypatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    data = shared / "data"
    recipe = tmp_path / "mix.yaml"
    recipe.write_text(
        "name: mix\n"
        "sources:\n"
        f"  - {{uri: {data / 'gsm8k/test.jsonl'}, name: gsm8k}}\n"
        f"  - {{uri: {data / 'math/math_train_2000.jsonl.gz'}, name: math}}\n"
        "steps:\n"
        "  - qa\n  - check\n  - dedup: {near: {threshold: 0.7}}\n"
        f"  - decontaminate: {{against: {data / 'math/math500.json'}}}\n"
        "  - order: {by: random}\n  - shard\n"
    )
    curate("build", "--recipe", recipe, "--out", tmp_path / "b")
    told = steps(tmp_path / "b")["decontaminate"]
    n = told["rejected_by_reason"]["contaminated"]
    (report,) = (tmp_path / "b/steps").glob("*-decontaminate-*/contamination.parquet")
    matches = pl.read_parquet(report)
    assert matches["id"].n_unique() == n > 0
    # What matched is MATH, and every match names a row of the benchmark by its place.
    assert matches["source_id"].str.starts_with("math/").all()
    problems = json.loads((data / "math/math500.json").read_text())
    assert matches["benchmark_row"].is_between(1, len(problems)).all()

    card = (tmp_path / "b/README.md").read_text()
    assert f"**{n} of {told['rows_in']} prompts matched** and were rejected." in card
    assert "`math500.json` (500 questions" in card and "runs of 13 words, or of 8" in card
    assert report.relative_to(tmp_path / "b").as_posix() in card

    page = Reader((tmp_path / "b/report.html").read_text())
    assert [row[:2] for row in page.cells["matches-table"][1:]] == [
        [row["source_id"], row["benchmark"]] for row in matches.to_dicts()
    ]
    assert page.cells["benchmarks-table"][1][4] == str(n)

    rejected = curate("inspect", tmp_path / "b", "--rejected")
    for row in matches.unique("id").to_dicts():
        assert f"decontaminate: contaminated [question]  {row['source_id']}" in rejected
    assert "math500.json:" in rejected
