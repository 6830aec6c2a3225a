"""The qa curator: the field's shapes recognised, everything unusable rejected with its place."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curate.curators.qa import QuestionAnswer
from curate.pipelines.errors import ConfigError
from curate.pipelines.pool import Pool
from curate.pipelines.sources import open_source


@pytest.fixture
def curate(tmp_path, context):
    def curate(rows: list[dict], **settings: object):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        ctx = context(source=open_source(str(path)))
        result = QuestionAnswer(**settings).run(Pool.empty(), ctx)
        assert result.read == len(rows) == len(result.kept) + len(result.rejected)
        return result

    return curate


SHAPES = {
    "gsm8k": (
        {"question": "How many?", "answer": "3+4=<<3+4=7>>7 so\n#### 1,207"},
        {"question": "How many?", "answer": "1207", "kind": "math",
         "solutions": [{"strategy": "source", "text": "3+4=<<3+4=7>>7 so"}]},
    ),
    "math": (
        {"problem": "Half?", "solution": r"It is $\boxed{\frac{1}{2}}$ of it.", "level": "Level 1",
         "type": "Algebra"},
        {"question": "Half?", "answer": r"\frac{1}{2}", "kind": "math", "topic": "Algebra",
         "metadata": '{"level":"Level 1"}'},
    ),
    "deepscaler": (
        {"problem": "Half?", "answer": r"\frac12", "solution": "long"},
        {"question": "Half?", "answer": r"\frac12", "kind": "math",
         "solutions": [{"strategy": "source", "text": "long"}]},
    ),
    "verl": (
        {"data_source": "openai/gsm8k", "prompt": [{"role": "system", "content": "Be brief."},
         {"role": "user", "content": "6*7?"}], "ability": "math",
         "reward_model": {"style": "rule", "ground_truth": "42"}, "extra_info": {"index": 0}},
        {"question": "6*7?", "system": "Be brief.", "answer": "42", "kind": "math",
         "source": "openai/gsm8k"},
    ),
    "trl": (
        {"prompt": [{"role": "user", "content": "6*7?"}], "solution": r"\boxed{42}"},
        {"question": "6*7?", "answer": "42", "kind": "math"},
    ),
    "open-instruct": (
        {"messages": [{"role": "user", "content": "6*7?"}, {"role": "assistant", "content": "?"}],
         "ground_truth": "42", "dataset": "gsm8k"},
        {"question": "6*7?", "answer": "42", "source": "gsm8k"},
    ),
    "mmlu": (
        {"question": "Which is red?", "choices": ["sky", "blood"], "answer": 1},
        {"question": "Which is red?\nA. sky\nB. blood", "answer": "B", "kind": "choice",
         "choices": ["sky", "blood"], "format": "choice"},
    ),
    "arc": (
        {"question": "Which?", "choices": {"text": ["a", "b"], "label": ["A", "B"]},
         "answerKey": "B"},
        {"answer": "B", "kind": "choice", "choices": ["a", "b"]},
    ),
    "options by letter": (
        {"question": "Which?", "options": {"A": "one", "B": "two"}, "answer": "two"},
        {"answer": "B", "kind": "choice", "choices": ["one", "two"]},
    ),
    "lettered columns": (
        {"question": "Which?", "A": "one", "B": "two", "C": "three", "answer": "C"},
        {"answer": "C", "kind": "choice", "choices": ["one", "two", "three"]},
    ),
    "text before index": (
        {"question": "2+1?", "choices": ["1", "2", "3"], "answer": "3"},
        {"answer": "C", "kind": "choice"},
    ),
    "inline options": (
        {"question": "Which?\n(A) one\n(B) two", "answer": "(B)"},
        {"question": "Which?\n(A) one\n(B) two", "answer": "B", "choices": ["one", "two"]},
    ),
    "boolean": ({"question": "Is it?", "answer": True}, {"answer": "true", "kind": "boolean"}),
    "yes": ({"question": "Is it?", "answer": "Yes"}, {"answer": "yes", "kind": "boolean"}),
    "words": ({"question": "Where?", "answer": "Paris"}, {"answer": "Paris", "kind": "text"}),
    "number": ({"question": "6*7?", "answer": 42}, {"answer": "42", "kind": "math"}),
    "float from a column with gaps": (
        {"question": "6*7?", "answer": 42.0}, {"answer": "42", "kind": "math"},
    ),
    "a list": (
        {"question": "Which primes?", "answer": [2, 3]}, {"answer": "[2,3]", "kind": "items"},
    ),
    "license": (
        {"question": "6*7?", "answer": "42", "license": "MIT", "subject": "arithmetic"},
        {"license": "MIT", "domain": "arithmetic"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_shape(curate, shape) -> None:
    row, expected = SHAPES[shape]
    result = curate([row])
    assert result.rejected.is_empty(), result.rejected.to_dicts()
    found = result.kept.frame.row(0, named=True)
    assert {name: found[name] for name in expected} == expected
    assert found["source_id"] == "rows.jsonl:1"


UNUSABLE = {
    "no question": ({"answer": "1"}, "missing_question", None),
    "null question": ({"question": None, "answer": "1"}, "missing_question", "question"),
    "blank question": ({"question": "  ", "answer": "1"}, "missing_question", "question"),
    "question is a number": ({"question": 5, "answer": "1"}, "bad_type", "question"),
    "no answer": ({"question": "q"}, "missing_answer", None),
    "null answer": ({"question": "q", "answer": None}, "missing_answer", "answer"),
    "nothing after the mark": ({"question": "q", "answer": "so ####"}, "missing_answer", "answer"),
    "unmarked solution": (
        {"question": "q", "solution": "a long proof that ends without a box or mark"},
        "missing_answer", "solution",
    ),
    "letter out of range": (
        {"question": "q", "choices": ["a", "b"], "answer": "C"}, "bad_choices", "answer",
    ),
    "index out of range": (
        {"question": "q", "choices": ["x", "y"], "answer": 2}, "bad_choices", "answer",
    ),
    "one choice": ({"question": "q", "choices": ["x"], "answer": 0}, "bad_choices", "choices"),
    "choices are no list": (
        {"question": "q", "choices": 5, "answer": 0}, "bad_choices", "choices",
    ),
    "answer is two options": (
        {"question": "q", "choices": ["x", "x"], "answer": "x"}, "bad_choices", "answer",
    ),
    "several turns": (
        {"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                    {"role": "user", "content": "c"}], "answer": "1"},
        "several_turns", "prompt",
    ),
    "half a surrogate": ({"question": "\ud800", "answer": "1"}, "bad_encoding", None),
}  # fmt: skip


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_unusable_row_is_rejected_with_its_place(curate, case) -> None:
    row, reason, field = UNUSABLE[case]
    result = curate([{"question": "1+1?", "answer": "2"}, row])
    (rejected,) = result.rejected.to_dicts()
    assert rejected["reason"] == reason, rejected
    assert rejected["field"] == field
    assert rejected["source_id"] == "rows.jsonl:2"
    assert rejected["step"] == "qa"
    assert rejected["detail"]
    assert json.loads(rejected["record"])


def test_columns_can_be_named(curate) -> None:
    rows = [{"q": "6*7?", "meta": {"gold": "42"}, "verifier": "text"}]
    frame = curate(rows, question="q", answer="meta.gold", kind="verifier").kept.frame
    assert frame.select("question", "answer", "kind").row(0) == ("6*7?", "42", "text")


def test_a_kind_for_every_row(curate) -> None:
    assert list(curate([{"question": "q", "answer": "12"}], kind="text").kept.frame["kind"]) == [
        "text"
    ]


def test_the_system_message_fills_only_where_there_is_none(curate) -> None:
    chat = [{"role": "system", "content": "own"}, {"role": "user", "content": "q"}]
    rows = [{"prompt": chat, "answer": "1"}, {"prompt": "q", "answer": "1"}]
    assert list(curate(rows, system="given").kept.frame["system"]) == ["own", "given"]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"question": "questoin"}, "--question 'questoin'.*did you mean 'question'"),
        ({"answer": "gold"}, "--answer 'gold'.*found: question, answer"),
        ({"kind": "maths"}, "--kind 'maths'.*did you mean 'math'"),
    ],
)
def test_a_wrong_column_or_kind_is_bad_usage_that_suggests(curate, settings, message) -> None:
    with pytest.raises(ConfigError, match=message):
        curate([{"question": "q", "answer": "1"}], **settings)


def test_a_row_naming_an_unknown_verifier_is_rejected(curate) -> None:
    result = curate([{"question": "q", "answer": "1", "k": "maths"}], kind="k")
    assert list(result.rejected["reason"]) == ["unknown_kind"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner,
                                                               max_size=3),
    max_leaves=6,
)  # fmt: skip
names = st.sampled_from(
    ["question", "problem", "prompt", "answer", "solution", "choices", "options", "reward_model",
     "A", "B", "license", "x"]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.lists(st.dictionaries(names, values, max_size=5), min_size=1, max_size=6))
def test_no_row_is_lost_whatever_it_holds(curate, rows) -> None:
    result = curate(rows)
    places = [*result.kept.frame["source_id"], *result.rejected["source_id"]]
    assert sorted(places) == sorted(f"rows.jsonl:{i + 1}" for i in range(len(rows)))


@pytest.mark.parametrize(
    "name, rows, kept, kinds",
    [
        ("gsm8k/train.jsonl.gz", 3000, 3000, {"math"}),
        ("gsm8k/test.jsonl", 659, 659, {"math"}),
        ("math/math500.json", 500, 500, {"math"}),
        ("math/math_train_2000.jsonl.gz", 2000, 1999, {"math", "text", "choice"}),
        ("passrates/rl_epochs_prompts.parquet", 1209, 1208, {"math", "choice"}),
        ("bbeh/mini.jsonl.gz", 460, 460, {"math", "text", "choice", "boolean"}),
    ],
)
def test_real_sources_are_recognised(
    shared: Path, context, name: str, rows: int, kept: int, kinds: set[str]
) -> None:
    ctx = context(source=open_source(str(shared / "data" / name)))
    result = QuestionAnswer().run(Pool.empty(), ctx)
    assert (result.read, len(result.kept)) == (rows, kept)
    assert set(result.kept.frame["kind"]) == kinds
    assert result.kept.frame["answer"].str.len_chars().min() > 0


def test_real_gsm8k_golds_are_what_follows_the_mark(shared: Path, context) -> None:
    source = open_source(str(shared / "data/gsm8k/test.jsonl"))
    frame = QuestionAnswer().run(Pool.empty(), context(source=source)).kept.frame
    lines = (shared / "data/gsm8k/test.jsonl").read_text().splitlines()
    golds = [json.loads(line)["answer"].split("####")[1].strip().replace(",", "") for line in lines]
    assert list(frame["answer"]) == golds
    assert frame.filter(pl.col("solutions").list.len() == 1).height == len(golds)
