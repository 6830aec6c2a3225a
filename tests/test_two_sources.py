"""Real rows of two sources, four policies known by their published solutions, seven trainers.

Then the same pool under a deliberately harsher verifier: judged again, nothing generated.
"""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from curate.cli import app
from curate.engines.transformers_engine import TransformersEngine
from curate.pipelines import session, spend
from curate.pipelines.sinks import SINKS
from curate.verifiers.verdict import Verdict

RECIPE = """
name: two
description: Two sources, without what MATH-500 holds.
sources:
  - {{uri: {data}/gsm8k/test.jsonl, name: gsm8k, domain: arithmetic, license: MIT}}
  - {{uri: {data}/math/math_train_2000.jsonl.gz, name: math, domain: competition, license: MIT}}
steps:
  - qa
  - check
  - dedup
  - decontaminate: {{against: {data}/math/math500.json}}
  - measure
  - order: {{by: easy_to_hard}}
  - shard: {{formats: all}}
"""


def curate(*words: object) -> dict:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def solutions(shared: Path) -> Path:
    return shared / "data/gsm8k/model_solutions.jsonl.gz"


@pytest.fixture(scope="module")
def build(shared: Path, solutions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    (folder / "two.yaml").write_text(RECIPE.format(data=shared / "data"))
    curate(
        "build", "--recipe", folder / "two.yaml", "--import-rollouts", solutions,
        "--policy", "175b_verification", "--out", folder / "b",
    )  # fmt: skip
    return folder / "b"


def measured(build: Path) -> dict:
    steps = json.loads((build / "manifest.json").read_text())["steps"]
    return next(step for step in steps if step["name"] == "measure")["metrics"]


def test_both_sources_are_there_and_what_math500_holds_is_not(build: Path) -> None:
    steps = {s["name"]: s for s in json.loads((build / "manifest.json").read_text())["steps"]}
    assert steps["qa"]["rows_in"] == 659 + 2000
    assert steps["decontaminate"]["rejected_by_reason"].keys() == {"contaminated"}
    leaks = pl.read_parquet(
        build / "steps" / steps["decontaminate"]["artifact"] / "contamination.parquet"
    )
    left = {row["id"] for row in curate("inspect", build, "--sample", 5000)}
    assert len(left) == steps["shard"]["rows_out"]
    assert not left & set(leaks["id"])
    assert set(leaks["benchmark"]) == {"math500.json"}


def test_pass_rates_are_those_published_with_the_solutions(build: Path, solutions: Path) -> None:
    with gzip.open(solutions, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    published = {
        name: sum(row[name]["is_correct"] for row in rows) / len(rows)
        for name, value in rows[0].items()
        if isinstance(value, dict)
    }
    policies = measured(build)["policies"]
    assert {name: told["pass_rate"] for name, told in policies.items()} == pytest.approx(published)
    # One solution a policy and question: none can be seen at the frontier, and none is said to.
    assert {told["frontier_share"] for told in policies.values()} == {None}
    assert {told["prompts"] for told in policies.values()} == {659}


@pytest.mark.parametrize("trainer", sorted(SINKS))
def test_every_trainers_files_hold(build: Path, trainer: str) -> None:
    report = curate("verify-export", build, "--trainer", trainer)
    assert report["ok"], report
    assert {"gold earns 1", "wrong answer earns 0"} <= {c["name"] for c in report["checks"]}


def test_a_harsher_verifier_judges_again_and_generates_nothing(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        pytest.fail("a model was asked")

    real = spend.verify_many

    def harsh(rows, **options: object) -> list[Verdict]:
        rows = list(rows)
        return [
            Verdict("incorrect", "too_long", verdict.extracted)
            if len(row.response) > 400
            else verdict
            for row, verdict in zip(rows, real(rows, **options), strict=True)
        ]

    monkeypatch.setattr(TransformersEngine, "generate", refused)
    monkeypatch.setattr(spend, "verify_many", harsh)
    for module in (session, spend):
        monkeypatch.setattr(module, "VERIFIER_VERSION", "harsh")
    before = measured(build)["policies"]
    figures = curate("reverify", build)
    assert (figures["generated"], figures["rejudged"]) == (0, 4 * 659)
    (changed,) = figures["changed_verdicts"].items()
    assert changed[0] == "correct → incorrect"
    after = measured(build)["policies"]
    lost = sum(659 * (before[name]["pass_rate"] - after[name]["pass_rate"]) for name in before)
    assert round(lost) == changed[1] > 0
