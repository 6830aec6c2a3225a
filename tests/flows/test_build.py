"""Whatever ends a build early stands in its manifest, and what was finished stays."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from curate.flows.build import build, call, what_happened
from curate.pipelines.errors import CurateError, PoolError, SourceError
from curate.pipelines.session import Session
from curate.pipelines.spec import BuildSpec
from curate.pipelines.step import Step
from curate.pipelines.store import PoolRef


@pytest.fixture
def spec(tmp_path: Path) -> BuildSpec:
    source = tmp_path / "rows.jsonl"
    source.write_text('{"question": "1 + 2", "answer": "3"}\n')
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("name: mine\ndescription: d\nsteps: [qa, check]\n")
    return BuildSpec(source=str(source), out=tmp_path / "out", recipe=str(recipe))


def status(spec: BuildSpec) -> str:
    return str(json.loads((spec.out / "manifest.json").read_text())["status"])


def failing(error: BaseException) -> Callable[..., PoolRef]:
    def submit(session: Session, index: int, step: Step, ref: PoolRef | None) -> PoolRef:
        if step.name == "check":
            raise error
        return call(session, index, step, ref)

    return submit


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            SourceError("rows.jsonl:1: field 'answer'\nis odd"),
            "rows.jsonl:1: field 'answer' is odd",
        ),
        (KeyError("x"), "KeyError: 'x'"),
        (ValueError(), "ValueError"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_what_stopped_a_build_is_in_its_manifest_and_a_rerun_goes_on(
    spec: BuildSpec, error: BaseException, told: str
) -> None:
    with pytest.raises(type(error)):
        build(spec, submit=failing(error))
    assert status(spec) == f"failed at check: {told}"
    steps = build(spec)["steps"]
    assert isinstance(steps, list)
    assert [step["reused"] for step in steps if isinstance(step, dict)] == [True, False]
    assert status(spec) == "complete"


def test_a_build_that_cannot_be_published_says_so(
    spec: BuildSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object, refs: object) -> None:
        raise PoolError("the disk is full")

    monkeypatch.setattr("curate.pipelines.store.Store.publish", refuse)
    with pytest.raises(PoolError):
        build(spec)
    assert status(spec) == "failed at publishing: the disk is full"


def test_an_error_is_told_though_the_manifest_cannot_be_written(
    spec: BuildSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object, step: str, error: str) -> None:
        raise CurateError("manifest.json: cannot be written")

    monkeypatch.setattr(Session, "fail", refuse)
    with pytest.raises(SourceError, match="first"):
        build(spec, submit=failing(SourceError("first")))


def test_errors_are_told_in_one_line() -> None:
    assert what_happened(CurateError("a\n  b")) == "a b"
    assert what_happened(CurateError()) == "CurateError"
    assert what_happened(SystemExit(3)) == "SystemExit: 3"
