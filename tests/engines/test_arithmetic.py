"""The built-in policy's problems, and how well it does on those it has never seen."""

import contextlib
import json
import re

import numpy as np
import pytest

from curate.engines.api import Message, Request, Sampling
from curate.engines.arithmetic import FAMILIES, held_out, problem
from curate.engines.models import open_engine, resolve_model
from curate.engines.train_tiny import tokenizer
from curate.verifiers.api import verify

PER_FAMILY = 12
GROUP = 8


def drawn(family: str, n: int) -> list:
    rng = np.random.default_rng(list(FAMILIES).index(family))
    unseen: dict = {}
    for _ in range(3000):
        p = problem(family, rng)
        if len(unseen) < n and held_out(p.question):
            unseen[p.question] = p
    return list(unseen.values())


def test_golds_are_right() -> None:
    for family in FAMILIES:
        for p in drawn(family, 20):
            numbers = list(map(int, re.findall(r"\d+", p.question.partition("\n")[0])))
            if family.startswith("steps"):
                value = numbers[0] + numbers[1] - numbers[2]
            else:
                a, b = numbers
                value = {"+": a + b, "-": a - b, "*": a * b}[re.search(r" ([+*-]) ", p.question)[1]]
            if p.choices:
                assert p.choices["ABCD".index(p.answer)] == str(value)
                assert p.choices.count(str(value)) == 1
            else:
                assert p.answer == str(value)
            assert verify("choice" if p.choices else "math", p.answer, p.worked).value == "correct"


def test_every_problem_and_its_working_can_be_written() -> None:
    tokens = tokenizer()
    for family in FAMILIES:
        for p in drawn(family, 5):
            for text in (p.question, p.worked):
                ids = tokens(text, add_special_tokens=False)["input_ids"]
                assert tokens.unk_token_id not in ids
                assert tokens.decode(ids) == text


def test_samples_are_held_out(root) -> None:
    questions = []
    for line in (root / "examples/arithmetic.jsonl").read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # it has broken rows on purpose
            questions.append(json.loads(line).get("question") or "")
    plain = [q for q in questions if re.fullmatch(r"What is \d+ [+*-] \d+\?", q)]
    assert len(plain) > 100
    assert sum(map(held_out, plain)) / len(plain) > 0.97


@pytest.fixture(scope="module")
def rates() -> dict[str, np.ndarray]:
    """Pass counts of ``GROUP`` by family, of the real built-in policy on held-out questions."""
    engine = open_engine(resolve_model("tiny"), cache=None, device="cpu")
    found = {}
    for family in FAMILIES:
        problems = drawn(family, PER_FAMILY)
        requests = [Request(p.question, (Message("user", p.question),), GROUP) for p in problems]
        made = engine.generate(requests, Sampling(max_tokens=96))
        found[family] = np.array(
            [
                sum(
                    verify("choice" if p.choices else "math", p.answer, c.text).value == "correct"
                    for c in completions
                )
                for p, completions in zip(problems, made, strict=True)
            ]
        )
    return found


def test_pass_rates_spread_over_the_whole_range(rates) -> None:
    counts = np.bincount(np.concatenate(list(rates.values())), minlength=GROUP + 1)
    assert (counts[[0, GROUP]] > 0).all()
    frontier = counts[1:GROUP].sum() / counts.sum()
    assert frontier > 0.3, counts
    assert (counts > 0).sum() >= 7, counts


def test_more_digits_are_harder(rates) -> None:
    means = {family: counts.mean() for family, counts in rates.items()}
    assert means["sum-1"] > means["sum-4"]
    assert means["difference-1"] > means["difference-3"]
    assert means["steps-1"] > means["steps-2"]
