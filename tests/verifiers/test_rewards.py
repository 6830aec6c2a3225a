"""Reward hooks: right earns 1, wrong earns 0, and a verdict of error never earns anything."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from curate.pipelines.errors import UsageError
from curate.verifiers.rewards import (
    compute_score,
    label,
    labelled,
    nemo_rl_rewards,
    open_instruct_score,
    reward_func,
    skyrl_reward,
    text_of,
    trl_reward,
    verifiers_reward,
)

CHOICE = json.dumps({"options": {"A": "red", "B": "blue"}})
#: gold, kind, options, response, reward
CASES = [
    ("12", "math", "{}", "So it is \\boxed{12}.", 1.0),
    ("12", "math", "{}", "So it is \\boxed{13}.", 0.0),
    ("B", "choice", CHOICE, "The answer is (B).", 1.0),
    ("B", "choice", CHOICE, "The answer is red.", 0.0),
    ("3 km", "quantity", '{"rel_tol": 0.01}', "3010 m", 1.0),
    ("x^2+2x+1", "math", "{}", "(x+1)^2", 1.0),
    ("Z", "choice", CHOICE, "The answer is Z.", None),  # no such option: an unusable gold
]


def columns() -> dict[str, list[str]]:
    names = ("answer", "kind", "verifier_args")
    return {name: [case[place] for case in CASES] for place, name in enumerate(names)}


WANTED = [case[4] for case in CASES]
#: Where a trainer cannot skip a completion.
ZEROED = [reward or 0.0 for reward in WANTED]


def test_trl_gets_none_where_the_verifier_cannot_judge() -> None:
    texts = [case[3] for case in CASES]
    chats = [[{"role": "assistant", "content": text}] for text in texts]
    more = {"prompts": texts, "completion_ids": [[0]] * len(texts), "rank": list(range(7))}
    assert trl_reward(completions=texts, **columns(), **more) == WANTED
    assert trl_reward(completions=chats, **columns(), **more) == WANTED


def test_verl_gets_the_same_keys_for_every_row() -> None:
    found = [
        compute_score("curate", text, gold, {"kind": kind, "verifier_args": args})
        for gold, kind, args, text, _ in CASES
    ]
    assert [row["score"] for row in found] == ZEROED
    assert [row["verifier_error"] for row in found] == [float(r is None) for r in WANTED]
    assert {tuple(row) for row in found} == {("score", "acc", "verifier_error")}
    with pytest.raises(UsageError, match="kind"):
        compute_score("curate", "1", "1")


@pytest.mark.parametrize("end", ["", "<|im_end|>", "</s>", "<|eot_id|>\n<pad>", "<｜end▁s｜>"])
def test_openrlhf_judges_what_follows_the_prompt(end) -> None:
    prompt = "<|user|>Is it \\boxed{12}? Answer: B<|assistant|>"
    labels = [label(gold, kind, args) for gold, kind, args, _, _ in CASES]
    queries = [prompt + case[3] + end for case in CASES]
    found = reward_func(queries, [prompt] * len(CASES), labels, datasource="x")
    assert found["rewards"].tolist() == found["scores"].tolist() == ZEROED
    assert found["extra_logs"]["verifier_error"].tolist() == [float(r is None) for r in WANTED]


def test_the_hooks_that_take_a_label() -> None:
    labels = [label(gold, kind, args) for gold, kind, args, _, _ in CASES]
    texts = [case[3] for case in CASES]
    assert [open_instruct_score(t, one) for t, one in zip(texts, labels, strict=True)] == ZEROED
    logs = [[{"role": "user", "content": "?"}, {"role": "assistant", "content": t}] for t in texts]
    assert nemo_rl_rewards(logs, [{"ground_truth": one} for one in labels]) == ZEROED


def test_skyrl_reads_the_rows_own_fields() -> None:
    found = [
        skyrl_reward(
            text + "<|im_end|>",
            {
                "reward_spec": {"method": "rule", "ground_truth": gold},
                "extra_info": {"kind": kind, "verifier_args": args},
            },
        )
        for gold, kind, args, text, _ in CASES
    ]
    assert found == ZEROED


def test_the_rubric_takes_info_as_text_or_parsed_and_many_at_once() -> None:
    async def all_at_once(parse) -> list[float]:
        return await asyncio.gather(
            *(
                verifiers_reward(
                    [{"role": "assistant", "content": text}],
                    gold,
                    parse(json.dumps({"kind": kind, "args": json.loads(args)})),
                    state={},
                )
                for gold, kind, args, text, _ in CASES
            )
        )

    assert asyncio.run(all_at_once(str)) == asyncio.run(all_at_once(json.loads)) == ZEROED


def test_hooks_may_be_called_from_many_threads() -> None:
    texts = [case[3] for case in CASES]
    with ThreadPoolExecutor(8) as threads:
        runs = [threads.submit(trl_reward, completions=texts, **columns()) for _ in range(16)]
        assert all(run.result() == WANTED for run in runs)


def test_a_label_keeps_gold_kind_and_options() -> None:
    row = labelled(label("„ä“", "text", '{"aliases": ["a"]}'), "a")
    assert (row.gold, row.kind, row.options) == ("„ä“", "text", {"aliases": ["a"]})


@pytest.mark.parametrize("text", ["42", "not json", "[]", '{"gold": "1"}', "null"])
def test_a_label_of_something_else_is_refused(text) -> None:
    with pytest.raises(UsageError, match="label"):
        open_instruct_score("42", text)


def test_options_that_are_no_object_are_refused() -> None:
    with pytest.raises(UsageError, match="not an object"):
        trl_reward(completions=["1"], answer=["1"], kind=["math"], verifier_args=["[1]"])


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("a", "a"),
        ([], ""),
        ([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "a"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}], "ab"),
        ([{"role": "assistant", "content": None}], ""),
    ],
)
def test_the_text_of_a_completion(completion, text) -> None:
    assert text_of(completion) == text


def test_a_completion_of_another_type_is_refused() -> None:
    with pytest.raises(UsageError, match="int"):
        text_of(3)
