"""Arithmetic problems of graded difficulty: what ``tiny`` learns and what the samples are made of.

One question in ten, chosen by hash, is never trained on; samples and evaluation use only those.
"""

import hashlib
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

Rng: TypeAlias = np.random.Generator

_THINGS = ("pens", "cups", "nuts", "cards", "stamps", "beads", "coins", "books")
_PLACES = ("box", "bag", "jar", "shop", "drawer")

#: What questions and worked answers are written with, besides numbers and names of options.
WORDS = (
    "What is ", "Which is ", " + ", " - ", " * ", " = ", " backwards ", ". #### ", "?\n",
    "A ", " has ", " more come in, then ", " go out. How many ", " are there?",
    *(f" {word}" for word in (*_THINGS, *_PLACES)), *_THINGS, *_PLACES,
    *(f"\n{letter}. " for letter in "ABCD"),
)  # fmt: skip


class Problem(NamedTuple):
    """One problem.

    Args:
        question: what is asked; for ``choice`` with its options listed.
        answer: the gold.
        worked: a short right response.
        choices: option texts, or None.
    """

    question: str
    answer: str
    worked: str
    choices: tuple[str, ...] | None = None


def held_out(question: str) -> bool:
    """True for the tenth of all questions that training leaves out."""
    return hashlib.blake2b(question.encode(), digest_size=2).digest()[0] % 10 == 0


def problem(family: str, rng: Rng) -> Problem:
    """Draw a problem of a family of ``FAMILIES``."""
    return FAMILIES[family](rng)


def _number(rng: Rng, digits: int) -> int:
    low = 0 if digits == 1 else 10 ** (digits - 1)
    return int(rng.integers(low, 10**digits))


def _sum(digits: int) -> Callable[[Rng], Problem]:
    def draw(rng: Rng) -> Problem:
        a, b = _number(rng, digits), _number(rng, digits)
        return _plain(f"{a} + {b}", a + b)

    return draw


def _difference(digits: int) -> Callable[[Rng], Problem]:
    def draw(rng: Rng) -> Problem:
        a, b = sorted((_number(rng, digits), _number(rng, digits)), reverse=True)
        return _plain(f"{a} - {b}", a - b)

    return draw


def _product(digits: int) -> Callable[[Rng], Problem]:
    def draw(rng: Rng) -> Problem:
        a, b = _number(rng, digits), int(rng.integers(2, 10))
        return _plain(f"{a} * {b}", a * b)

    return draw


def _steps(digits: int) -> Callable[[Rng], Problem]:
    def draw(rng: Rng) -> Problem:
        a, b = _number(rng, digits), _number(rng, digits)
        c = int(rng.integers(0, a + b + 1))
        thing, place = rng.choice(_THINGS), rng.choice(_PLACES)
        question = (
            f"A {place} has {a} {thing}. {b} more come in, then {c} go out. "
            f"How many {thing} are there?"
        )
        first = _backwards(f"{a} + {b}", a + b)
        second = _backwards(f"{a + b} - {c}", a + b - c)
        return Problem(question, str(a + b - c), f"{first}. {second}. #### {a + b - c}")

    return draw


def _choice(digits: int) -> Callable[[Rng], Problem]:
    def draw(rng: Rng) -> Problem:
        a, b = _number(rng, digits), _number(rng, digits)
        near = [a + b + int(d) for d in rng.permutation([-3, -2, -1, 1, 2, 3]) if a + b + d >= 0]
        options = [str(value) for value in rng.permutation([a + b, *near[:3]])]
        letter = "ABCD"[options.index(str(a + b))]
        question = f"Which is {a} + {b}?"
        listed = "\n".join(f"{x}. {text}" for x, text in zip("ABCD", options, strict=True))
        worked = f"{a} + {b} = {a + b}. #### {letter}"
        return Problem(f"{question}\n{listed}", letter, worked, tuple(options))

    return draw


def _plain(term: str, value: int) -> Problem:
    return Problem(f"What is {term}?", str(value), f"{_backwards(term, value)}. #### {value}")


def _backwards(term: str, value: int) -> str:
    """A result worked out from its last digit on, as carrying goes."""
    return f"{term} backwards {str(value)[::-1]}, {value}"


FAMILIES: dict[str, Callable[[Rng], Problem]] = {
    **{f"sum-{n}": _sum(n) for n in (1, 2, 3, 4)},
    **{f"difference-{n}": _difference(n) for n in (1, 2, 3)},
    **{f"product-{n}": _product(n) for n in (1, 2)},
    **{f"steps-{n}": _steps(n) for n in (1, 2)},
    "choice-1": _choice(1),
}
