"""The chat-completions protocol: what is sent, and how answers and refusals are read."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from asking import SAMPLING, ask, check, engine
from hypothesis import given
from hypothesis import strategies as st
from misbehaving import Server, answer, error

from curate.engines.api import Sampling, Structure
from curate.engines.openai_wire import Unusable, read_completion, retry_after
from curate.pipelines.errors import EngineError, PromptTooLong, UsageError


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


@pytest.mark.parametrize("odd", [None, True, "3", 3.0, -1, 1 << 40])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_an_answer_without_token_counts_is_none(name: str, odd: object) -> None:
    body = answer({"messages": [{"content": "q"}]})
    body["usage"][name] = odd
    with pytest.raises(Unusable, match="no token counts"):
        read_completion(json.dumps(body), 0, 8)


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
