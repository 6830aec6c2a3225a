"""Dedup: copies go, conflicts are set aside, nothing else is touched."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curate.pipelines.dedup import Dedup
from curate.pipelines.pool import Pool


def run(pool: Pool, context):
    return Dedup().run(pool, context())


def test_a_copy_goes_and_says_of_what(make_pool, context) -> None:
    pool = make_pool(3, question=["What is 1 + 1?", "other", " what  IS 1 + 1?\n"],
                     answer=["2", "2", "2 "])  # fmt: skip
    result = run(pool, context)
    assert list(result.kept.frame["source_id"]) == ["made:1", "made:2"]
    (rejected,) = result.rejected.to_dicts()
    assert rejected["source_id"] == "made:3"
    assert rejected["reason"] == "duplicate"
    assert rejected["detail"] == "copy of made:1"


def test_copies_that_disagree_are_all_set_aside(make_pool, context) -> None:
    pool = make_pool(4, question=["q", "q", "q", "p"], answer=["1", "1", "2", "1"])
    result = run(pool, context)
    assert list(result.kept.frame["question"]) == ["p"]
    assert set(result.rejected["reason"]) == {"conflicting_gold"}
    assert result.rejected["detail"][0] == "3 copies with 2 different golds, first at made:1"


@pytest.mark.parametrize(
    "columns",
    [
        {"system": [None, "Be brief."]},
        {"choices": [["a", "b"], ["b", "a"]]},
        {"question": ["2x + 3 = 7", "2x + 3 = 9"]},
        {"question": ["a-b", "a+b"]},
    ],
)
def test_what_differs_is_no_copy(make_pool, context, columns) -> None:
    base = {"question": ["q", "q"], "answer": ["1", "1"]}
    assert len(run(make_pool(2, **{**base, **columns}), context).kept) == 2


def test_unicode_forms_of_one_text_are_copies(make_pool, context) -> None:
    pool = make_pool(2, question=["café ½", "cafe\u0301 1⁄2"], answer=["1", "1"])
    assert len(run(pool, context).kept) == 1


questions = st.sampled_from(["a", "A ", "b", "c", "C"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(questions, st.sampled_from("12")), min_size=1, max_size=12))
def test_dedup_against_a_plain_loop(make_pool, context, pairs) -> None:
    pool = make_pool(len(pairs), question=[q for q, _ in pairs], answer=[a for _, a in pairs])
    result = run(pool, context)
    groups: dict[str, list[int]] = {}
    for place, (question, _) in enumerate(pairs):
        groups.setdefault(question.strip().lower(), []).append(place)
    kept = sorted(
        places[0] for places in groups.values() if len({pairs[p][1] for p in places}) == 1
    )
    assert list(result.kept.frame["source_id"]) == [f"made:{place + 1}" for place in kept]
    assert len(result.kept) + len(result.rejected) == len(pairs)
    assert Dedup().run(result.kept, context()).rejected.is_empty()
