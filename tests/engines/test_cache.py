"""The completion cache: each completion is paid for once, whatever else happens."""

import hashlib
import json
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import ScriptedEngine

from curate.engines.api import Message, Request, Sampling, Structure
from curate.engines.cache import CachedEngine
from curate.pipelines.errors import EngineError, PromptTooLong

SAMPLING = Sampling(max_tokens=8)


def ask(a: int, n: int = 2, first_sample: int = 0, key: str | None = None) -> Request:
    return Request(key or f"key-{a}", (Message("user", f"{a} + 1"),), n, first_sample)


def flat(answers: list[list]) -> list[list[tuple]]:
    return [[(c.sample, c.text) for c in completions] for completions in answers]


class OneByOne(ScriptedEngine):
    """Tells every sample by itself; fails before the last of them when told to."""

    fails = False

    def generate(self, requests, sampling, on_batch=None):
        answers = super().generate(requests, sampling)
        told = [(place, made) for place, many in enumerate(answers) for made in many]
        for place, made in told[:-1] if self.fails else told:
            on_batch([place], [[made]])
        if self.fails:
            raise EngineError("gone")
        return answers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "cache.sqlite"


def test_a_completion_is_generated_once_over_calls_and_openings(path: Path) -> None:
    first = CachedEngine(ScriptedEngine(), path, 4)
    made = first.generate([ask(a) for a in range(9)], SAMPLING)
    assert (first.generated, first.hits) == (18, 0)
    first.close()
    again = CachedEngine(ScriptedEngine(), path, 4)
    assert again.generate([ask(a) for a in range(9)], SAMPLING) == made
    assert (again.generated, again.hits) == (0, 18)


@pytest.mark.parametrize(
    "other",
    [
        replace(SAMPLING, temperature=0.5),
        replace(SAMPLING, top_p=0.9),
        replace(SAMPLING, max_tokens=9),
        replace(SAMPLING, seed=1),
        replace(SAMPLING, stop=("x",)),
    ],
)
def test_other_sampling_is_another_completion(path: Path, other: Sampling) -> None:
    engine = CachedEngine(ScriptedEngine(), path, 4)
    engine.generate([ask(1)], SAMPLING)
    engine.generate([ask(1)], other)
    assert engine.generated == 4


def test_another_revision_or_message_is_another_completion(path: Path) -> None:
    CachedEngine(ScriptedEngine(), path, 4).generate([ask(1)], SAMPLING)
    newer = CachedEngine(ScriptedEngine(revision="2"), path, 4)
    newer.generate([ask(1)], SAMPLING)
    system = replace(ask(1), messages=(Message("system", "Add."), *ask(1).messages))
    newer.generate([system], SAMPLING)
    assert (newer.generated, newer.hits) == (4, 0)


def test_equal_messages_under_other_ids_share_completions(path: Path) -> None:
    engine = CachedEngine(ScriptedEngine(), path, 4)
    a, b, c = engine.generate([ask(5, key="a"), ask(5, 4, key="b"), ask(5, 1, 2)], SAMPLING)
    assert engine.generated == 4
    assert b[:2] == a
    assert c == b[2:3]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(0, 5)), max_size=6))
def test_any_order_of_asking_gives_what_asking_at_once_gives(asked) -> None:
    whole = CachedEngine(ScriptedEngine(), None, 8)
    truth = {a: whole.generate([ask(a, 10)], SAMPLING)[0] for a in range(4)}
    engine = CachedEngine(ScriptedEngine(), None, 8)
    for a, n, first in asked:
        (made,) = engine.generate([ask(a, n, first)], SAMPLING)
        assert made == truth[a][first : first + n]
    needed = {(a, sample) for a, n, first in asked for sample in range(first, first + n)}
    assert engine.generated == len(needed)


def told_by(engine: CachedEngine, requests: list[Request]) -> tuple[list[list], list[int]]:
    """What was told of each request, in its order, and how much with each call."""
    told: list[list] = [[] for _ in requests]
    calls: list[int] = []

    def on_batch(places: list[int], batch: list[list]) -> None:
        calls.append(sum(map(len, batch)))
        for place, completions in zip(places, batch, strict=True):
            told[place] += completions

    engine.generate(requests, SAMPLING, on_batch)
    return [sorted(many, key=lambda c: c.sample) for many in told], calls


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(0, 5)), max_size=6),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(0, 5)), max_size=6),
    st.booleans(),
)
def test_every_sample_is_told_once_to_all_who_asked(before, asked, one_by_one) -> None:
    engine = CachedEngine(OneByOne() if one_by_one else ScriptedEngine(), None, 4)
    engine.generate([ask(*each) for each in before], SAMPLING)
    requests = [ask(*each, key=f"{i}") for i, each in enumerate(asked)]
    told, _ = told_by(engine, requests)
    assert told == engine.generate(requests, SAMPLING)


def test_what_is_made_is_told_at_once_however_long_the_batch(path: Path) -> None:
    engine = CachedEngine(OneByOne(), path, 1000)
    engine.generate([ask(a) for a in range(2)], SAMPLING)
    _, calls = told_by(engine, [ask(a) for a in range(5)])
    assert calls == [4] + [1] * 6


class Short(ScriptedEngine):
    """Takes no second number over 5."""

    def generate(self, requests, sampling, on_batch=None):
        long = [r.key for r in requests if int(r.messages[-1].content.split()[0]) > 5]
        if long:
            raise PromptTooLong(long, 5)
        return super().generate(requests, sampling, on_batch)


def test_too_long_prompts_are_named_by_the_callers_keys(path: Path) -> None:
    engine = CachedEngine(Short(), path, 100)
    with pytest.raises(PromptTooLong) as error:
        engine.generate([ask(1), ask(7, key="x"), ask(8), ask(7, key="y")], SAMPLING)
    assert sorted(error.value.keys) == ["key-8", "x", "y"]


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from scripted import ScriptedEngine
from curate.engines.api import Message, Request, Sampling
from curate.engines.cache import CachedEngine

class Dying(ScriptedEngine):
    def _answer(self, request, sampling):
        if self.generated >= 10:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._answer(request, sampling)

asked = [Request(f"key-{a}", (Message("user", f"{a} + 1"),), 2) for a in range(9)]
CachedEngine(Dying(), Path(sys.argv[2]), 4).generate(asked, Sampling(max_tokens=8))
"""


def test_a_killed_process_loses_only_the_batch_in_flight(path: Path, root: Path) -> None:
    run = subprocess.run([sys.executable, "-c", KILLED, root / "tests", path])
    assert run.returncode == -signal.SIGKILL
    after = CachedEngine(ScriptedEngine(), path, 4)
    after.generate([ask(a) for a in range(9)], SAMPLING)
    assert after.hits == 8
    assert after.generated == 10


BESIDE = KILLED.replace("self.generated >= 10", "False").replace(
    "Dying()", "Dying(Path(sys.argv[3]))"
)


def test_two_processes_share_one_file(path: Path, tmp_path: Path, root: Path) -> None:
    logs = [tmp_path / "log1", tmp_path / "log2"]
    runs = [
        subprocess.Popen([sys.executable, "-c", BESIDE, root / "tests", path, log]) for log in logs
    ]
    assert [run.wait(60) for run in runs] == [0, 0]
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM completions").fetchone() == (18,)
    after = CachedEngine(ScriptedEngine(), path, 4)
    after.generate([ask(a) for a in range(9)], SAMPLING)
    assert after.generated == 0


def test_a_file_that_is_no_cache_is_an_error_that_names_it_and_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"something else entirely" * 100)
    with pytest.raises(EngineError, match=r"cache\.sqlite.*--cache"):
        CachedEngine(ScriptedEngine(), path, 4)
    assert path.read_bytes().startswith(b"something else")


def test_a_cache_that_cannot_be_written_is_an_error(path: Path) -> None:
    engine = CachedEngine(ScriptedEngine(), path, 4)
    engine._db.execute("PRAGMA query_only=1")
    with pytest.raises(EngineError, match="readonly"):
        engine.generate([ask(1)], SAMPLING)


def test_a_full_disk_is_an_error_and_what_was_told_before_is_kept(path: Path) -> None:
    engine = CachedEngine(OneByOne(), path, 1000)
    engine.generate([ask(1)], SAMPLING)
    (pages,) = engine._db.execute("PRAGMA page_count").fetchone()
    engine._db.execute(f"PRAGMA max_page_count={pages + 1}")
    with pytest.raises(EngineError, match=r"cache\.sqlite.*full.*--cache"):
        engine.generate([ask(a, 8) for a in range(200)], SAMPLING)
    engine.close()
    after = CachedEngine(ScriptedEngine(), path, 1000)
    after.generate([ask(a, 8) for a in range(200)], SAMPLING)
    assert after.generated + after.hits == 1600
    assert after.hits > 2


def test_text_of_any_kind_comes_back_as_it_was(path: Path) -> None:
    class Odd(ScriptedEngine):
        def _answer(self, request, sampling):
            return [
                replace(c, text="\x00\n“é” \u2028 😀") for c in super()._answer(request, sampling)
            ]

    made = CachedEngine(Odd(), path, 4).generate([ask(1)], SAMPLING)
    assert CachedEngine(Odd(), path, 4).generate([ask(1)], SAMPLING) == made
    with sqlite3.connect(path) as db:
        ((text,), *_) = db.execute("SELECT completion FROM completions").fetchall()
    assert json.loads(text)["text"].startswith("\x00")


def test_keys_outlive_settings_that_came_later(path: Path) -> None:
    """The key of a plain completion, as it was before ``structure`` was a setting."""
    identity = ScriptedEngine().identity.key
    settings = {"max_tokens": 8, "seed": 0, "stop": [], "temperature": 1.0, "top_p": 1.0}
    messages = json.dumps([["user", "1 + 1"]])
    text = f"{json.dumps([identity, settings], sort_keys=True)}\x1f{messages}"
    key = hashlib.sha256(text.encode()).hexdigest()
    engine = CachedEngine(ScriptedEngine(), path, 4)
    engine.generate([ask(1, 1)], SAMPLING)
    form = replace(SAMPLING, structure=Structure(choice=("1", "2")))
    engine.generate([ask(1, 1)], form)
    engine.generate([ask(1, 1)], replace(SAMPLING, structure=Structure(regex="1|2")))
    with sqlite3.connect(path) as db:
        keys = {row[0] for row in db.execute("SELECT key FROM completions")}
    assert f"{key}:0" in keys
    assert len(keys) == 3


def test_samples_told_one_by_one_are_kept_one_by_one(path: Path) -> None:
    failing = OneByOne()
    failing.fails = True
    with pytest.raises(EngineError, match="gone"):
        CachedEngine(failing, path, 100).generate([ask(a, 3) for a in range(4)], SAMPLING)
    after = CachedEngine(ScriptedEngine(), path, 100)
    made = after.generate([ask(a, 3) for a in range(4)], SAMPLING)
    assert (after.hits, after.generated) == (11, 1)
    assert [[c.sample for c in many] for many in made] == [[0, 1, 2]] * 4
