"""Which column is taken for what: found again whatever stands beside it."""

from hypothesis import given
from hypothesis import strategies as st

from curate.curators.rows import Columns, Draft, draft
from curate.pipelines.columns import taken

RECOGNISED = Columns(None, None, None, None, None)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(
    question=st.sampled_from(["question", "problem", "query", "input"]),
    answer=st.sampled_from(["answer", "final_answer", "ground_truth", "target", "label"]),
    gold=st.sampled_from(["7", 7, "so \\boxed{7}", "#### 7", ["7"], ["7", "8"], "yes", True]),
    beside=st.dictionaries(st.from_regex(r"x_[a-z]{1,4}", fullmatch=True), JSON, max_size=4),
)
def test_question_and_answer_are_found_beside_anything(question, answer, gold, beside) -> None:
    record = {**beside, question: "How many?", answer: gold}
    assert isinstance(draft(record, RECOGNISED), Draft)
    assert taken(record, RECOGNISED) == {"question": question, "answer": answer}


@given(answer=st.integers(0, 1), by=st.sampled_from(["index", "letter", "text"]))
def test_options_are_told_from_the_answer(answer, by) -> None:
    texts = ["red", "blue"]
    gold = {"index": answer, "letter": "AB"[answer], "text": texts[answer]}[by]
    for options in (texts, "|".join(texts), {"A": texts[0], "B": texts[1]}):
        record = {"question": "Which?", "choices": options, "answer": gold}
        found = taken(record, RECOGNISED)
        assert found.pop("choices").split(" + ")[0].split(".")[0] == "choices"
        assert found == {"question": "question", "answer": "answer"}


def test_a_row_is_left_as_it_was() -> None:
    record = {"question": "1?", "reward_model": {"ground_truth": "1"}, "tags": ["a"]}
    copy = {"question": "1?", "reward_model": {"ground_truth": "1"}, "tags": ["a"]}
    assert taken(record, RECOGNISED)["answer"] == "reward_model.ground_truth"
    assert record == copy
