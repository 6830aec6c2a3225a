"""``curate reverify`` and ``curate measure --more`` on a build by the tiny policy."""

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from curate.cli import app
from curate.engines.transformers_engine import TransformersEngine
from curate.pipelines import session, spend

ROWS = [{"question": f"What is {i} + {i + 2}?", "answer": 2 * i + 2} for i in range(12)]


def curate(*words: object) -> dict:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def build(tmp_path: Path) -> Path:
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    curate("build", "--source", source, "--recipe", "qa", "--rollouts", 3, "--out", tmp_path / "b",
           "--cache", tmp_path / "cache.sqlite")  # fmt: skip
    (tmp_path / "cache.sqlite").unlink()
    return tmp_path / "b"


@pytest.fixture
def no_model(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        pytest.fail("a model was asked")

    monkeypatch.setattr(TransformersEngine, "generate", refused)


def responses(build: Path) -> pl.DataFrame:
    return pl.read_parquet(build / "rollouts").select("prompt_id", "sample", "response")


@pytest.mark.usefixtures("no_model")
def test_new_verifiers_judge_everything_again_without_a_model(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (session, spend):
        monkeypatch.setattr(module, "VERIFIER_VERSION", "next")
    figures = curate("reverify", build)
    assert (figures["rollouts"], figures["generated"], figures["rejudged"]) == (36, 0, 36)
    assert figures["changed_verdicts"] == {}
    assert curate("reverify", build)["rejudged"] == 0
    assert curate("inspect", build)["verifiers"] == "next"


@pytest.mark.usefixtures("no_model")
def test_a_corrected_gold_takes_the_rollouts_of_its_question(build: Path) -> None:
    source = build.parent / "rows.jsonl"
    drawn = responses(build)
    rows = [*ROWS[:-1], {**ROWS[-1], "answer": 77777}]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    figures = curate("reverify", build)
    assert (figures["rollouts"], figures["generated"]) == (36, 0)
    assert figures["without_rollouts"] == 0
    (record,) = [r for r in curate("inspect", build, "--sample", 12) if r["answer"] == "77777"]
    assert record["attempts"] == 3
    assert record["successes"] == 0
    assert {r["response"] for r in record["rollouts"]} <= set(drawn["response"])


def test_more_rollouts_are_added_and_none_is_drawn_twice(build: Path) -> None:
    before = responses(build)
    manifest = curate("measure", build, "--more", 2)
    (measured,) = [step for step in manifest["steps"] if step["name"] == "measure"]
    assert (measured["metrics"]["generated"], measured["metrics"]["rollouts"]) == (24, 60)
    after = responses(build)
    assert after.join(before, on=before.columns, how="semi").height == 36
    assert after.select("prompt_id", "sample").is_unique().all()


def test_what_is_no_build_is_told(tmp_path: Path) -> None:
    for words in (["reverify", tmp_path], ["measure", tmp_path, "--more", "1"]):
        done = CliRunner().invoke(app, [*map(str, words)])
        assert done.exit_code == 2
        assert "not a build directory" in done.stderr
