"""The math verifier against math-verify on the same rows, in one process, as a ratio.

Rows are generated with their labels: integers, decimals, fractions, radicals, polynomials, sets,
intervals and equations, right and wrong, at the end of a few sentences of working. Both are timed
on all rows; disagreements with the labels are counted for both.

Run: python benchmarks/verify.py [--rows 3000]
"""

import argparse
import random
import statistics
from collections.abc import Callable
from time import perf_counter

from math_verify import parse
from math_verify import verify as judge

from curate.verifiers.api import Row, verify_many

ROUNDS = 3
WORKING = (
    "Let us work this out step by step. First we write down what is given, with ${a}$ and ${b}$. "
    "Then ${a} + {b} = {c}$, which we need below.\n\n"
)


def answers(draw: random.Random) -> tuple[str, str, str]:
    """A gold, the same in another form, and a wrong answer of the same form."""
    a, b, c = draw.randint(2, 40), draw.randint(2, 40), draw.randint(2, 9)
    return draw.choice(
        [
            (f"{a * b * 37}", f"{a * b * 37:,}", f"{a * b * 37 + c}"),
            (f"{a / 8}", f"\\frac{{{a}}}{{8}}", f"\\frac{{{a + 1}}}{{8}}"),
            (f"\\frac{{{a}}}{{{b}}}", f"{a * c}/{b * c}", f"{a * c + 1}/{b * c}"),
            (f"{a}\\sqrt{{{c}}}", f"\\sqrt{{{a * a * c}}}", f"\\sqrt{{{a * a * c + 1}}}"),
            (f"(x+{a})(x-{b})", f"x^2+{a}x-{b}x-{a * b}", f"x^2+{a}x-{b}x+{a * b}"),
            (f"\\{{{a}, {a + b}\\}}", f"\\{{{a + b}, {a}\\}}", f"\\{{{a + b}, {a + 1}\\}}"),
            (f"[{a}, {a + b})", f"[{a}, {a + b})", f"({a}, {a + b})"),
            (f"y = {a}x + {b}", f"y={b}+{a}x", f"y={a}+{b + 1}x"),
            (f"({a}, {b})", f"\\left({a}, {b}\\right)", f"({b + 1}, {a})"),
            (f"{a}\\pi", f"{a} \\pi", f"{b + 41}\\pi"),
        ]
    )


def rows(n: int) -> list[tuple[str, str, bool]]:
    """Gold, response, label."""
    draw = random.Random(0)
    made = []
    for _ in range(n):
        gold, same, other = answers(draw)
        right = draw.random() < 0.5
        working = WORKING.replace("{a}", gold).replace("{b}", same).replace("{c}", other)
        end = draw.choice(["Therefore \\boxed{{{}}}.", "The final answer is ${}$"])
        made.append((gold, working + end.format(same if right else other), right))
    return made


def peer(given: list[tuple[str, str, bool]]) -> list[bool]:
    """math-verify without its signal timers, which only cost it time."""
    return [
        judge(
            parse(f"${gold}$", parsing_timeout=None),
            parse(response, parsing_timeout=None),
            timeout_seconds=None,
        )
        for gold, response, _ in given
    ]


def ours(given: list[tuple[str, str, bool]], workers: int) -> list[bool]:
    """Isolated workers, limits on."""
    made = verify_many(
        [Row("math", gold, response) for gold, response, _ in given], workers=workers
    )
    return [verdict.value == "correct" for verdict in made]


def main() -> None:
    """Print seconds, ratio and errors."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=3000)
    given = rows(parser.parse_args().rows)
    contenders: dict[str, Callable[[], list[bool]]] = {
        "math-verify, 1 process": lambda: peer(given),
        "curate, 1 worker": lambda: ours(given, 1),
        "curate, 2 workers": lambda: ours(given, 2),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    found: dict[str, list[bool]] = {}
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            started = perf_counter()
            found[name] = run()
            seconds[name].append(perf_counter() - started)
    base = statistics.median(seconds["math-verify, 1 process"])
    for name, values in seconds.items():
        middle = statistics.median(values)
        pairs = list(zip(found[name], (label for _, _, label in given), strict=True))
        print(
            f"{name:24} {middle:7.2f} s  {len(given) / middle:8.0f} rows/s  {base / middle:6.1f}x  "
            f"false positives {sum(f and not t for f, t in pairs)}, "
            f"false negatives {sum(t and not f for f, t in pairs)}"
        )


if __name__ == "__main__":
    main()
