"""Choosing tokens: greedy, nucleus, and the distribution itself."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from curate.engines.sampling import pick

LOGITS = st.lists(st.floats(-8, 8), min_size=2, max_size=12)


@given(LOGITS, st.floats(0, 1, exclude_max=True), st.floats(0.1, 3), st.floats(0.05, 1))
def test_only_tokens_of_the_nucleus(logits, draw, temperature, top_p) -> None:
    values = torch.tensor([logits])
    token, log = pick(values, torch.tensor([draw]), temperature, top_p)
    chances = torch.softmax(values.double() / temperature, -1)[0]
    likelier = chances[chances > chances[token[0]] + 1e-6].sum()
    assert likelier < top_p + 1e-4
    expected = torch.log_softmax(values, -1)[0, token[0]]
    torch.testing.assert_close(log[0], expected)


@given(LOGITS, st.floats(0, 1, exclude_max=True))
def test_temperature_zero_is_the_likeliest(logits, draw) -> None:
    token, _ = pick(torch.tensor([logits]), torch.tensor([draw]), 0, 1.0)
    values = torch.tensor(logits)
    assert values[int(token)] == values.max()


def test_frequencies_are_the_softmax() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0])
    n = 20_000
    draws = torch.tensor((np.arange(n) + 0.5) / n, dtype=torch.float32)
    tokens, _ = pick(logits.expand(n, -1), draws, 0.7, 1.0)
    found = np.bincount(tokens.numpy(), minlength=4) / n
    np.testing.assert_allclose(found, torch.softmax(logits / 0.7, -1).numpy(), atol=1e-3)


def test_masked_tokens_are_never_chosen() -> None:
    logits = torch.tensor([[float("-inf"), 0.0, float("-inf")]]).expand(3, -1)
    tokens, _ = pick(logits, torch.tensor([0.0, 0.5, 0.9999999]), 1.0, 1.0)
    assert tokens.tolist() == [1, 1, 1]
