"""Preflight as a whole: every check runs, and nothing is written or loaded."""

import subprocess
import sys
from dataclasses import replace

import pytest
from preflighting import failures, tree

from curate.pipelines.findings import exit_code
from curate.pipelines.preflight import preflight
from curate.verifiers import isolate


def test_a_build_that_would_run_has_no_failure(look) -> None:
    found = look()
    assert exit_code(found.values()) == 0
    assert {f.state for f in found.values()} == {"ok"}, found
    assert set(found) == {
        "recipe", "source sums.jsonl", "sample sums.jsonl", "verifiers", "policy tiny", "engine",
        "context", "output", "cache", "disk", "cost",
    }  # fmt: skip
    assert (
        "4 rows; columns: question ← question, answer ← answer" in found["source sums.jsonl"].detail
    )
    assert found["cost"].detail.startswith("at most 4 rows × 8 rollouts × 256 tokens: 32 rollouts")


def test_nothing_is_written_and_no_lock_is_left(look, built, tmp_path, root) -> None:
    source = str(root / "examples/arithmetic.jsonl")
    before, examples = tree(tmp_path), tree(root / "examples")
    look(source=source)
    assert tree(tmp_path) == before  # with nothing there yet
    assert tree(root / "examples") == examples
    folder = built.out.parent
    (built.out / ".lock").touch()
    before = tree(folder)
    assert {"b/.lock", "b/manifest.json", "c.sqlite"} <= set(before)
    preflight(built)
    assert tree(folder) == before  # with a build, its lock file and its cache


def test_torch_is_not_imported(tmp_path, rows, model) -> None:
    code = f"""
import sys
from pathlib import Path
from curate.pipelines.spec import BuildSpec
from curate.pipelines.preflight import preflight
found = preflight(BuildSpec(source={rows()!r}, out=Path({str(tmp_path / "b")!r}),
                            policy={str(model)!r}))
assert all(f.state == "ok" for f in found), found
assert "torch" not in sys.modules and "transformers" not in sys.modules
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_every_check_runs_whatever_the_others_found(look, tmp_path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/mine.txt").write_text("x")
    found = look(
        source=["nope.jsonl", "neither.jsonl"], recipe="nope", policy="./no-model",
        cache=tmp_path / "b/mine.txt",
    )  # fmt: skip
    assert failures(found) == {
        "recipe", "source nope.jsonl", "source neither.jsonl", "policy ./no-model", "output",
        "cache",
    }  # fmt: skip
    assert found["verifiers"].state == "ok"
    assert exit_code(found.values()) == 2


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"measure": {"rolouts": 1}}, "measure.rolouts"),
        ({"shard": {"formats": ["nope"]}}, "unknown format ['nope']"),
        ({"compose": {}}, "no such step"),
    ],
)
def test_a_wrong_setting_is_told_as_a_build_tells_it(look, settings, told) -> None:
    found = look(settings=settings)["recipe"]
    assert (found.state, found.exit_code) == ("failed", 2)
    assert told in found.detail


def test_files_a_step_reads_are_looked_for(look, tmp_path, rows) -> None:
    recipe = tmp_path / "mine.yaml"
    text = "name: mine\nsteps:\n  - qa\n  - decontaminate: {against: [%s]}\n"
    recipe.write_text(text % rows(name="benchmark.jsonl"))
    found = look(recipe=str(recipe))
    assert "benchmark.jsonl" in found["step decontaminate"].detail
    assert found["policy"].detail == "not needed: the recipe measures nothing"
    assert found["cost"].detail == "nothing is generated"
    recipe.write_text(text % (tmp_path / "gone.jsonl"))
    assert "gone.jsonl: no such file" in look(recipe=str(recipe))["recipe"].detail


def test_optional_packages_are_named_with_the_way_to_get_them(look, monkeypatch) -> None:
    hidden = {"sentence_transformers", "datasets", "vllm"}
    for place in ("preflight", "preflight_policy", "preflight_sources", "hub"):
        module = sys.modules[f"curate.pipelines.{place}"]
        real = module.find_spec
        monkeypatch.setattr(
            module, "find_spec", lambda name, real=real: None if name in hidden else real(name)
        )
    settings = {"dedup": {"semantic": {"threshold": 0.9}}}
    found = look(source="hf:owner/name", settings=settings, engine="vllm")
    for name, extra in (("step dedup", "semantic"), ("sources", "hf"), ("engine", "vllm")):
        assert found[name].state == "failed"
        assert f"pip install 'curate-rlvr[{extra}]'" in found[name].detail


def test_a_semantic_model_that_is_no_folder(look) -> None:
    pytest.importorskip("sentence_transformers")
    found = look(settings={"dedup": {"semantic": {"model": "./no-model"}}})
    assert found["step dedup"].detail == "semantic.model ./no-model: no such folder"


def test_verifier_processes_that_do_not_start_are_a_failure(look, monkeypatch) -> None:
    isolate.close()
    monkeypatch.setattr(sys, "executable", "/no/python")
    found = look()["verifiers"]
    assert (found.state, found.exit_code) == ("failed", 1)
    assert "/no/python" in found.detail


def test_a_verifier_that_judges_wrongly_is_a_failure(look, monkeypatch) -> None:
    isolate.close()
    real = isolate.Worker.receive
    monkeypatch.setattr(
        isolate.Worker, "receive",
        lambda worker, max_s: replace(real(worker, max_s), value="correct"),
    )  # fmt: skip
    assert "2 = 3 correct" in look()["verifiers"].detail
