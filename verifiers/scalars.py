"""Decide whether two expressions have one value.

Rational values are compared exactly. Other expressions are compared at random points with 60
digits (Schwartz–Zippel): two that agree to 30 digits at every point are one expression.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from curate.verifiers.evaluate import TooBig, Undefined, exact, numeric
from curate.verifiers.nodes import Node, symbols

DIGITS = 60
#: A decimal stands for an irrational or long value only with this many digits.
MIN_DECIMALS = 6

_POINTS = tuple(
    Fraction(n, d) for n, d in
    ((17, 13), (-29, 23), (31, 11), (-7, 19), (41, 37), (53, 17), (-61, 43), (3, 47), (71, 29))
)  # fmt: skip
_COUNTERS = frozenset("nkmNjl")


@cache
def context() -> Any:
    """The arithmetic of this module, apart from mpmath's global one."""
    from mpmath import MPContext

    made = MPContext()
    made.dps = DIGITS
    return made


def scalar_equal(gold: Node, given: Node, *, strict: bool = False) -> bool:
    """True when two expressions have the same value wherever both have one."""
    one, other = exact(gold), exact(given)
    if one is not None and other is not None:
        if one == other:
            return True
        return not strict and (_rounds(given, one, gold) or _noise(gold, given))
    names = symbols(gold) | symbols(given)
    if symbols(gold) != symbols(given) and ("dots" in names or not names):
        return False
    if not names:
        agree = _agree(gold, given, {})
        if agree or strict or agree is None:
            return bool(agree)
        return _rounds_number(given, gold) or _rounds_number(gold, given)
    points = sample(names)
    if _agree_at(gold, given, points):
        return True
    if names <= _COUNTERS:
        whole = (
            [dict.fromkeys(names, Fraction(n)) for n in (1, 2, 3, 4, 6, 9)]
            if len(names) == 1
            else []
        )
        return bool(whole) and _agree_at(gold, given, whole)
    return False


def sample(names: frozenset[str]) -> list[dict[str, Fraction]]:
    """Points that have a value for each symbol, the same ones every time."""
    ordered = sorted(names)
    return [
        {
            name: _POINTS[(row + 2 * column) % len(_POINTS)] + Fraction(column, 101)
            for column, name in enumerate(ordered)
        }
        for row in range(len(_POINTS))
    ]


def _agree_at(one: Node, other: Node, points: Sequence[dict[str, Fraction]]) -> bool:
    """At least three points where both have a value, and no disagreement anywhere."""
    n_agreed = 0
    for values in points:
        agree = _agree(one, other, values)
        if agree is False:
            return False
        n_agreed += agree is True
    return n_agreed >= 3


def _agree(one: Node, other: Node, values: dict[str, Fraction]) -> bool | None:
    """Same value at a point; None when one has no value there."""
    arithmetic = context()
    try:
        a, b = (numeric(node, values, arithmetic) for node in (one, other))
    except Undefined:
        return None
    except (TooBig, ArithmeticError, ValueError):
        return False
    scale = max(abs(a), abs(b))
    if abs(a - b) <= scale * arithmetic.mpf(10) ** -30:
        return True
    if scale > arithmetic.mpf(10) ** -45:
        return False
    return _vanish(one, values) and _vanish(other, values)


def _vanish(node: Node, values: dict[str, Fraction]) -> bool:
    """True when a tiny value shrinks with more digits: it is zero, written as a difference."""
    from mpmath import MPContext

    finer = MPContext()
    finer.dps = 2 * DIGITS
    return bool(abs(numeric(node, values, finer)) < finer.mpf(10) ** (-DIGITS - 40))


def _places(node: Node) -> int | None:
    """Decimal places of a literal decimal fraction, or None."""
    sign = node[0] == "mul" and len(node) == 3 and node[1] == ("num", Fraction(-1))
    literal = node[2] if sign else node
    if literal[0] != "num":
        return None
    bottom, places = literal[1].denominator, 0
    while bottom > 1:
        bottom, places = (
            bottom // (10 if bottom % 10 == 0 else 2 if bottom % 2 == 0 else 5),
            (places + 1),
        )
        if places > 60:
            return None
    value = literal[1] * 10**places
    return places if value.denominator == 1 else None


def _rounds(given: Node, value: Fraction, gold: Node) -> bool:
    """True when ``given`` is a literal decimal that a longer value rounds or is cut to."""
    places = _places(given)
    if places is None or places < MIN_DECIMALS:
        return False
    gold_places = _places(gold)
    if gold_places is not None and gold_places < 10:
        return False
    number = exact(given)
    assert number is not None
    if len(str(abs(number * 10**places).numerator)) < MIN_DECIMALS:
        return False
    unit = Fraction(1, 10**places)
    return abs(number - value) <= unit / 2 or 0 <= abs(value) - abs(number) < unit


def _noise(gold: Node, given: Node) -> bool:
    """True for two decimals, one with all the digits of a double, that differ by its last bit."""
    one, other = exact(gold), exact(given)
    places = _places(given)
    assert one is not None and other is not None
    return (
        places is not None and places >= 14 and abs(one - other) <= abs(one) * Fraction(4, 10**16)
    )


def _rounds_number(given: Node, gold: Node) -> bool:
    """``_rounds`` for an irrational gold."""
    if exact(given) is None:
        return False
    arithmetic = context()
    try:
        value = numeric(gold, {}, arithmetic)
    except (TooBig, Undefined, ArithmeticError, ValueError):
        return False
    if arithmetic.im(value) != 0 or not -1000 < arithmetic.mag(value) < 1000:
        return False
    scaled = int(arithmetic.nint(arithmetic.re(value) * 10**50))
    near = Fraction(scaled, 10**50)
    number = exact(given)
    assert number is not None
    places = _places(given) or 0
    noise = places >= 13 and abs(near - number) <= abs(near) * Fraction(4, 10**16)
    return noise or _rounds(given, near, gold)
