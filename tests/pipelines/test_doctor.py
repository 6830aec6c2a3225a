"""Doctor: what is there, and what would be chosen."""

from pathlib import Path

import pytest
from misbehaving import Server

from curate.pipelines import doctor
from curate.pipelines.doctor import examine
from curate.pipelines.findings import Finding, exit_code


def look(policy: str, cache: Path, api_key: str | None = None) -> dict[str, Finding]:
    found = examine(policy, cache, api_key)
    return {finding.name: finding for finding in found}


def test_the_engine_is_the_one_a_build_would_choose(tmp_path: Path) -> None:
    import torch

    found = look("tiny", tmp_path)
    assert found["policy tiny"].state == "ok"
    assert "engine" not in found["device"].detail
    if torch.cuda.is_available():
        assert " on cuda, bfloat16" in found["engine"].detail
    else:
        assert found["engine"].detail.startswith("transformers on cpu, float32; ")
    assert exit_code(found.values()) == 0


def test_a_server_is_asked(tmp_path: Path) -> None:
    with Server(models=["big"], key="k") as server:
        found = look(server.url, tmp_path, "k")
        assert "serves big" in found[f"policy {server.url}"].detail
        assert found["engine"].detail.startswith("openai; ")
        refused = look(server.url, tmp_path)[f"policy {server.url}"]
        assert refused.state == "missing"
        assert "wants an API key" in refused.detail
    gone = look(server.url, tmp_path, "k")
    assert (gone[f"policy {server.url}"].state, exit_code(gone.values())) == ("missing", 1)
    assert "cannot be reached" in gone[f"policy {server.url}"].detail


def test_what_is_missing_is_named_with_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = doctor._version
    absent = {"polars", "datasets"}
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in absent else real(name))
    found = look("./no-model", tmp_path)
    assert found["polars"] == Finding("polars", "missing", "pip install polars", 1)
    assert (found["datasets"].state, found["datasets"].exit_code) == ("optional", 0)
    assert found["policy ./no-model"].state == "missing"


def test_the_cache_folder_need_not_be_there(tmp_path: Path) -> None:
    cache = tmp_path / "not/yet"
    assert str(cache) in look("tiny", cache)["cache"].detail
    assert not cache.parent.exists()
