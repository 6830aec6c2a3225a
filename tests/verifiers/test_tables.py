"""Tables of answers: what each kind accepts, and what it must not."""

import pytest

from curate.verifiers.api import check_gold, verify

ABCD = {"A": "iron", "B": "iron oxide", "C": "42", "D": "none of the above"}
ACCEPTED = [
    # numbers as people write them
    ("math", "1234567", "1,234,567", {}),
    ("math", "1234567", "1\\,234\\,567", {}),
    ("math", "0.5", "1/2", {}),
    ("math", "0.5", "\\frac12", {}),
    ("math", "0.5", "\\dfrac{1}{2}", {}),
    ("math", "50\\%", "50%", {}),
    ("math", "-3", "−3", {}),
    ("math", "18", "**Answer: $18**", {}),
    ("math", "18", "#### 18", {}),
    ("math", "1e-3", "0.001", {}),
    ("math", "3\\times 10^{8}", "300000000", {}),
    ("math", "3\\times 10^{8}", "3e8", {}),
    ("math", "007", "7", {}),
    # algebra
    ("math", "x^2+2x+1", "(x+1)^2", {}),
    ("math", "\\frac{\\sqrt{2}}{2}", "\\frac{1}{\\sqrt{2}}", {}),
    ("math", "2\\sqrt{3}", "\\sqrt{12}", {}),
    ("math", "\\frac{\\pi}{4}", "\\pi/4", {}),
    ("math", "e^{i\\pi}", "-1", {}),
    ("math", "a(b+c)", "ab+ac", {}),
    # several values, intervals, tuples
    ("math", "\\{1,2,3\\}", "3, 1, 2", {}),
    ("math", "(1,2)", "\\left(1, 2\\right)", {}),
    ("math", "[0,1)", "0 \\le x < 1", {}),
    ("math", "(-\\infty,2]", "x \\le 2", {}),
    (
        "math",
        "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}",
        "\\begin{bmatrix} 1 & 2 \\\\ 3 & 4 \\end{bmatrix}",
        {},
    ),
    ("math", "x=5", "5", {}),
    # the last of several, the boxed one
    ("math", "12", "First 10, then 11. \\boxed{12}. Check: 13 - 1.", {}),
    ("math", "12", "I first got \\boxed{10}, which is wrong. It is \\boxed{12}", {}),
    # choices
    ("choice", "B", "b", {"options": ABCD}),
    ("choice", "B", "The correct option is **(B)**.", {"options": ABCD}),
    ("choice", "B", "iron oxide", {"options": ABCD}),
    ("choice", "B", "\\boxed{\\text{(B) iron oxide}}", {"options": ABCD}),
    ("choice", "C", "42", {"options": ABCD}),
    ("choice", "A,C", "C and A", {"options": ABCD, "multi": True}),
    ("choice", "B", "A and C are wrong. So the answer is B", {"options": ABCD}),
    # quantities
    ("quantity", "5 kg", "5000 g", {}),
    ("quantity", "9.8 m/s^2", "9.8 \\text{ m/s}^2", {}),
    ("quantity", "20 °C", "293.15 K", {}),
    ("quantity", "1 h", "60 minutes", {}),
    ("quantity", "10 Ω", "10 ohms", {}),
    ("quantity", "5", "5", {}),
    ("quantity", "5 kg", "5", {"unit_optional": True}),
    ("quantity", "3.14 m", "3.1 m", {"rel_tol": 0.02}),
    # text
    ("text", "the Beatles", "The Beatles.", {}),
    ("text", "USA", "United States", {"aliases": ["United States"]}),
    ("text", "14:30", "2:30 pm", {"type": "time"}),
    # yes and no
    ("boolean", "yes", "Yes, because no rule forbids it.", {}),
    ("boolean", "no", "No.", {}),
    ("boolean", "true", "True", {}),
    ("boolean", "maybe", "maybe", {"labels": ["yes", "no", "maybe"]}),
    # lists
    ("items", "a, b, c", '["a", "b", "c"]', {}),
    ("items", "a, b", "b, a", {"ordered": False}),
    ("items", "a, a, b", "b, a", {"ordered": False, "multiset": False}),
    # JSON
    ("structured", '{"a": 1, "b": null}', '```json\n{"b": null, "a": 1.0}\n```', {}),
    ("structured", "[1, 2]", "Here: [1, 2]", {}),
]
REFUSED = [
    ("math", "1234567", "1234568", {}),
    ("math", "0.5", "0.50001", {}),
    ("math", "18", "180", {}),
    ("math", "18", "The sum of 9 and 18 is 27", {}),
    ("math", "18", "\\boxed{18} is wrong; it is \\boxed{19}", {}),
    ("math", "-3", "3", {}),
    ("math", "x^2+2x+1", "x^2+2x", {}),
    ("math", "2\\sqrt{3}", "3.4641", {"exact": True}),
    ("math", "\\{1,2,3\\}", "1,2", {}),
    ("math", "(1,2)", "(2,1)", {}),
    ("math", "[0,1)", "(0,1)", {}),
    ("math", "1/3", "0.3", {}),
    ("math", "x=5", "x=-5", {}),
    ("math", "12", "It could be 12 or 13", {}),
    ("math", "2", "1, 2, 3, 4, 5", {}),
    ("math", "5", "\\boxed{}", {}),
    ("choice", "B", "A", {"options": ABCD}),
    ("choice", "B", "iron", {"options": ABCD}),
    ("choice", "B", "A or B", {"options": ABCD}),
    ("choice", "B", "Both B and C", {"options": ABCD}),
    ("choice", "A,C", "A", {"options": ABCD, "multi": True}),
    ("choice", "A,C", "A, B, C", {"options": ABCD, "multi": True}),
    ("choice", "A", "A simple calculation shows nothing", {"options": ABCD}),
    ("quantity", "5 kg", "5 g", {}),
    ("quantity", "5 kg", "5 m", {}),
    ("quantity", "5 kg", "5", {}),
    ("quantity", "20 °C", "20 K", {}),
    ("quantity", "5 mW", "5 MW", {}),
    ("text", "Paris", "Par", {}),
    ("text", "Paris", "not Paris", {}),
    ("text", "Paris", "Paris or London", {}),
    ("text", "USA", "usa", {"case_sensitive": True}),
    ("text", "14:30", "2:30 am", {"type": "time"}),
    ("boolean", "yes", "No", {}),
    ("boolean", "yes", "Yes and no", {}),
    ("boolean", "yes", "maybe", {}),
    ("boolean", "maybe", "yes", {"labels": ["yes", "no", "maybe"]}),
    ("items", "a, b, c", "a, b", {}),
    ("items", "a, b", "b, a", {}),
    ("items", "a, b", "a, b, c", {"ordered": False}),
    ("items", "a, a, b", "a, b, b", {"ordered": False}),
    ("structured", '{"a": 1}', '{"a": true}', {}),
    ("structured", '{"a": 1}', '{"a": "1"}', {}),
    ("structured", '{"a": 1}', '{"a": 1, "a": 2}', {}),
    ("structured", "[1, 2]", "[2, 1]", {}),
    ("structured", '{"a": 1}', '{"a": 1', {}),
]


def name(row: tuple) -> str:
    return f"{row[0]}: {row[1]} <- {row[2]}"


@pytest.mark.parametrize("row", ACCEPTED, ids=name)
def test_accepted(row: tuple) -> None:
    kind, gold, response, options = row
    found = verify(kind, gold, response, **options)
    assert found.value == "correct", found
    assert check_gold(kind, gold, **options).value == "correct"


@pytest.mark.parametrize("row", REFUSED, ids=name)
def test_refused(row: tuple) -> None:
    kind, gold, response, options = row
    found = verify(kind, gold, response, **options)
    assert found.value == "incorrect", found


@pytest.mark.parametrize(
    ("kind", "gold", "options"),
    [
        ("choice", "E", {"options": ABCD}),
        ("choice", "A,E", {"options": ABCD, "multi": True}),
        ("boolean", "perhaps", {}),
        ("boolean", "often", {"labels": ["yes", "no"]}),
        ("structured", "{not json", {}),
        ("quantity", "five apples of", {}),
    ],
)
def test_golds_that_cannot_be_used(kind: str, gold: str, options: dict) -> None:
    found = check_gold(kind, gold, **options)
    assert found.value == "error"
    assert found.reason
    assert verify(kind, gold, gold, **options).value == "error"
