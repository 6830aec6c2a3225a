"""Decide whether two parsed answers mean the same.

Rational values are compared exactly. Other expressions are compared at random points with 60
digits (Schwartz–Zippel): two that agree to 30 digits at every point are one expression.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from curate.verifiers.evaluate import TooBig, Undefined, canonical, exact, numeric, symbols
from curate.verifiers.expressions import Node, is_scalar, negate
from curate.verifiers.realsets import real_set, same_set

DIGITS = 60
#: A decimal stands for an irrational or long value only with this many digits.
MIN_DECIMALS = 6
#: Longer lists are equal only when written alike.
MAX_ITEMS = 60

_EQUALS = frozenset({"=", "~"})
_ORDER = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
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


def same(gold: Node, given: Node, *, strict: bool = False) -> bool:
    """True when ``given`` is the answer ``gold``.

    Args:
        gold: parsed reference.
        given: parsed answer.
        strict: a rounded decimal is not an exact value.
    """
    gold, given = _shaped(gold), _shaped(given)
    if gold == given or canonical(gold) == canonical(given):
        return True
    if is_scalar(gold) and is_scalar(given):
        return scalar_equal(gold, given, strict=strict) or _same_sets(gold, given)

    def equal(one: Node, other: Node) -> bool:
        return same(one, other, strict=strict)

    if "rel" in (gold[0], given[0]):
        return _same_relations(gold, given, equal)
    if _same_sets(gold, given):
        return True
    return _same_structures(gold, given, equal)


def _shaped(node: Node) -> Node:
    """Rewrite ±, ``x ∈ S`` and one-element lists to what they stand for."""
    if is_scalar(node):
        return ("list", _both_signs(node)) if _has_sign(node) else node
    if node[0] == "list" and any(is_scalar(item) and _has_sign(item) for item in node[1]):
        items = (_both_signs(item) if is_scalar(item) else (item,) for item in node[1])
        return ("list", tuple(one for pair in items for one in pair))
    if node[0] == "rel":
        if node[1] == ("in",):
            return _shaped(node[2][1])
        last = node[2][-1]
        if node[1] == ("=",) and is_scalar(last) and _has_sign(last):
            return ("list", _both_signs(last))
        if "~" in node[1]:
            return ("rel", tuple("=" if one == "~" else one for one in node[1]), node[2])
    return node


def _has_sign(node: Node) -> bool:
    return bool(symbols(node) & {"pm", "mp"})


def _both_signs(node: Node) -> tuple[Node, ...]:
    if not _has_sign(node):
        return (node,)
    plus = {"pm": Fraction(1), "mp": Fraction(-1)}
    return tuple(
        _replace(node, {name: sign * value for name, value in plus.items()}) for sign in (1, -1)
    )


def _replace(node: Node, values: dict[str, Fraction]) -> Node:
    if node[0] == "sym":
        return ("num", values[node[1]]) if node[1] in values else node
    return tuple(
        _replace(part, values) if isinstance(part, tuple) and part and isinstance(part[0], str)
        else part
        for part in node
    )  # fmt: skip


# --- scalars --------------------------------------------------------------------------------


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
    points = _sample(names)
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


def _sample(names: frozenset[str]) -> list[dict[str, Fraction]]:
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


# --- relations ------------------------------------------------------------------------------


def _same_relations(gold: Node, given: Node, equal: Callable[[Node, Node], bool]) -> bool:
    if gold[0] != "rel":
        # An answer may show its work: "m + n = 256 + 37 = 293".
        if set(given[1]) <= {"="}:
            first, last = given[2][0], given[2][-1]
            if _is_label(first) or (is_scalar(first) and not symbols(first)):
                return equal(gold, last)
            if _is_label(last) and not _is_label(first) and len(given[2]) == 2:
                return is_scalar(first) and not symbols(first) and equal(gold, first)
            return all(equal(gold, term) for term in given[2])
        return _same_sets(gold, given)
    if given[0] != "rel":
        if set(gold[1]) == {"="} and _is_label(gold[2][0]):
            return equal(gold[2][-1], given)
        return _same_sets(gold, given)
    if set(gold[1]) == {"="} == set(given[1]):
        return _same_equations(gold[2], given[2], equal)
    if _same_sets(gold, given):
        return True
    if len(gold[1]) == len(given[1]):
        if gold[1] == given[1] and all(map(equal, gold[2], given[2])):
            return True
        turned = tuple(_ORDER.get(one, one) for one in reversed(given[1]))
        if gold[1] == turned and all(map(equal, gold[2], reversed(given[2]))):
            return True
        if len(gold[1]) == 1:
            return _proportional(gold, given)
    return False


def _same_equations(
    gold: tuple[Node, ...], given: tuple[Node, ...], equal: Callable[[Node, Node], bool]
) -> bool:
    label, value = gold[0], gold[-1]
    other, result = given[0], given[-1]
    if _is_label(label) and (_is_label(other) or not is_scalar(other)):
        same_label = canonical(label) == canonical(other)
        if same_label and (len(given) > 2 or not symbols(result) & symbols(label)):
            return equal(value, result)
        # y = x + 1 and f(x) = x + 1 describe one function; x = 5 and y = 5 differ.
        if is_scalar(value) and is_scalar(result) and symbols(value) and not same_label:
            own = symbols(label) | symbols(other)
            simple = label[0] in ("sym", "mul") and other[0] in ("sym", "mul")
            if simple and not own & (symbols(value) | symbols(result)) - _arguments(label, other):
                return equal(value, result)
    if not all(is_scalar(term) for term in (label, value, other, result)):
        return False
    return _proportional(("rel", ("=",), (label, value)), ("rel", ("=",), (other, result)))


def _arguments(*labels: Node) -> frozenset[str]:
    """Symbols in brackets after a function's name: f(x) was read as the product f·x."""
    found: set[str] = set()
    for label in labels:
        if label[0] == "mul" and label[1][0] == "sym" and label[1][1] in ("f", "g", "h", "F", "P"):
            found |= symbols(("mul", *label[2:]))
    return frozenset(found)


def _is_label(node: Node) -> bool:
    """True for what names a value without computing: x, AB, f(x), NO/BO, a ratio of names."""
    if node[0] == "sym":
        return node[1] not in ("pi", "const_e", "const_i", "inf", "reals")
    if node[0] in ("ratio",):
        return all(_is_label(item) for item in node[1])
    if node[0] == "tuple":
        return bool(node[3]) and all(_is_label(item) for item in node[3])
    if node[0] == "pow":
        return _is_label(node[1]) and node[2] == ("num", Fraction(-1))
    if node[0] in ("mul", "add"):
        first = node[1]
        if node[0] == "mul" and first[0] == "sym" and first[1] in ("f", "g", "h", "F", "P", "p"):
            return len(node) == 3  # f(2) names a value too
        return all(_is_label(part) for part in node[1:])
    if node[0] == "call":
        return str(node[1]).startswith(("fn_", "mark_", "prime")) or (
            node[1] in ("abs", "sin", "cos", "tan", "min", "max", "gcd", "lcm", "det")
            and all(_is_label(part) for part in node[2:])
        )
    return False


def _proportional(gold: Node, given: Node) -> bool:
    """True when left − right of both differ by a constant factor (positive, for inequalities)."""
    if not all(is_scalar(term) for term in (*gold[2], *given[2])):
        return False
    names = symbols(gold)
    if not names or names != symbols(given):
        return False
    one, other = (("add", left, negate(right)) for left, right in (gold[2], given[2]))
    arithmetic = context()
    ratios: list[Any] = []
    for values in _sample(names):
        try:
            a, b = (numeric(node, values, arithmetic) for node in (one, other))
        except Undefined:
            continue
        except (TooBig, ArithmeticError, ValueError):
            return False
        if abs(b) < 1e-40 or abs(a) < 1e-40:
            return False
        ratios.append(a / b)
    if len(ratios) < 3:
        return False
    first = ratios[0]
    if any(abs(ratio - first) > abs(first) * 1e-30 for ratio in ratios):
        return False
    operator, turned = gold[1][0], given[1][0]
    if operator in ("=", "!="):
        return bool(operator == turned)
    if arithmetic.im(first) != 0:
        return False
    return bool(operator == (turned if first > 0 else _ORDER.get(turned)))


# --- sets and lists -------------------------------------------------------------------------


def _same_sets(gold: Node, given: Node) -> bool:
    def set_like(node: Node) -> bool:
        return node[0] in ("union", "cap", "minus", "rel", "all", "set", "tuple", "sym", "list")

    if not (set_like(gold) and set_like(given)) or gold[0] == given[0] == "sym":
        return False
    if gold[0] == given[0] == "tuple":
        return False  # compared item by item, with their brackets
    arithmetic = context()
    one = real_set(gold, arithmetic)
    if one is None:
        return False
    other = real_set(given, arithmetic)
    return other is not None and same_set(one, other)


def _same_structures(gold: Node, given: Node, equal: Callable[[Node, Node], bool]) -> bool:
    kinds = (gold[0], given[0])
    if kinds == ("tuple", "tuple"):
        return _same_brackets(gold, given) and _ordered(gold[3], given[3], equal)
    if kinds == ("matrix", "matrix"):
        return len(gold[1]) == len(given[1]) and all(
            _ordered(one, other, equal) for one, other in zip(gold[1], given[1], strict=True)
        )
    if "matrix" in kinds and "tuple" in kinds:
        matrix, table = (gold, given) if kinds[0] == "matrix" else (given, gold)
        rows = tuple(("tuple", "[", "]", row) for row in matrix[1])
        return _ordered(rows, table[3], equal)
    if kinds == ("ratio", "ratio"):
        return _same_ratio(gold[1], given[1], equal)
    if kinds == ("union", "union") or kinds == ("cap", "cap"):
        return _matched(_parts(gold), _parts(given), equal)
    if "ratio" in kinds:
        ratio, other = (gold, given) if kinds[0] == "ratio" else (given, gold)
        if len(ratio[1]) != 2 or not is_scalar(other) or not all(map(is_scalar, ratio[1])):
            return False
        return equal(("mul", ratio[1][0], ("pow", ratio[1][1], ("num", Fraction(-1)))), other)
    return _same_lists(gold, given, equal)


def _same_brackets(gold: Node, given: Node) -> bool:
    """Brackets tell open from closed ends of a pair; of a longer tuple they tell nothing."""
    square = [(node[1] == "[", node[2] == "]") for node in (gold, given)]
    return square[0] == square[1] or len(gold[3]) != 2


def _parts(node: Node) -> tuple[Node, ...]:
    if node[0] in ("union", "cap"):
        return tuple(one for part in node[1:] for one in _parts(part))
    return (node,)


def _same_ratio(
    gold: tuple[Node, ...], given: tuple[Node, ...], equal: Callable[[Node, Node], bool]
) -> bool:
    if len(gold) != len(given):
        return False
    if all(map(equal, gold, given)):
        return True
    values = [[exact(item) for item in items] for items in (gold, given)]
    if any(value is None or value == 0 for items in values for value in items):
        return False
    factors = {b / a for a, b in zip(*values, strict=True)}  # type: ignore[operator]
    return len(factors) == 1


def _items(node: Node) -> tuple[Node, ...] | None:
    if node[0] in ("list", "set"):
        items: tuple[Node, ...] = node[1]
        return items
    if node[0] == "tuple":
        items = node[3]
        return items
    return (node,) if is_scalar(node) else None


def _same_lists(gold: Node, given: Node, equal: Callable[[Node, Node], bool]) -> bool:
    wanted, found = _items(gold), _items(given)
    if wanted is None or found is None:
        return False
    gold_labels, given_labels = _labels(wanted), _labels(found)
    if gold_labels and given_labels:
        return _matched(wanted, found, equal)
    values = tuple(item[2][-1] for item in found) if given_labels else found
    if gold_labels or (given_labels and len(given_labels) > 1):
        targets = tuple(item[2][-1] for item in wanted) if gold_labels else wanted
        if gold_labels and len(gold_labels) == 1 and len(wanted) > 1:
            return _matched(targets, values, equal)  # x = 1 or x = 2
        return _ordered(targets, values, equal)
    if "tuple" in (gold[0], given[0]):
        if "set" in (gold[0], given[0]) or is_scalar(gold) or is_scalar(given):
            return False
        return _ordered(wanted, values, equal)
    if "set" in (gold[0], given[0]):
        return all(any(equal(w, f) for f in values) for w in wanted) and all(
            any(equal(w, f) for w in wanted) for f in values
        )
    return _matched(wanted, values, equal)


def _labels(items: tuple[Node, ...]) -> set[str]:
    """Labels of a list in which every item is ``label = value``, else none."""
    if not items or not all(
        item[0] == "rel" and set(item[1]) == {"="} and _is_label(item[2][0]) for item in items
    ):
        return set()
    return {canonical(item[2][0]) for item in items}


def _ordered(
    wanted: Sequence[Node], found: Sequence[Node], equal: Callable[[Node, Node], bool]
) -> bool:
    return len(wanted) == len(found) and all(map(equal, wanted, found))


def _matched(
    wanted: Sequence[Node], found: Sequence[Node], equal: Callable[[Node, Node], bool]
) -> bool:
    """Equal as multisets."""
    if len(wanted) != len(found) or len(wanted) > MAX_ITEMS:
        return False
    rest = list(found)
    for one in wanted:
        place = next((index for index, other in enumerate(rest) if equal(one, other)), None)
        if place is None:
            return False
        del rest[place]
    return True
