"""Near-duplicates: look-alikes go, prompts that differ in content stay, conflicts are set aside."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curate.pipelines import guard
from curate.pipelines.agreement import same_wording
from curate.pipelines.dedup import Dedup
from curate.pipelines.near import Near, jaccard, near_pairs, prepare

TOM = "Tom has 3 apples and buys 14 more at the market. How many apples does Tom have now?"


def run(make_pool, context, questions, answers, **columns):
    pool = make_pool(len(questions), question=questions, answer=answers, **columns)
    return Dedup().run(pool, context())


@pytest.mark.parametrize(
    "copy",
    [
        TOM.upper().replace("?", " ?!"),
        "Please solve: " + TOM,
        TOM.replace("market", "harbour"),
        TOM.replace(".", " ;  "),
    ],
)
def test_a_near_copy_goes_and_says_of_what(make_pool, context, copy) -> None:
    result = run(make_pool, context, [TOM, "What is 5 * 5?", copy], ["17", "25", "17"])
    assert list(result.kept.frame["source_id"]) == ["made:1", "made:2"]
    (gone,) = result.rejected.to_dicts()
    assert gone["reason"] == "near_duplicate"
    assert gone["detail"].endswith("similar to made:1")
    kept = result.kept.frame
    assert list(kept["cluster"]) == [kept["id"][0], None]
    assert json.loads(gone["record"])["cluster"] == kept["id"][0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TOM, TOM.replace("14", "15")),
        (TOM, TOM.replace("3 apples", "three apples").replace("three", "four")),
        (TOM, TOM.replace("more", "fewer")),
        ("Solve the equation $2x + 3 = 7$ for x.", "Solve the equation $2x - 3 = 7$ for x."),
        ("Find the roots of $x^2 - 5x + 6$ now.", "Find the roots of $x^3 - 5x + 6$ now."),
        (
            "Evaluate the root $\\sqrt{x}+1$ at nought.",
            "Evaluate the root $\\sqrt{x+1}$ at nought.",
        ),
        ("Find the length of AB in the figure here.", "Find the length of AC in the figure here."),
        (
            "How many ways are there to order the letters of the word ELLIPSE?",
            "How many ways are there to order the letters of the word ELEMENT?",
        ),
        ("The mass is 1.5 grams, find its weight.", "The mass is 15 grams, find its weight."),
        ("Which of these does not float on water?", "Which of these does float on water?"),
    ],
)
def test_what_differs_in_content_is_never_merged(make_pool, context, one, other) -> None:
    result = run(make_pool, context, [one, other], ["1", "1"])
    assert len(result.kept) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("$\\frac{1}{2}+x$", "\\( \\dfrac{1}{2} + x \\)"),
        ("$x^{2} \\leq 1,000$", "$x^2\\le 1000$"),
        ("3 \u2212 2", "3 - 2"),
        ("a well-known 12 m pole", "the well known 12m pole"),
    ],
)
def test_spellings_of_one_content_share_a_signature(one, other) -> None:
    frame = pl.DataFrame({"t": [one, other]})
    found = frame.select(guard.signature(guard.canonical(pl.col("t"))))["t"]
    assert found[0] == found[1]


def test_golds_that_differ_in_value_set_the_whole_cluster_aside(make_pool, context) -> None:
    copies = [TOM, "Please " + TOM, TOM.replace(".", " -- ").replace(" -- ", ";")]
    result = run(make_pool, context, [*copies, "What is 5 * 5?"], ["17", "17", "18", "25"])
    assert list(result.kept.frame["source_id"]) == ["made:4"]
    assert set(result.rejected["reason"]) == {"conflicting_gold"}
    assert "'18' at made:3" in result.rejected["detail"][0]
    assert len({json.loads(record)["cluster"] for record in result.rejected["record"]}) == 1


def test_golds_equal_in_value_do_not_conflict(make_pool, context) -> None:
    result = run(make_pool, context, [TOM, "Please: " + TOM, TOM], ["1/2", "0.5", "\\frac{1}{2}"])
    assert sorted(result.rejected["reason"]) == ["duplicate", "near_duplicate"]


def test_other_wording_with_another_gold_is_another_problem(make_pool, context) -> None:
    base = "Find the {} of the circle with equation x^2 + y^2 - 18x + 36y + 44 = 0 in the plane."
    result = run(make_pool, context, [base.format("radius"), base.format("centre")], ["19", "9"])
    assert len(result.kept) == 2
    assert result.metrics["near"]["pairs_of_other_problems"] == 1


def test_options_in_another_order_agree_by_their_text(make_pool, context) -> None:
    ask = "Which of these colours does a ripe banana usually have, when seen by daylight?"
    result = run(
        make_pool, context, [ask, ask], ["A", "B"], kind=["choice"] * 2,
        choices=[["yellow", "violet"], ["violet", "yellow"]],
    )  # fmt: skip
    assert list(result.rejected["reason"]) == ["near_duplicate"]


def test_likeness_is_not_chained(make_pool, context) -> None:
    words = (
        "alpha bravo delta golf hotel india kilo lima oscar papa quebec romeo sierra tango".split()
    )
    texts = [" ".join(["mango"] * 0 + [f"new{'xyzuvw'[i]}ish" for i in range(k)] + words[k:])
             for k in (0, 2, 4)]  # fmt: skip
    prepared = prepare(make_pool(3, question=texts).frame)
    score = {(int(a), int(b)): float(jaccard(prepared["words"], np.array([a]), np.array([b]), 4)[0])
             for a, b in ((1, 0), (2, 1), (2, 0))}  # fmt: skip
    threshold = min(score[1, 0], score[2, 1]) - 0.01
    assert score[2, 0] < threshold
    pool = make_pool(3, question=texts, answer=["1"] * 3)
    result = Dedup(near=Near(threshold=threshold)).run(pool, context())
    assert list(result.kept.frame["source_id"]) == ["made:1", "made:3"]


def test_without_near_only_exact_copies_go(make_pool, context) -> None:
    pool = make_pool(2, question=[TOM, "Please: " + TOM], answer=["17", "17"])
    assert len(Dedup(near=None).run(pool, context()).kept) == 2


texts = st.lists(st.text(alphabet="abc d\u00e9", max_size=14), min_size=2, max_size=6)


@given(texts, st.integers(2, 6))
def test_jaccard_against_plain_sets(found, length) -> None:
    def plain(text: str) -> set[bytes]:
        data = f" {text} ".encode()
        # Padding is by characters, as Polars counts them.
        data = f" {text} ".ljust(length).encode()
        return {data[i : i + length] for i in range(len(data) - length + 1)}

    n = len(found)
    one, other = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
    scores = jaccard(pl.Series(found, dtype=pl.String), one, other, length)
    for a, b, score in zip(one, other, scores, strict=True):
        x, y = plain(found[a]), plain(found[b])
        assert score == pytest.approx(len(x & y) / len(x | y))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=8))
def test_no_row_is_lost_and_no_number_merged(make_pool, context, made) -> None:
    questions = [TOM.replace("14", str(n)) + (" Thanks!" if polite else "") for n, polite in made]
    result = run(make_pool, context, questions, [str(n + 3) for n, _ in made])
    assert len(result.kept) + len(result.rejected) == len(made)
    assert len(result.kept) == len({n for n, _ in made})


def test_every_pair_above_the_threshold_is_found(make_pool) -> None:
    questions = [f"{'very ' * (i % 3)}long tale of ship {i // 3} at sea, told again and again"
                 for i in range(300)]  # fmt: skip
    prepared = prepare(make_pool(300, question=questions).frame)
    found = near_pairs(prepared, Near(threshold=0.7))
    one, other = np.triu_indices(300, 1)
    same = prepared["signature"].to_numpy()[one] == prepared["signature"].to_numpy()[other]
    one, other = one[same], other[same]
    scores = jaccard(prepared["words"], other, one, 4)
    expected = {(int(b), int(a)) for a, b, s in zip(one, other, scores, strict=True) if s >= 0.7}
    assert expected
    assert set(zip(found.later.tolist(), found.earlier.tolist(), strict=True)) == expected
    assert found.guarded > 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("Find the area of it", "What is the area of it?", True), ("the radius", "the centre", False)],
)
def test_wording(one, other, same) -> None:
    assert same_wording(one, other) is same
