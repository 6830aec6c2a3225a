"""The generator beside the policy: opened for the steps that need it, and for no others."""

import json
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest
from typer.testing import CliRunner

from curate.cli import app
from curate.engines.api import Message, Request, Sampling
from curate.pipelines import step as steps
from curate.pipelines.again import judged_anew
from curate.pipelines.pool import Pool
from curate.pipelines.session import open_session
from curate.pipelines.step import Context, Need, Step, StepResult


class Rewrite(Step):
    """Puts what the generator says in place of every topic."""

    name: ClassVar[str] = "rewrite"
    needs: ClassVar[frozenset[Need]] = frozenset({"generator"})

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        requests = [
            Request(key, (Message("user", question),))
            for key, question in pool.frame.select("id", "question").iter_rows()
        ]
        said = ctx.generator.generate(requests, Sampling(max_tokens=4, seed=ctx.seed))
        topics = pl.Series("topic", [answers[0].text for answers in said], dtype=pl.String())
        return StepResult(Pool(pool.frame.with_columns(topics)))


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setitem(steps.STEPS, "rewrite", f"{__name__}:Rewrite")
    Path("x.jsonl").write_text(
        "".join(json.dumps({"question": f"{i} + 2", "answer": i + 2}) + "\n" for i in range(4))
    )
    Path("write.yaml").write_text("name: write\nsteps: [qa, rewrite, measure, order, shard]\n")
    return [
        "build", "--source", "x.jsonl", "--recipe", "write.yaml", "--rollouts", "1",
        "--out", "b", "--cache", "c.sqlite", "--json",
    ]  # fmt: skip


def run(words: list[str]) -> dict:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_generator_writes_and_is_recorded(build: list[str]) -> None:
    manifest = run([*build, "--generator", "tiny"])
    assert manifest["generator"]["name"] == "tiny"
    assert manifest["generator"]["revision"] == manifest["policy"]["revision"]
    shown = json.loads(CliRunner().invoke(app, ["inspect", "b", "--sample", "4", "--json"]).stdout)
    assert all(record["topic"] for record in shown)
    assert [step["reused"] for step in run([*build, "--generator", "tiny"])["steps"]] == [True] * 5


def test_judging_again_leaves_what_a_generator_wrote(build: list[str]) -> None:
    run([*build, "--generator", "tiny"])
    with open_session(judged_anew(Path("b"), {})) as session:
        generator = session.policies.generator
        assert generator is not None
        assert generator.generated == 0
    assert run(["reverify", "b", "--json"])["generated"] == 0
    assert json.loads(Path("b/manifest.json").read_text())["generator"]["name"] == "tiny"


def test_a_generator_that_no_step_uses_is_refused(build: list[str]) -> None:
    words = [word if word != "write.yaml" else "qa" for word in build]
    done = CliRunner().invoke(app, [*words, "--generator", "tiny"])
    assert done.exit_code == 2
    assert "recipe 'qa' writes no prompts: --generator has no use" in done.stderr


def test_a_generator_that_is_not_there_is_named(build: list[str]) -> None:
    done = CliRunner().invoke(app, [*build, "--generator", "./nothing-here"])
    assert done.exit_code == 1
    assert "nothing-here" in done.stderr
    assert not Path("b").exists()
