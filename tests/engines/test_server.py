"""A server as a policy: its address, its models, its key."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from asking import SAMPLING, ask, check, engine
from misbehaving import Server, error

from curate.engines.models import open_engine
from curate.engines.server import resolve_server
from curate.flows.build import build
from curate.pipelines.errors import CurateError, EngineError, UsageError
from curate.pipelines.spec import BuildSpec


def test_keys() -> None:
    with Server(key="sk-secret") as server:
        requests = ask()
        good = engine(server, api_key="sk-secret")
        check(good.generate(requests, SAMPLING), requests)
        assert "sk-secret" not in repr(good.identity)
        with pytest.raises(EngineError, match=r"wants an API key and none was given: HTTP 401"):
            engine(server)
        with pytest.raises(EngineError, match="refuses this API key") as raised:
            engine(server, api_key="sk-wrong")
        assert "sk-wrong" not in str(raised.value)
        good.api_key = "sk-late"
        hits = len(server.bodies)
        with pytest.raises(EngineError, match="refuses this API key") as raised:
            good.generate(requests, SAMPLING)
        assert "sk-late" not in str(raised.value)
        assert len(server.bodies) == hits
        with pytest.raises(UsageError, match="no header can carry"):
            engine(server, api_key="sk\nX: y")


def test_which_model_is_meant() -> None:
    with Server() as server:
        ref = resolve_server(server.url + "/", None, None)
        assert (ref.name, ref.model) == (f"{server.url}#served", "served")
        assert ref == resolve_server(f"{server.url}#served", None, None)
        assert ref.revision == "unknown"
        assert resolve_server(server.url, "v2", None).revision == "v2"
        with pytest.raises(UsageError, match="no model 'none' there; it serves served"):
            resolve_server(f"{server.url}#none", None, None)
        server.models = ["a", "b"]
        with pytest.raises(UsageError, match=r"name one of its models.*a, b"):
            resolve_server(server.url, None, None)
        server.models = None
        assert resolve_server(f"{server.url}#given", None, None).model == "given"
        with pytest.raises(EngineError, match="HTTP 404 and no list of models"):
            resolve_server(server.url, None, None)
        server.card = {"root": "/models/x", "max_model_len": 384, "owned_by": "vllm"}
        server.models = ["served"]
        ref = resolve_server(server.url, None, None)
        assert (ref.revision, ref.context, ref.vllm) == ("/models/x", 384, True)


def test_the_key_is_in_nothing_that_is_kept(tmp_path: Path) -> None:
    key = "sk-0123456789"
    with Server(key=key, rule=lambda body, seen: None if seen else error(500, f"by {key}")) as here:
        ref = resolve_server(here.url, None, key)
        made = open_engine(ref, cache=tmp_path / "cache.sqlite", api_key=key)
        made.generate(ask(), SAMPLING)
        here.rule = lambda body, seen: error(400, f"{'x' * 270}{key}")
        with pytest.raises(EngineError, match=r"x\*\*\*") as raised:
            made.generate(ask(5), SAMPLING)
        made.close()
    assert key[:5] not in str(raised.value)
    assert key not in repr((ref, made.identity))
    assert b"q1|" in kept(tmp_path) and key.encode() not in kept(tmp_path)


def test_the_key_is_in_no_file_of_a_build_that_failed_and_was_finished(tmp_path, root) -> None:
    key = "sk-0123456789"
    with Server(key=key, rule=lambda body, seen: error(400, f"no, {key}")) as here:
        spec = BuildSpec(
            source=str(root / "examples" / "arithmetic.jsonl"),
            out=tmp_path / "out",
            policy=here.url,
            limit=3,
            cache=tmp_path / "cache.sqlite",
        )
        with pytest.raises(EngineError, match=r"no, \*\*\*"):
            build(spec, api_key=key)
        assert "failed at measure" in (tmp_path / "out" / "manifest.json").read_text()
        halfway = kept(tmp_path)
        here.rule = lambda body, seen: None
        assert build(spec, api_key=key)["status"] == "complete"
    assert b"#served" in halfway and b"#served" in kept(tmp_path)
    assert key.encode() not in halfway + kept(tmp_path)


def kept(folder: Path) -> bytes:
    """All that is in all files."""
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    "spec",
    [
        "http://",
        "http://:80/v1",
        "http://a:b/v1",
        "http://u:secret@h/v1",
        "http://h/v1?key=secret",
        "http://h\x00/v1",
        "http://☃.net/v1",
        "http://xn--/v1",
        "http://a..b/v1",
        f"http://{'a' * 70}.com/v1",
        f"http://h/{'v' * 70_000}",
    ],
)
def test_addresses_that_are_none(spec: str) -> None:
    with pytest.raises(UsageError, match="address") as raised:
        resolve_server(spec, None, None)
    assert "secret" not in str(raised.value)


def test_a_server_that_is_not_there() -> None:
    with Server() as server:
        url = server.url
    with pytest.raises(CurateError, match=r"cannot be reached: ConnectError.*is it running"):
        resolve_server(url, None, None)


@pytest.mark.parametrize("proxy", ["nonsense://h:1", "socks5://h:1"])
def test_a_proxy_that_cannot_be_used(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if proxy.startswith("socks") and find_spec("socksio"):
        pytest.skip("this one can be used here")
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(UsageError, match="the environment's proxy cannot be used"):
        resolve_server("http://policy.example/v1", None, None)
    with Server() as server:
        assert resolve_server(server.url, None, None).model == "served"
