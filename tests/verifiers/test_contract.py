"""What every kind of verifier promises."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from curate.pipelines.errors import UsageError
from curate.verifiers import isolate
from curate.verifiers.api import (
    Row,
    check_gold,
    check_golds,
    equivalent,
    kinds,
    verify,
    verify_many,
)
from curate.verifiers.judge import judge
from curate.verifiers.verdict import Verdict

#: For each kind: gold, a right answer, a wrong one, options.
SAMPLES = {
    "boolean": ("yes", "Yes", "No", {}),
    "choice": ("B", "(B)", "(C)", {"options": {"A": "one", "B": "two", "C": "three"}}),
    "items": ("2, 3", "[2, 3]", "2, 4", {}),
    "math": ("1/2", "0.5", "0.6", {}),
    "quantity": ("3 km", "3000 m", "3 m", {}),
    "structured": ('{"a": [1, 2]}', '{"a": [1, 2.0]}', '{"a": [2, 1]}', {}),
    "text": ("blue whale", "Blue whale.", "grey whale", {}),
}
#: Built to hang, to blow up memory or the stack, or to run.
HOSTILE = [
    "9**9**9**9",
    "2^{2^{2^{2^{2^{2}}}}}",
    "factorial(10**9)",
    "100000000000000000000!",
    "\\binom{10^9}{5\\cdot 10^8}",
    "\\frac{" * 3000 + "1" + "}{2}" * 3000,
    "(" * 20_000 + "1" + ")" * 20_000,
    "[" * 20_000,
    "{" * 20_000,
    "\\boxed{" * 5000,
    "\\int_{0}^{1} e^{x^{x^{x}}} dx",
    "x" * 500_000,
    "1," * 100_000,
    "(a|b)*" * 2000,
    "\\sqrt{" * 2000 + "2" + "}" * 2000,
    "__import__('os').system('touch {canary}')",
    "\\boxed{__import__('pathlib').Path('{canary}').touch()}",
    "eval(compile('open(\"{canary}\", \"w\")', 'x', 'exec'))",
    "\ud800",
    "\x00\x1b[31m",
    "1e400",
    "1e-400000000",
    "0/0",
    "∞",
    "NaN",
    "<think>" * 5000,
]


def test_every_kind_has_a_sample() -> None:
    assert set(SAMPLES) == set(kinds())


@pytest.mark.parametrize("kind", SAMPLES)
def test_right_wrong_and_in_a_sentence(kind: str) -> None:
    gold, right, wrong, options = SAMPLES[kind]
    frames = ("{}", "\\boxed{{{}}}", "Some thought.\n\nThe answer is {}")
    for frame in frames:
        assert verify(kind, gold, frame.format(right), **options).value == "correct", frame
        assert verify(kind, gold, frame.format(wrong), **options).value == "incorrect", frame


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_gold_verifies_against_itself(kind: str) -> None:
    gold, right, wrong, options = SAMPLES[kind]
    assert check_gold(kind, gold, **options).value == "correct"
    assert equivalent(kind, gold, right, **options)
    assert not equivalent(kind, gold, wrong, **options)


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("nothing", ["", " ", "\n\t", "\u200b"])
def test_nothing_is_never_right(kind: str, nothing: str) -> None:
    gold, right, _, options = SAMPLES[kind]
    assert verify(kind, gold, nothing, **options).value == "incorrect"
    if not nothing.strip():
        assert verify(kind, nothing, right, **options).value == "error"
        assert check_gold(kind, nothing, **options).reason == "empty_gold"


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_truncated_response_counts_only_when_its_answer_is_closed(kind: str) -> None:
    gold, right, _, options = SAMPLES[kind]
    closed = f"so \\boxed{{{right}}}"
    assert verify(kind, gold, closed, truncated=True, **options).value == "correct"
    told = f"The answer is {right}.\nTo check it, we"
    assert verify(kind, gold, told, truncated=True, **options).value == "correct"
    for loose in (
        f"Let us see. It might be {right} or else something that",
        f"The answer is {right}",
        f"so \\boxed{{{right}",
        f"The answer is {right}. No, wait,",
        right,
    ):
        made = verify(kind, gold, loose, truncated=True, **options)
        assert (made.value, made.reason) == ("incorrect", "truncated"), loose


@pytest.mark.parametrize("kind", SAMPLES)
def test_an_unfinished_thought_is_no_answer(kind: str) -> None:
    gold, right, _, options = SAMPLES[kind]
    thinking = f"<think>It is \\boxed{{{right}}}, or is it"
    made = verify(kind, gold, thinking, require_closed_think=True, **options)
    assert made.value == "incorrect"
    done = f"<think>Hm.</think>\\boxed{{{right}}}"
    assert verify(kind, gold, done, require_closed_think=True, **options).value == "correct"


@pytest.mark.parametrize("kind", SAMPLES)
def test_hostile_text_ends_in_time_and_is_never_right(kind: str, tmp_path: Path) -> None:
    gold, _, _, options = SAMPLES[kind]
    canary = tmp_path / "canary"
    rows = [
        Row(kind, gold, text.replace("{canary}", str(canary)), {**options, "max_s": 1.0})
        for text in HOSTILE
    ]
    verify_many(rows[:1])
    started = time.monotonic()
    verdicts = verify_many(rows)
    assert all(v.value in ("incorrect", "error") for v in verdicts)
    # Every row may use its second, and a killed worker a few to load again; none may hang.
    assert time.monotonic() - started < 4 * len(rows)
    assert not canary.exists()


@pytest.mark.parametrize("kind", SAMPLES)
def test_hostile_golds_cost_only_their_row(kind: str) -> None:
    gold, _, _, options = SAMPLES[kind]
    hostile = [(kind, text, {**options, "max_s": 1.0}) for text in HOSTILE]
    found = check_golds([*hostile, (kind, gold, options)])
    assert len(found) == len(HOSTILE) + 1
    assert found[-1].value == "correct"


def test_many_are_as_one_and_in_order() -> None:
    rows = []
    for kind, (gold, right, wrong, options) in SAMPLES.items():
        rows += [Row(kind, gold, right, options), Row(kind, gold, wrong, options)]
    rows += [Row("math", "\\frac{\\sqrt{2}}{2}", "1/\\sqrt{2}"), Row("math", "x+1", "x+2")]
    single = [verify(r.kind, r.gold, r.response, **r.options) for r in rows]
    assert verify_many(rows) == single
    assert verify_many(rows * 40) == single * 40
    told: list[int] = []
    verify_many(rows * 3, progress=told.append)
    assert sum(told) == 3 * len(rows)


def test_unknown_kinds_and_options_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="unknown verifier kind 'maths'; use one of boolean"):
        verify("maths", "1", "1")
    with pytest.raises(UsageError, match="unknown verifier option 'tolerance'"):
        verify("math", "1", "1", tolerance=1)
    with pytest.raises(UsageError):
        verify_many([Row("math", "1", "1"), Row("maths", "1", "1")])
    with pytest.raises(UsageError):
        check_gold("maths", "")


def test_a_dead_worker_costs_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = [Row("math", "\\int x dx", f"x^2/2+{i}-{i}") for i in range(40)]
    assert judge("math", hard[0].gold, hard[0].response, {}) is None
    isolate.close()
    receive = isolate.Worker.receive
    received: list[int] = []

    def dying(worker: isolate.Worker, max_s: float) -> Verdict:
        received.append(1)
        if len(received) == 5:
            worker._process.kill()
            worker._process.wait()
            worker._buffer = b""
            while os.read(worker._out, 1 << 16):
                pass
        return receive(worker, max_s)

    monkeypatch.setattr(isolate.Worker, "receive", dying)
    verdicts = verify_many(hard, workers=1)
    assert [v.value for v in verdicts] == ["correct"] * 4 + ["error"] + ["correct"] * 35
    assert verdicts[4].reason == "worker_died"


def test_verification_works_off_the_main_thread() -> None:
    def one(i: int) -> str:
        return verify("math", "\\int x dx", f"x^2/2+{i}-{i}").value

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(one, range(12))) == {"correct"}
