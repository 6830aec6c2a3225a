"""Decide whether two equations or inequalities, or one and a bare value, are the same answer."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from curate.verifiers.evaluate import TooBig, Undefined, numeric
from curate.verifiers.nodes import Node, canonical, is_scalar, negate, symbols
from curate.verifiers.realsets import equal_sets
from curate.verifiers.scalars import context, sample

Equal: TypeAlias = Callable[[Node, Node], bool]

_ORDER = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def same_relations(  # noqa: C901 (a flat list of rules, first match wins)
    gold: Node, given: Node, equal: Equal
) -> bool:
    """True when equations, inequalities or chains say the same; ``equal`` compares their terms."""
    if gold[0] != "rel":
        # An answer may show its work: "m + n = 256 + 37 = 293".
        if set(given[1]) <= {"="}:
            first, last = given[2][0], given[2][-1]
            if is_label(first) or (is_scalar(first) and not symbols(first)):
                return equal(gold, last)
            if is_label(last) and not is_label(first) and len(given[2]) == 2:
                return is_scalar(first) and not symbols(first) and equal(gold, first)
            return all(equal(gold, term) for term in given[2])
        return equal_sets(gold, given, context())
    if given[0] != "rel":
        if set(gold[1]) == {"="} and is_label(gold[2][0]):
            return equal(gold[2][-1], given)
        return equal_sets(gold, given, context())
    if set(gold[1]) == {"="} == set(given[1]):
        return _same_equations(gold[2], given[2], equal)
    if equal_sets(gold, given, context()):
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


def _same_equations(gold: tuple[Node, ...], given: tuple[Node, ...], equal: Equal) -> bool:
    label, value = gold[0], gold[-1]
    other, result = given[0], given[-1]
    if is_label(label) and (is_label(other) or not is_scalar(other)):
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


def is_label(node: Node) -> bool:
    """True for what names a value without computing: x, AB, f(x), NO/BO, a ratio of names."""
    if node[0] == "sym":
        return node[1] not in ("pi", "const_e", "const_i", "inf", "reals")
    if node[0] in ("ratio",):
        return all(is_label(item) for item in node[1])
    if node[0] == "tuple":
        return bool(node[3]) and all(is_label(item) for item in node[3])
    if node[0] == "pow":
        return is_label(node[1]) and node[2] == ("num", Fraction(-1))
    if node[0] in ("mul", "add"):
        first = node[1]
        if node[0] == "mul" and first[0] == "sym" and first[1] in ("f", "g", "h", "F", "P", "p"):
            return len(node) == 3  # f(2) names a value too
        return all(is_label(part) for part in node[1:])
    if node[0] == "call":
        return str(node[1]).startswith(("fn_", "mark_", "prime")) or (
            node[1] in ("abs", "sin", "cos", "tan", "min", "max", "gcd", "lcm", "det")
            and all(is_label(part) for part in node[2:])
        )
    return False


def _proportional(gold: Node, given: Node) -> bool:  # noqa: C901 (each early end is one rule)
    """True when left − right of both differ by a constant factor (positive, for inequalities)."""
    if not all(is_scalar(term) for term in (*gold[2], *given[2])):
        return False
    names = symbols(gold)
    if not names or names != symbols(given):
        return False
    one, other = (("add", left, negate(right)) for left, right in (gold[2], given[2]))
    arithmetic = context()
    ratios: list[Any] = []
    for values in sample(names):
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
