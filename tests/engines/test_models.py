"""From ``--policy`` to a model that is there, or to an error that says what to do."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from misbehaving import Server

from curate.engines.api import Message, Request, Sampling, Structure
from curate.engines.models import engine_name, open_engine, resolve_model
from curate.engines.openai_engine import OpenAIEngine
from curate.pipelines.errors import EngineError, UsageError


@pytest.fixture
def copy(random_model, tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.copytree(random_model.folder, folder)
    return folder


def test_tiny_comes_with_the_package() -> None:
    model = resolve_model("tiny")
    assert model.template != "plain"
    assert sum(file.stat().st_size for file in model.folder.iterdir()) < 5_000_000


def test_the_revision_is_the_content_not_the_place(random_model, copy: Path) -> None:
    assert resolve_model(str(copy)).revision == random_model.revision
    weights = copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert resolve_model(str(copy)).revision != random_model.revision


def test_the_template_has_its_own_digest(random_model, copy: Path) -> None:
    (copy / "chat_template.jinja").write_text("{{ messages[0].content }}")
    changed = resolve_model(str(copy)).template
    assert changed != random_model.template
    (copy / "chat_template.jinja").unlink()
    config = copy / "tokenizer_config.json"
    settings = json.loads(config.read_text())
    settings.pop("chat_template", None)
    config.write_text(json.dumps(settings))
    assert resolve_model(str(copy)).template == "plain"


def test_what_decides_a_completion_is_in_the_identity(random_model, copy: Path) -> None:
    engine = open_engine(resolve_model(str(copy)), cache=None, device="cpu")
    same = open_engine(resolve_model(str(copy)), cache=None, device="cpu", batch_size=3)
    assert engine.identity == same.identity
    assert engine.identity.dtype == "float32"
    assert engine.identity.backend == "transformers"


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "model.safetensors"])
def test_a_folder_that_is_not_whole_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(EngineError, match="copy"):
        resolve_model(str(copy))


def test_specs_that_make_no_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UsageError, match="must begin with http"):
        resolve_model("ftp://localhost:8000/v1")
    with pytest.raises(UsageError, match="--revision is for hub ids"):
        resolve_model("tiny", "main")
    with pytest.raises(EngineError, match="no such folder"):
        resolve_model(str(tmp_path / "none"))
    with pytest.raises(UsageError, match="no such folder, no hub id"):
        resolve_model("not a/hub id/at all")
    with pytest.raises(EngineError, match="could not be fetched"):
        resolve_model("nobody/nothing-of-this-name")


def test_a_server_is_a_model_too_and_only_the_openai_engine_asks_it(random_model) -> None:
    with Server() as server:
        model = resolve_model(server.url, "v1")
        made = open_engine(model, cache=None, concurrency=3)
        assert isinstance(made.inner, OpenAIEngine)
        assert (made.inner.concurrency, made.batch_size) == (3, 384)
        assert made.identity.model == f"{server.url}#served"
        assert (made.identity.backend, made.identity.revision) == ("openai", "v1")
        for wrong in ({"engine": "vllm"}, {"engine": "transformers"}, {"device": "cpu"}):
            with pytest.raises(UsageError, match="takes engine openai and no device"):
                open_engine(model, cache=None, **wrong)
        assert not server.bodies
    with pytest.raises(UsageError, match="engine openai takes a server's address"):
        open_engine(random_model, cache=None, engine="openai")


def test_engines_are_named_by_their_names() -> None:
    for name in ("transformers", "vllm", "openai"):
        assert engine_name(name) == name
    for wrong in ("llama", "", "VLLM", "vllm "):
        with pytest.raises(UsageError, match=r"--engine .*: give transformers, vllm, openai"):
            engine_name(wrong)


def test_transformers_holds_no_completion_to_a_form(random_model) -> None:
    made = open_engine(random_model, cache=None, device="cpu")
    asked = [Request("k", (Message("user", "1"),))]
    with pytest.raises(UsageError, match="use engine vllm, or a server"):
        made.generate(asked, Sampling(structure=Structure(choice=("yes", "no"))))
    assert made.generated == 0


def test_an_engine_that_is_not_installed_says_how(random_model) -> None:
    if find_spec("vllm"):
        pytest.skip("vLLM is installed here")
    with pytest.raises(EngineError, match=r"curate-rlvr\[vllm\]"):
        open_engine(random_model, cache=None, engine="vllm", device="cpu")


def test_a_broken_config_is_named(copy: Path) -> None:
    (copy / "chat_template.jinja").unlink()
    (copy / "tokenizer_config.json").write_text("{")
    with pytest.raises(EngineError, match=r"tokenizer_config\.json: cannot be read"):
        resolve_model(str(copy))
