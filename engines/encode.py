"""Prompts as tokens, for engines that hold the model: rendered once, and none too long."""

from collections.abc import Sequence
from typing import Any

from curate.engines.api import Request, Sampling
from curate.engines.prompts import render
from curate.pipelines.errors import EngineError, PromptTooLong


def encode(
    name: str,
    tokenizer: Any,
    context: int | None,
    requests: Sequence[Request],
    sampling: Sampling,
) -> list[list[int]]:
    """Token ids of every prompt.

    Args:
        name: the model's, for messages.
        tokenizer: its Hugging Face tokenizer.
        context: most tokens of prompt and completion together; None when it has no such limit.
        requests: whose prompts.
        sampling: whose ``max_tokens`` must fit beside each prompt.

    Raises:
        EngineError: ``max_tokens`` alone does not fit the context.
        PromptTooLong: prompts that leave no room for ``max_tokens``.
    """
    texts = [render(tokenizer, request.messages) for request in requests]
    # A template writes its special tokens itself; adding them again would double them.
    special = not tokenizer.chat_template
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=special)["input_ids"]
    if context is None:
        return ids
    limit = context - sampling.max_tokens
    if limit < 1:
        raise EngineError(
            f"{name}: max_tokens {sampling.max_tokens} does not fit its context of "
            f"{context} tokens; lower max_tokens"
        )
    long = [r.key for r, prompt in zip(requests, ids, strict=True) if len(prompt) > limit]
    if long:
        raise PromptTooLong(long, limit)
    return ids
