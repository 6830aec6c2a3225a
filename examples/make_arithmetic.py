"""Write the sample sources: ``python examples/make_arithmetic.py [FOLDER]``.

Only questions that ``tiny`` was not trained on. Some rows are spoilt on purpose, one of each kind
of fault a real source has, so that a build of the sample shows what is rejected and why.
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np

from curate.engines.arithmetic import FAMILIES, Problem, held_out, problem

SEED = 7
#: Rows of each family in arithmetic.jsonl; one-digit families have few held-out questions.
ROWS = {
    "sum-1": 8, "sum-2": 50, "sum-3": 50, "sum-4": 40, "difference-1": 3, "difference-2": 40,
    "difference-3": 40, "product-1": 8, "product-2": 40, "steps-1": 40, "steps-2": 40,
}  # fmt: skip
CHOICES = 40


def distinct(family: str, n: int, rng: np.random.Generator) -> list[Problem]:
    """``n`` held-out problems of a family, no question twice."""
    found: dict[str, Problem] = {}
    while len(found) < n:
        drawn = problem(family, rng)
        if held_out(drawn.question):
            found.setdefault(drawn.question, drawn)
    return list(found.values())


def spoilt(rows: list[dict[str, object]]) -> list[str]:
    """Lines with one fault each, made from good rows."""
    first, second, third, fourth = rows[10], rows[60], rows[120], rows[200]
    faulty: list[dict[str, object]] = [
        first,  # a copy
        {**second, "question": str(second["question"]).upper()},  # a copy but for its case
        {**third, "answer": "17"},  # disagrees with the row it copies
        {**fourth, "answer": "0"},  # and another
        {"question": "What is 12 + 30?", "answer": ""},
        {"question": "What is 12 + 31?", "answer": None},
        {"question": "   ", "answer": "12"},
        {"answer": "12"},
        {"question": "What is 12 \x00 33?", "answer": "45"},
        {"question": "Which is 1 + 1?", "choices": ["2", "3"], "answer": "E"},
    ]
    return [*(json.dumps(row) for row in faulty), '{"question": "What is 40 + 2?", "answer": ']


def write(folder: Path) -> None:
    """Write ``arithmetic.jsonl`` and ``choice.csv``."""
    rng = np.random.default_rng(SEED)
    rows: list[dict[str, object]] = [
        {"question": made.question, "answer": int(made.answer), "topic": family}
        for family, n in ROWS.items()
        for made in distinct(family, n, rng)
    ]
    lines = [json.dumps(row) for row in rows] + spoilt(rows)
    order = rng.permutation(len(lines))
    text = "".join(lines[i] + "\n" for i in order)
    (folder / "arithmetic.jsonl").write_text(text, encoding="utf-8")
    with (folder / "choice.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["question", "choices", "answer"])
        for made in distinct("choice-1", CHOICES, rng):
            assert made.choices is not None
            writer.writerow([made.question.splitlines()[0], "|".join(made.choices), made.answer])


if __name__ == "__main__":
    assert set(ROWS) < set(FAMILIES)
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
