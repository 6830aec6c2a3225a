"""The transformers engine against transformers itself, and against its own promises."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from curate.engines.api import Message, Request, Sampling
from curate.engines.models import ModelRef, resolve_model
from curate.engines.prompts import render
from curate.engines.transformers_engine import TransformersEngine, choose_device
from curate.pipelines.errors import EngineError, PromptTooLong, UsageError

QUESTIONS = ["What is 1 + 1?", "What is 23 + 456?", "A box has 3 pens.", "?", "Which is 7 + 2?"]
SAMPLING = Sampling(temperature=1.0, max_tokens=12, seed=3)


def requests(n: int = 1, questions: list[str] = QUESTIONS) -> list[Request]:
    return [Request(f"key-{q}", (Message("user", q),), n) for q in questions]


def texts(answers: list[list]) -> list[list[str]]:
    return [[c.text for c in completions] for completions in answers]


def test_greedy_equals_generate(engine, random_model: ModelRef) -> None:
    model = AutoModelForCausalLM.from_pretrained(random_model.folder, dtype=torch.float32)
    tokens = AutoTokenizer.from_pretrained(random_model.folder)
    made = engine.generate(requests(), Sampling(temperature=0, max_tokens=12))
    for request, completions in zip(requests(), made, strict=True):
        ids = tokens(
            render(tokens, request.messages), add_special_tokens=False, return_tensors="pt"
        )
        out = model.generate(**ids, max_new_tokens=12, do_sample=False)
        expected = tokens.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
        assert completions[0].text == expected
        assert completions[0].prompt_tokens == ids["input_ids"].shape[1]


def test_a_completion_depends_on_no_neighbour_order_or_batch_size(random_model) -> None:
    whole = texts(TransformersEngine(random_model, "cpu", 64).generate(requests(3), SAMPLING))
    for size in (1, 4):
        small = TransformersEngine(random_model, "cpu", size)
        assert texts(small.generate(requests(3)[::-1], SAMPLING))[::-1] == whole
    alone = TransformersEngine(random_model, "cpu", 8)
    assert texts(alone.generate(requests(3)[2:3], SAMPLING)) == whole[2:3]


def test_samples_can_be_added_later(engine) -> None:
    whole = texts(engine.generate(requests(4), SAMPLING))
    late = [replace(r, n=2, first_sample=2) for r in requests()]
    made = engine.generate(late, SAMPLING)
    assert texts(made) == [four[2:] for four in whole]
    assert [c.sample for c in made[0]] == [2, 3]


def test_samples_differ_and_seeds_matter(engine) -> None:
    made = engine.generate(requests(4), SAMPLING)
    assert all(len({c.text for c in completions}) > 1 for completions in made)
    assert texts(engine.generate(requests(4), replace(SAMPLING, seed=4))) != texts(made)


def test_log_probabilities_are_those_of_a_forward_pass(engine, random_model) -> None:
    model = AutoModelForCausalLM.from_pretrained(random_model.folder, dtype=torch.float32)
    tokens = AutoTokenizer.from_pretrained(random_model.folder)
    request = requests(1, ["What is 23 + 456?"])
    for sampling in (SAMPLING, Sampling(temperature=0.5, top_p=0.8, max_tokens=12)):
        made = engine.generate(request, sampling)[0][0]
        prompt = tokens(render(tokens, request[0].messages), add_special_tokens=False)["input_ids"]
        chosen = tokens(made.text, add_special_tokens=False)["input_ids"]
        if len(chosen) < made.tokens:
            chosen.append(tokens.eos_token_id)
        with torch.no_grad():
            logits = model(torch.tensor([prompt + chosen])).logits[0, len(prompt) - 1 : -1]
        logs = torch.log_softmax(logits, -1).gather(-1, torch.tensor(chosen).unsqueeze(-1))
        assert made.logprob_sum == pytest.approx(float(logs.sum()), abs=1e-3)


def test_lengths_and_finish_reasons(engine) -> None:
    for completion in engine.generate(requests(), SAMPLING)[0]:
        assert completion.tokens <= 12
        if completion.finish_reason == "length":
            assert completion.tokens == 12
        assert completion.seconds > 0


def test_a_stop_string_ends_a_completion_and_is_not_in_it(engine) -> None:
    plain = engine.generate(requests(), Sampling(temperature=0, max_tokens=12))[1][0].text
    stop = plain[3:5]
    made = engine.generate(requests(), Sampling(temperature=0, max_tokens=12, stop=(stop,)))
    assert made[1][0].text == plain[: plain.find(stop)]
    assert made[1][0].finish_reason == "stop"
    assert made[1][0].tokens < 12


def test_the_template_is_applied_once(engine) -> None:
    tokens = engine._load()[1]
    ids = engine._encode(requests(), SAMPLING)
    assert all(prompt.count(tokens.bos_token_id) == 1 for prompt in ids)
    assert tokens.decode(ids[0]) == "<s>Q: What is 1 + 1?\nA: "


def test_batches_are_told_as_they_are_done(engine) -> None:
    told: list[int] = []
    made = engine.generate(requests(4), SAMPLING, lambda indices, batch: told.extend(indices))
    assert sorted(told) == list(range(len(QUESTIONS)))
    assert len(made) == len(QUESTIONS)


def test_too_long_prompts_are_named_and_nothing_is_generated(engine) -> None:
    asked = requests(1, ["x" * 500, "What is 1 + 1?", "y" * 501])
    with pytest.raises(PromptTooLong) as error:
        engine.generate(asked, SAMPLING, lambda *_: pytest.fail("generated"))
    assert error.value.keys == [asked[0].key, asked[2].key]
    assert error.value.limit == 384 - 12
    with pytest.raises(EngineError, match="max_tokens 384 does not fit its context of 384"):
        engine.generate(requests(), Sampling(max_tokens=384))


def test_batches_are_halved_while_memory_runs_out(engine, monkeypatch) -> None:
    whole = texts(engine.generate(requests(4), SAMPLING))
    real, sizes = engine._batch, []

    def small_memory(asked, prompts, rows, sampling):
        sizes.append(len(rows))
        if len(rows) > 3:
            raise torch.OutOfMemoryError("no room")
        return real(asked, prompts, rows, sampling)

    monkeypatch.setattr(engine, "_batch", small_memory)
    assert texts(engine.generate(requests(4), SAMPLING)) == whole
    assert max(sizes) > 3


def test_one_completion_that_does_not_fit_says_so(engine, monkeypatch) -> None:
    def no_memory(*_):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(engine, "_batch", no_memory)
    with pytest.raises(EngineError, match="out of memory on one completion of prompt key-"):
        engine.generate(requests(), SAMPLING)


def test_a_broken_model_is_named(broken) -> None:
    engine = TransformersEngine(resolve_model(str(broken)), "cpu", 8)
    with pytest.raises(EngineError, match="cannot be loaded"):
        engine.generate(requests(), SAMPLING)


def test_devices() -> None:
    assert choose_device("cpu") == "cpu"
    with pytest.raises(UsageError, match="give cpu or cuda"):
        choose_device("tpu")
    if torch.cuda.is_available():
        assert choose_device(None) == "cuda"
    else:
        assert choose_device(None) == "cpu"
        with pytest.raises(UsageError, match="no CUDA device"):
            choose_device("cuda")
