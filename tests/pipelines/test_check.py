"""Check: nothing unusable gets a rollout."""

import pytest

from curate.pipelines.check import Check

FAULTS = {
    "empty question": ({"question": [" "]}, "empty_question", "question"),
    "long question": ({"question": ["x" * 20_001]}, "too_long", "question"),
    "control characters": ({"question": ["a\x00b"]}, "bad_text", "question"),
    "replacement character": ({"question": ["caf\ufffd"]}, "bad_text", "question"),
    "damaged gold": ({"answer": ["1\x07"]}, "bad_text", "answer"),
    "unknown kind": ({"kind": ["maths"]}, "unknown_kind", "kind"),
    "empty gold": ({"answer": [" "]}, "bad_gold", "answer"),
    "prose as gold": ({"answer": ["word " * 500]}, "bad_gold", "answer"),
    "doubled option": (
        {"kind": ["choice"], "answer": ["A"], "choices": [["x", "x "]]}, "bad_choices", "choices",
    ),
    "letter without an option": (
        {"kind": ["choice"], "answer": ["E"], "choices": [["x", "y"]]}, "bad_gold", "answer",
    ),
    "boolean that is none": (
        {"kind": ["boolean"], "answer": ["perhaps later"]}, "bad_gold", "answer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_fault(make_pool, context, case) -> None:
    columns, reason, field = FAULTS[case]
    result = Check().run(make_pool(1, **columns), context())
    assert len(result.kept) == 0
    (rejected,) = result.rejected.to_dicts()
    assert (rejected["reason"], rejected["field"]) == (reason, field), rejected


def test_sound_prompts_pass_in_their_order(make_pool, context) -> None:
    pool = make_pool(
        4,
        answer=["12", r"\frac{1}{2}", "B", "yes"],
        kind=["math", "math", "choice", "boolean"],
        choices=[None, None, ["x", "y"], None],
    )
    result = Check().run(pool, context())
    assert result.rejected.is_empty(), result.rejected.to_dicts()
    assert result.kept.frame.equals(pool.frame)


def test_one_fault_a_row_and_no_row_lost(make_pool, context) -> None:
    pool = make_pool(6, question=["", "ok", "a\x00", "ok 2", "ok 3", "ok 4"],
                     answer=["", "1", "", "maybe?\x00", "2", "3"])  # fmt: skip
    result = Check().run(pool, context())
    assert list(result.kept.frame["question"]) == ["ok", "ok 3", "ok 4"]
    assert len(result.rejected) == 3


def test_real_golds_are_usable_but_for_a_few(shared, context) -> None:
    from curate.curators.qa import QuestionAnswer
    from curate.pipelines.pool import Pool
    from curate.pipelines.sources import open_source

    for name, most in (("gsm8k/test.jsonl", 0), ("math/math500.json", 5)):
        ctx = context(source=open_source(str(shared / "data" / name)))
        pool = QuestionAnswer().run(Pool.empty(), ctx).kept
        assert len(Check().run(pool, ctx).rejected) <= most
