"""The openai engine against a server on loopback that does everything servers do wrong."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from asking import SAMPLING, ask, check, engine
from misbehaving import Server, answer, error

from curate.engines.api import Completion, Sampling
from curate.engines.cache import CachedEngine
from curate.engines.openai_engine import Patience
from curate.pipelines.errors import EngineError


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
        assert "n" not in sent  # several choices at once are not every server's to give
        check(engine(server).generate(later := ask(3, first_sample=2), SAMPLING), later)
        assert len({body["seed"] for body in server.bodies}) == 6 + 9


GOOD = answer({"messages": [{"content": "q"}]})


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
        (200, {"Content-Encoding": "gzip"}, "no gzip at all"),
        (502, {"Content-Type": "text/html; charset=klingon"}, "<html>bad gateway</html>"),
        (200, {}, json.dumps({**GOOD, "usage": None})),
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
        ((200, {}, json.dumps({**GOOD, "usage": None})), 'no token counts in its "usage"'),
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


def test_a_server_deaf_to_seeds_and_log_probabilities_is_asked_once_for_each(tmp_path) -> None:
    def rule(body: dict, seen: int):
        text = f"{random.random()}"
        return 200, {}, json.dumps(answer({**body, "logprobs": False}, message={"content": text}))

    with Server(rule) as server:
        first = CachedEngine(engine(server), tmp_path / "cache.sqlite", 1000)
        made = first.generate(ask(4), SAMPLING)
        assert len({c.text for many in made for c in many}) == 12
        assert {c.logprob_sum for many in made for c in many} == {None}
        again = CachedEngine(engine(server), tmp_path / "cache.sqlite", 1000)
        assert again.generate(ask(4), SAMPLING) == made
        assert len(server.bodies) == 12


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


def test_progress_is_told_answer_by_answer() -> None:
    """A batch of the cache is many answers long; what watches must not wait for its end."""
    counts: list[int] = []
    with Server() as server:
        made = CachedEngine(engine(server), None, 1000)
        made.generate(
            ask(8, 5), SAMPLING, lambda places, batch: counts.append(sum(map(len, batch)))
        )
    assert counts == [1] * 40


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
