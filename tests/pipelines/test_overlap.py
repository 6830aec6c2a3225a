"""Runs and likeness by hash, against the same done plainly over words."""

from collections import Counter

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from curate.pipelines.overlap import Benchmark, Lookup, alike, prepare, shared_runs

hashes = st.lists(st.integers(0, 40).map(lambda n: n << 40 | n % 7), max_size=40)
texts = st.lists(st.lists(st.sampled_from("abc"), max_size=9).map(" ".join), max_size=6)


def frame(questions: list[str]) -> pl.DataFrame:
    return pl.DataFrame(
        {"question": questions, "answer": ["1"] * len(questions)},
        schema={"question": pl.String(), "answer": pl.String()},
    )


@given(hashes, hashes)
def test_a_lookup_finds_every_pair_of_equals_and_no_other(known, asked) -> None:
    here, there = Lookup(np.array(known, np.uint64)).find(np.array(asked, np.uint64))
    expected = Counter((i, j) for i, a in enumerate(asked) for j, b in enumerate(known) if a == b)
    assert Counter(zip(here.tolist(), there.tolist(), strict=True)) == expected


def runs(text: str, n: int) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[at : at + n]) for at in range(len(words) - n + 1)}


@given(texts, texts)
def test_shared_runs_against_sets_of_words(pool, bench) -> None:
    long, short = 5, 3
    expected = {}
    for i, one in enumerate(pool):
        for j, other in enumerate(bench):
            n = long if min(len(one.split()), len(other.split())) >= long else short
            if shared := runs(one, n) & runs(other, n):
                expected[i, j] = (n, len(shared) / len(runs(other, n)))
    row, other, n, share = shared_runs(prepare(frame(pool)), Benchmark(frame(bench), long, short))
    found = zip(row.tolist(), other.tolist(), n.tolist(), share.tolist(), strict=True)
    assert {(i, j): (words, part) for i, j, words, part in found} == expected


@given(st.lists(st.sampled_from(["x + 1 = 2", "a long river", "What is 7 * 8?", ""]), max_size=6))
def test_equal_questions_are_always_alike(questions) -> None:
    bench = Benchmark(frame(questions[::-1]), 13, 8)
    row, other, score = alike(prepare(frame(questions)), bench, 0.9)
    found = dict.fromkeys(zip(row.tolist(), other.tolist(), strict=True))
    expected = [
        (i, j)
        for i, one in enumerate(questions)
        for j, two in enumerate(questions[::-1])
        if one == two
    ]
    assert list(found) == expected
    assert (score == 1).all()
