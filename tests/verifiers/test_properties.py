"""Invariants over made-up answers."""

import json
from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from curate.verifiers.api import verify

INTEGERS = st.integers(-(10**12), 10**12)
WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=8)
LEAVES = st.none() | st.booleans() | st.integers(-1000, 1000) | WORDS
JSON = st.recursive(
    LEAVES, lambda x: st.lists(x, max_size=3) | st.dictionaries(WORDS, x, max_size=3), max_leaves=8
)


def right(kind: str, gold: str, response: str, **options: object) -> bool:
    return verify(kind, gold, response, **options).value == "correct"


@given(INTEGERS)
def test_an_integer_however_it_is_written(n) -> None:
    for form in (f"{n}", f"{n:,}", f"\\boxed{{{n}}}", f"${n}$", f"{n}.0", f"#### {n:,}"):
        assert right("math", str(n), form), form


@given(INTEGERS, INTEGERS)
def test_two_integers_are_equal_only_if_they_are(a, b) -> None:
    assert right("math", str(a), f"The answer is {b}.") == (a == b)


@given(st.fractions(max_denominator=999))
def test_fractions(value) -> None:
    gold = f"\\frac{{{value.numerator}}}{{{value.denominator}}}"
    n, d = value.numerator * 3, value.denominator * 3
    assert right("math", gold, f"{n}/{d}")
    assert not right("math", gold, f"{n + 1}/{d}")


@given(st.decimals(-10000, 10000, places=3))
def test_decimals_are_fractions(value) -> None:
    exact = Fraction(value)
    assert right("math", str(value), f"\\frac{{{exact.numerator}}}{{{exact.denominator}}}")


@given(st.integers(2, 30), st.integers(1, 30))
def test_roots(a, b) -> None:
    assert right("math", f"{b}\\sqrt{{{a}}}", f"\\sqrt{{{a * b * b}}}")
    assert not right("math", f"{b}\\sqrt{{{a}}}", f"\\sqrt{{{a * b * b + 1}}}")


@given(st.lists(st.integers(-99, 99), min_size=2, max_size=5, unique=True), st.data())
def test_sets_have_no_order_and_tuples_do(values, data) -> None:
    mixed = data.draw(st.permutations(values))
    gold = "\\{" + ", ".join(map(str, values)) + "\\}"
    assert right("math", gold, "\\{" + ", ".join(map(str, mixed)) + "\\}")
    pair = "(" + ", ".join(map(str, values)) + ")"
    other = "(" + ", ".join(map(str, mixed)) + ")"
    assert right("math", pair, other) == (values == mixed)


@given(st.lists(WORDS, min_size=2, max_size=5), st.data())
def test_items_with_and_without_order(items, data) -> None:
    mixed = data.draw(st.permutations(items))
    assert right("items", json.dumps(items), json.dumps(mixed), ordered=False)
    assert right("items", json.dumps(items), json.dumps(mixed)) == (items == mixed)
    assert not right("items", json.dumps(items), json.dumps(items[:-1]), ordered=False)


@given(JSON, JSON)
def test_json_equality(a, b) -> None:
    gold = json.dumps(a)
    if isinstance(a, list | dict):
        assert right("structured", gold, json.dumps(a, indent=2, sort_keys=True))
        assert right("structured", gold, json.dumps(b)) == (strict(a) == strict(b))


def strict(value):
    """Equal only when types are: True is not 1."""
    if isinstance(value, list):
        return [strict(item) for item in value]
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    return type(value).__name__, value


@given(st.sampled_from("ABCD"), st.sampled_from("ABCD"))
def test_letters(gold, said) -> None:
    options = {"A": "red", "B": "green", "C": "blue", "D": "grey"}
    for form in ("{}", "({})", "{}.", "**{}**", "Answer: {}", "\\boxed{{{}}}", "Option {} fits."):
        response = form.format(said)
        assert right("choice", gold, response, options=options) == (gold == said), response
    assert right("choice", gold, options[said], options=options) == (gold == said)


@given(WORDS, WORDS)
def test_text(a, b) -> None:
    assert right("text", a, f"{a.upper()}!")
    assume(a != b)
    assert not right("text", a, b)


@given(st.integers(1, 10**6), st.sampled_from([("km", "m", 1000), ("h", "min", 60)]))
def test_units(n, units) -> None:
    big, small, factor = units
    assert right("quantity", f"{n} {big}", f"{n * factor} {small}")
    assert not right("quantity", f"{n} {big}", f"{n} {small}")
    assert not right("quantity", f"{n} {big}", f"{n * factor * 101 // 100 + 1} {small}")


@given(st.text(max_size=60), st.sampled_from(["math", "text", "items", "boolean", "quantity"]))
def test_any_text_gets_a_verdict(response, kind) -> None:
    gold = {"math": "x+7", "boolean": "yes", "quantity": "7 km"}.get(kind, "seven")
    found = verify(kind, gold, response)
    assert found.value in ("correct", "incorrect")
    assert found.reason
