"""The openai engine against a server on loopback that does everything servers do wrong."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from misbehaving import Server, answer, error

from curate.engines.api import Completion, Message, Request, Sampling, Structure, sample_seed
from curate.engines.cache import CachedEngine
from curate.engines.openai_engine import OpenAIEngine, Patience
from curate.engines.openai_wire import Unusable, read_completion, retry_after
from curate.engines.server import resolve_server
from curate.pipelines.errors import CurateError, EngineError, PromptTooLong, UsageError

SAMPLING = Sampling(max_tokens=8)
QUICK = Patience(timeout_s=5.0, attempts=4, backoff_s=0.001, longest_wait_s=0.2)


def ask(n: int = 2, prompts: int = 3, first_sample: int = 0) -> list[Request]:
    return [Request(f"k{i}", (Message("user", f"q{i}"),), n, first_sample) for i in range(prompts)]


def engine(server: Server, concurrency: int = 4, **given) -> OpenAIEngine:
    ref = resolve_server(server.url, None, given.get("api_key"))
    return OpenAIEngine(ref, concurrency, **{"patience": QUICK, **given})


def check(made: list[list[Completion]], requests: list[Request]) -> None:
    """Every sample is there, and is the answer to its own prompt and seed."""
    for request, completions in zip(requests, made, strict=True):
        samples = range(request.first_sample, request.first_sample + request.n)
        assert [c.sample for c in completions] == list(samples)
        for c in completions:
            seed = sample_seed(0, request.key, c.sample) & 0x7FFFFFFF
            assert c.text == f"{request.messages[-1].content}|{seed}"
            assert (c.finish_reason, c.prompt_tokens, c.tokens) == ("stop", 7, 3)


def test_one_request_for_each_sample_with_its_own_seed() -> None:
    with Server() as server:
        requests = ask()
        made = engine(server).generate(requests, Sampling(0.7, 0.9, 8, ("\n\n",)))
        check(made, requests)
        assert all(c.logprob_sum == -1.5 and c.seconds > 0 for many in made for c in many)
        assert len({body["seed"] for body in server.bodies}) == len(server.bodies) == 6
        sent = server.bodies[0]
        assert (sent["temperature"], sent["top_p"], sent["max_tokens"]) == (0.7, 0.9, 8)
        assert sent["stop"] == ["\n\n"]
        check(engine(server).generate(later := ask(3, first_sample=2), SAMPLING), later)
        assert len({body["seed"] for body in server.bodies}) == 6 + 9


def first_time(reply) -> Callable:
    return lambda body, seen: reply if seen == 0 else None


@pytest.mark.parametrize(
    "misdeed",
    [
        (429, {"Retry-After": "0.01"}, "slow down"),
        (429, {}, "slow down"),
        (503, {"Retry-After": "Mon, 07 Dec 2020 00:00:00 GMT"}, "<html>busy</html>"),
        (500, {}, ""),
        (200, {}, '{"choices": [{"mess'),
        (200, {}, "null"),
        (200, {}, "[" * 100_000),
        (200, {}, '{"choices": [], "usage": {}}'),
        (200, {}, json.dumps(answer({"messages": [{"content": ""}]}, finish_reason="abort"))),
        "cut",
        "reset",
    ],
    ids=lambda misdeed: str(misdeed)[:60],
)
def test_what_passes_is_asked_for_again(misdeed) -> None:
    with Server(first_time(misdeed)) as server:
        requests = ask()
        check(engine(server).generate(requests, SAMPLING), requests)
        assert len(server.bodies) == 12


@pytest.mark.parametrize("misdeed", ["hang", "trickle"])
def test_a_server_that_hangs_is_given_up_and_asked_again(misdeed: str) -> None:
    with Server(first_time(misdeed)) as server:
        requests = ask(1, 2)
        patience = Patience(0.5, 3, 0.001, 0.1)
        check(engine(server, patience=patience).generate(requests, SAMPLING), requests)


@pytest.mark.parametrize(
    ("misdeed", "said"),
    [
        (error(503, "busy"), "HTTP 503: .*busy"),
        ((200, {}, "certainly!"), "no whole answer .*certainly!"),
        ((200, {}, ""), "empty body"),
        ("cut", "RemoteProtocolError"),
        ("hang", "no answer in 0.2 s"),
    ],
    ids=str,
)
def test_what_does_not_pass_ends_the_run_and_is_named(misdeed, said: str) -> None:
    with Server(lambda body, seen: misdeed) as server:
        patience = Patience(0.2, 3, 0.001, 0.1)
        with pytest.raises(EngineError, match=f"(?s)#served: no answer after 3 tries.*{said}"):
            engine(server, patience=patience).generate(ask(1, 1), SAMPLING)
        assert len(server.bodies) == 3


def test_retry_after_is_waited_for_but_not_for_ever() -> None:
    with Server(first_time((429, {"Retry-After": "0.15"}, ""))) as server:
        engine(server).generate(ask(1, 1), SAMPLING)
        assert server.times[1] - server.times[0] >= 0.15
    with Server(first_time((429, {"Retry-After": "86400"}, ""))) as server:
        engine(server).generate(ask(1, 1), SAMPLING)  # longest_wait_s is 0.2
        assert len(server.bodies) == 2


@given(st.floats(0, 1e6))
def test_retry_after_reads_seconds_and_dates(seconds: float) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry_after(str(seconds), now) == pytest.approx(seconds)
    date = format_datetime(now + timedelta(seconds=seconds), usegmt=True)
    assert retry_after(date, now) == pytest.approx(seconds, abs=1)


@pytest.mark.parametrize("value", ["", "soon", "nan", "inf", "-3", "Mon, 99 Foo 2026"])
def test_a_retry_after_that_says_nothing_is_no_wait(value: str) -> None:
    assert retry_after(value) == 0


@given(st.text() | st.binary().map(lambda b: b.decode("latin-1")))
def test_no_body_breaks_the_reader(text: str) -> None:
    with pytest.raises(Unusable):
        read_completion(text, 0, 8)


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    JSONS, st.sampled_from(["choices", "usage", "message", "finish_reason", "logprobs", "content"])
)
def test_no_odd_field_breaks_the_reader(odd: object, name: str) -> None:
    body = answer({"messages": [{"content": "q"}], "logprobs": True})
    choice = body["choices"][0]
    places = {"content": choice["message"], "choices": body, "usage": body}
    places.get(name, choice)[name] = odd
    try:
        made = read_completion(json.dumps(body), 0, 8)
    except Unusable:
        return
    assert isinstance(made.text, str)
    assert made.finish_reason in {"stop", "length"}
    assert made.logprob_sum is None or isinstance(made.logprob_sum, float)


@pytest.mark.parametrize(
    ("told", "tokens", "meant"),
    [
        ("stop", 3, "stop"),
        ("length", 3, "length"),
        ("content_filter", 3, "length"),
        ("tool_calls", 3, "stop"),
        (None, 3, "stop"),
        (None, 8, "length"),
        ("whatever", 8, "length"),
    ],
)
def test_finish_reasons(told: str | None, tokens: int, meant: str) -> None:
    body = answer({"messages": [{"content": "q"}]}, finish_reason=told)
    body["usage"]["completion_tokens"] = tokens
    made = read_completion(json.dumps(body), 5, 8)
    assert (made.finish_reason, made.sample, made.tokens) == (meant, 5, tokens)


def test_text_that_cannot_be_stored_is_made_so() -> None:
    body = json.dumps(answer({"messages": [{"content": "q"}]}, message={"content": "\ud800 é"}))
    assert read_completion(body, 0, 8).text == "? é"


def test_log_probabilities_that_are_not_whole_are_none() -> None:
    def made(values: list) -> float | None:
        logs = {"content": [{"logprob": value} for value in values]}
        body = answer({"messages": [{"content": "q"}]}, logprobs=logs)
        return read_completion(json.dumps(body), 0, 8).logprob_sum

    assert made([-1.0, -2.0, -0.5]) == -3.5
    assert made([-1.0, -2.0]) == -3.0  # some leave out the end-of-sequence token
    assert made([-1.0]) is None
    assert made([-1.0, None, -2.0]) is None
    assert made([-1.0, float("nan"), -2.0]) is None


@pytest.mark.parametrize("name", ["logprobs", "seed", "top_p"])
@pytest.mark.parametrize(
    "refusal",
    [
        lambda name: error(400, "no.", param=name),
        lambda name: error(400, f"Unrecognized request argument supplied: {name}"),
        lambda name: error(403, f"You are not allowed to request {name} from this model"),
        lambda name: (
            422,
            {},
            json.dumps({"detail": [{"loc": ["body", name], "msg": "Extra inputs"}]}),
        ),
    ],
    ids=["param", "message", "forbidden", "fastapi"],
)
def test_a_refused_parameter_is_left_out_once_for_all(name: str, refusal, caplog) -> None:
    def rule(body: dict, seen: int):
        return refusal(name) if name in body else None

    with Server(rule) as server:
        made = engine(server, concurrency=1)
        answers = made.generate(ask(), SAMPLING)
        assert [len(many) for many in answers] == [2, 2, 2]
        assert sum(name in body for body in server.bodies) == 1
        assert all("temperature" in body and "max_tokens" in body for body in server.bodies)
        if name == "logprobs":
            assert answers[0][0].logprob_sum is None
        assert f"refuses {name}" in caplog.text
        made.generate(ask(), SAMPLING)
        assert len(server.bodies) == 13


def test_what_decides_the_distribution_is_never_left_out() -> None:
    for name, sampling in [
        ("temperature", SAMPLING),
        ("max_tokens", SAMPLING),
        ("top_p", Sampling(top_p=0.9)),
        ("stop", Sampling(stop=("x",))),
    ]:
        with (
            Server(lambda body, seen, name=name: error(400, f"no {name}", param=name)) as server,
            pytest.raises(EngineError, match=f"HTTP 400: .*no {name}"),
        ):
            engine(server).generate(ask(1, 1), sampling)
        assert len(server.bodies) == 1


def test_the_newer_name_of_the_limit() -> None:
    said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."

    def rule(body: dict, seen: int):
        return error(400, said, param="max_tokens") if "max_tokens" in body else None

    with Server(rule) as server:
        requests = ask()
        check(engine(server, concurrency=1).generate(requests, SAMPLING), requests)
        assert [body.get("max_completion_tokens") for body in server.bodies] == [None] + [8] * 6


VLLM = (
    "This model's maximum context length is 384 tokens. However, you requested 8 output tokens "
    "and your prompt contains 500 input tokens, for a total of 508 tokens."
)


@pytest.mark.parametrize(
    ("reply", "card", "limit"),
    [
        (error(400, VLLM, param="input_tokens"), {}, 376),
        (error(400, VLLM), {"max_model_len": 400}, 392),
        (error(400, "Too much.", code="context_length_exceeded"), {}, 0),
        (error(400, "the request exceeds the available context size"), {}, 0),
    ],
    ids=["vllm", "listed", "code", "llama.cpp"],
)
def test_prompts_too_long_are_collected_and_the_rest_is_kept(reply, card: dict, limit: int) -> None:
    def rule(body: dict, seen: int):
        return reply if body["messages"][-1]["content"] in {"q1", "q3"} else None

    told: list[int] = []
    with Server(rule, card=card) as server, pytest.raises(PromptTooLong) as raised:
        engine(server).generate(ask(2, 5), SAMPLING, lambda places, made: told.extend(places))
    assert (raised.value.keys, raised.value.limit) == (["k1", "k3"], limit)
    assert sorted(told) == [0, 0, 2, 2, 4, 4]


def test_a_limit_that_leaves_no_room_for_any_prompt() -> None:
    with Server(card={"max_model_len": 8}) as server:
        with pytest.raises(EngineError, match="max_tokens 8 does not fit its context of 8"):
            engine(server).generate(ask(), SAMPLING)
        assert not server.bodies
    with (
        Server(lambda body, seen: error(400, "the maximum context length is 8 tokens")) as server,
        pytest.raises(EngineError, match="max_tokens 8 does not fit its context of 8"),
    ):
        engine(server).generate(ask(), SAMPLING)


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


def test_a_model_that_is_gone_is_told_with_those_that_are_there() -> None:
    with Server(lambda body, seen: error(404, "model `served` does not exist")) as server:
        made = engine(server)
        server.models = ["other", "third"]
        with pytest.raises(EngineError, match=r"HTTP 404.*does not exist.*serves other, third"):
            made.generate(ask(), SAMPLING)


def test_other_refusals_are_not_repeated() -> None:
    for reply in (error(400, "odd"), error(429, "pay", code="insufficient_quota"), (302, {}, "")):
        with Server(lambda body, seen, reply=reply: reply) as server:
            with pytest.raises(EngineError, match=f"refuses the request: HTTP {reply[0]}"):
                engine(server).generate(ask(1, 1), SAMPLING)
            assert len(server.bodies) == 1


@pytest.mark.parametrize("bound", [1, 3, 8])
def test_so_many_at_once_and_no_more(bound: int) -> None:
    with Server(seconds=0.02) as server:
        engine(server, concurrency=bound).generate(ask(4, 6), SAMPLING)
        assert server.most_at_once <= bound
        assert bound == 1 or server.most_at_once > 1


def test_an_error_ends_the_run_but_keeps_what_is_paid() -> None:
    def rule(body: dict, seen: int):
        if body["messages"][-1]["content"] == "q2":
            return error(400, "odd")
        time.sleep(0.1)
        return None

    told: list[int] = []
    with Server(rule) as server:
        with pytest.raises(EngineError, match="odd"):
            engine(server, concurrency=3).generate(
                ask(1, 50), SAMPLING, lambda places, made: told.extend(places)
            )
        assert sorted(told) == [0, 1]
        assert len(server.bodies) == 3


def test_an_error_of_the_cache_is_an_error_of_the_run() -> None:
    def full(*_: object) -> None:
        raise EngineError("the disk is full")

    with Server() as server, pytest.raises(EngineError, match="the disk is full"):
        engine(server).generate(ask(2, 20), SAMPLING, full)


def test_inside_a_running_loop() -> None:
    async def notebook() -> list[list[Completion]]:
        return engine(server).generate(ask(), SAMPLING)

    with Server() as server:
        check(asyncio.run(notebook()), ask())


DRIVER = """
import sys
from pathlib import Path
from curate.engines.api import Message, Request, Sampling
from curate.engines.cache import CachedEngine
from curate.engines.openai_engine import OpenAIEngine
from curate.engines.server import resolve_server
inner = OpenAIEngine(resolve_server(sys.argv[1], None, None), 4)
asked = [Request(f"k{i}", (Message("user", f"q{i}"),), 8) for i in range(10)]
CachedEngine(inner, Path(sys.argv[2]), 1000).generate(asked, Sampling(max_tokens=8))
"""


def run_until(server: Server, cache: Path, hits: int, sent: signal.Signals) -> int:
    """Start the driver and send it a signal when the server was hit so often; its exit code."""
    run = subprocess.Popen(
        [sys.executable, "-c", DRIVER, server.url, cache], stderr=subprocess.DEVNULL
    )
    while len(server.bodies) < hits and run.poll() is None:
        time.sleep(0.005)
    run.send_signal(sent)
    return run.wait(30)


def test_a_killed_run_repeats_only_what_was_in_flight(tmp_path: Path) -> None:
    cache = tmp_path / "cache.sqlite"
    with Server(seconds=0.02) as server:
        assert run_until(server, cache, 30, signal.SIGKILL) == -signal.SIGKILL
        before = len(server.bodies)
        assert before < 80
        subprocess.run([sys.executable, "-c", DRIVER, server.url, cache], check=True)
        seeds = [body["seed"] for body in server.bodies]
        assert len(set(seeds)) == 80
        assert len(seeds) - 80 <= 4
        again = CachedEngine(engine(server), cache, 1000)
        made = again.generate(ask(8, 10), SAMPLING)
        assert (again.hits, len(server.bodies)) == (80, len(seeds))
        assert [len(many) for many in made] == [8] * 10


def test_an_interrupt_does_not_wait_for_the_server(tmp_path: Path) -> None:
    with Server(lambda body, seen: "hang" if len(server.bodies) > 10 else None) as server:
        # The requests in flight hang for twice as long as the run is waited for.
        assert run_until(server, tmp_path / "cache.sqlite", 14, signal.SIGINT) == -signal.SIGINT
        made = CachedEngine(engine(server), tmp_path / "cache.sqlite", 1000)
        server.rule = lambda body, seen: None
        made.generate(ask(8, 10), SAMPLING)
        assert made.hits == 10


def test_a_form_is_asked_of_each_server_in_its_words() -> None:
    schema = Sampling(structure=Structure(json_schema='{"type": "object"}'))
    choice = Sampling(structure=Structure(choice=("yes", "no")))
    with Server() as server:
        engine(server).generate(ask(1, 1), schema)
        form = server.bodies[0]["response_format"]
        assert form["json_schema"]["schema"] == {"type": "object"}
        with pytest.raises(UsageError, match="only vLLM servers"):
            engine(server).generate(ask(1, 1), choice)
        assert len(server.bodies) == 1
    with Server(card={"owned_by": "vllm"}) as server:
        engine(server).generate(ask(1, 1), choice)
        engine(server).generate(ask(1, 1), Sampling(structure=Structure(regex="[0-9]+")))
        assert server.bodies[0]["structured_outputs"] == {"choice": ["yes", "no"]}
        assert server.bodies[1]["structured_outputs"] == {"regex": "[0-9]+"}
        assert server.bodies[0]["top_k"] == -1  # or the model's own defaults would decide


@pytest.mark.parametrize(
    "given",
    [{}, {"regex": "a", "choice": ("b",)}, {"json_schema": "[1]"}, {"json_schema": "{"}],
)
def test_forms_that_are_none(given: dict) -> None:
    with pytest.raises(ValueError):
        Structure(**given)


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


@pytest.mark.parametrize(
    "spec",
    ["http://", "http://:80/v1", "http://a:b/v1", "http://u:secret@h/v1", "http://h/v1?key=secret"],
)
def test_addresses_that_are_none(spec: str) -> None:
    with pytest.raises(UsageError) as raised:
        resolve_server(spec, None, None)
    assert "secret" not in str(raised.value)


def test_a_server_that_is_not_there() -> None:
    with Server() as server:
        url = server.url
    with pytest.raises(CurateError, match=r"cannot be reached: ConnectError.*is it running"):
        resolve_server(url, None, None)
