"""Decoding a batch: left-padded, KV-cached, prompts read once, finished rows dropped."""

from collections.abc import Iterator
from inspect import signature
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from curate.engines.api import Completion, FinishReason, Sampling
from curate.engines.sampling import pick

#: Rows are moved out of the KV cache only when this share of them is done: moving costs a copy.
_COMPACT_AT = 0.5


@torch.inference_mode()
def decode(
    model: Any,
    tokenizer: Any,
    prompts: list[list[int]],
    draws: np.ndarray,
    sampling: Sampling,
    device: str,
) -> list[Completion]:
    """Complete every prompt once.

    Args:
        model: causal language model.
        tokenizer: its tokenizer.
        prompts: token ids; equal neighbours share one prefill.
        draws: uniforms, shape (prompts, max_tokens).
        sampling: settings.
        device: ``cpu`` or ``cuda``.

    Returns:
        One completion per prompt, in order; ``sample`` and ``seconds`` are 0.
    """
    rows = _Rows(tokenizer, prompts, sampling, _ends(model, tokenizer))
    logits, cache, mask, position = _prefill(model, tokenizer, prompts, device)
    uniforms = torch.from_numpy(draws).to(device=device, dtype=torch.float32)
    alive = torch.arange(len(prompts), device=device)
    for step in range(sampling.max_tokens):
        tokens, logs = pick(
            logits.float(), uniforms[alive, step], sampling.temperature, sampling.top_p
        )
        going = rows.take(alive.tolist(), tokens.tolist(), logs.tolist())
        if not any(going) or step + 1 == sampling.max_tokens:
            break
        if sum(going) <= _COMPACT_AT * len(going):
            keep = torch.tensor([i for i, on in enumerate(going) if on], device=device)
            cache.batch_select_indices(keep)
            alive, tokens, mask, position = (x[keep] for x in (alive, tokens, mask, position))
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        position = position + 1
        out = model(
            input_ids=tokens.unsqueeze(-1),
            attention_mask=mask,
            position_ids=position.unsqueeze(-1),
            use_cache=True,
            logits_to_keep=1,
            **{_cache_name(model): cache},
        )
        logits = out.logits[:, -1]
    return list(rows.completions())


class _Rows:
    """What has been generated, by row, and which rows are done."""

    def __init__(
        self,
        tokenizer: Any,
        prompts: list[list[int]],
        sampling: Sampling,
        ends: frozenset[int],
    ) -> None:
        n = len(prompts)
        self.tokenizer, self.sampling, self.ends = tokenizer, sampling, ends
        self.prompt_tokens = [len(prompt) for prompt in prompts]
        self.tokens: list[list[int]] = [[] for _ in range(n)]
        self.logs = [0.0] * n
        self.finish: list[FinishReason | None] = [None] * n
        # A stop string of n characters spans at most 4n tokens of one byte each.
        self.tail = 4 * max((len(stop) for stop in sampling.stop), default=0)

    def take(self, alive: list[int], tokens: list[int], logs: list[float]) -> list[bool]:
        """Add one token to every row that is not done; says which go on."""
        for row, token, log in zip(alive, tokens, logs, strict=True):
            if self.finish[row] is None:
                self.tokens[row].append(token)
                self.logs[row] += log
                if token in self.ends or (self.tail and self._stopped(row)):
                    self.finish[row] = "stop"
        return [self.finish[row] is None for row in alive]

    def completions(self) -> Iterator[Completion]:
        """The rows as completions."""
        texts = self.tokenizer.batch_decode(self.tokens, skip_special_tokens=True)
        for row, text in enumerate(texts):
            cuts = [text.find(stop) for stop in self.sampling.stop if stop in text]
            yield Completion(
                sample=0,
                text=text[: min(cuts)] if cuts else text,
                finish_reason=self.finish[row] or "length",
                prompt_tokens=self.prompt_tokens[row],
                tokens=len(self.tokens[row]),
                logprob_sum=self.logs[row],
                seconds=0.0,
            )

    def _stopped(self, row: int) -> bool:
        text = self.tokenizer.decode(self.tokens[row][-self.tail :], skip_special_tokens=True)
        return any(stop in text for stop in self.sampling.stop)


def _prefill(
    model: Any,
    tokenizer: Any,
    prompts: list[list[int]],
    device: str,
) -> tuple[torch.Tensor, Any, torch.Tensor, torch.Tensor]:
    """Read each run of equal prompts once; last logits, cache, mask and position per prompt."""
    runs: list[list[int]] = []
    sizes: list[int] = []
    for prompt in prompts:
        if runs and runs[-1] == prompt:
            sizes[-1] += 1
        else:
            runs.append(prompt)
            sizes.append(1)
    width = max(map(len, runs))
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    ids = torch.tensor([[pad] * (width - len(run)) + run for run in runs], device=device)
    mask = torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in runs], device=device)
    cache = DynamicCache(config=model.config)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    out = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        use_cache=True,
        logits_to_keep=1,
        **{_cache_name(model): cache},
    )
    repeats = torch.tensor(sizes, device=device)
    place = torch.repeat_interleave(torch.arange(len(runs), device=device), repeats)
    if len(place) > len(runs):
        cache.batch_select_indices(place)
    return out.logits[place, -1], cache, mask[place], positions[place, -1]


def _cache_name(model: Any) -> str:
    """Newer transformers call the argument ``cache``, older ones ``past_key_values``."""
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"


def _ends(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end a completion, by the model's generation settings and its tokenizer."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    ends = configured if isinstance(configured, list) else [configured]
    return frozenset(end for end in (*ends, tokenizer.eos_token_id) if end is not None)
