"""The engine layer against plain `transformers` `generate`, alternating in one process.

Both get the same prompts in the same batches, in a context where neither has a cache. Greedy, one
completion a prompt: the same tokens are generated, so seconds compare (the run stops if texts
differ). Sampled, eight a prompt: lengths differ by chance, so seconds per token compare.

Run: python benchmarks/engine_overhead.py [--policy tiny|smollm2|FOLDER]
"""

import argparse
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

from curate.engines.api import Message, Request, Sampling
from curate.engines.batching import plan
from curate.engines.decode import _ends
from curate.engines.models import resolve_local
from curate.engines.prompts import render
from curate.engines.transformers_engine import TransformersEngine, choose_device

ROUNDS = 5
BATCH = {"cpu": 64, "cuda": 256}


def requests(n_prompts: int, n: int) -> list[Request]:
    """Sums of growing length, told as the built-in policies know them."""
    asked = [f"{17 * i % 90 + 10} + {31 * i % 90 + 10} = ?" for i in range(n_prompts)]
    return [Request(str(i), (Message("user", text),), n=n) for i, text in enumerate(asked)]


def plain(engine: TransformersEngine, asked: list[Request], sampling: Sampling) -> list[Any]:
    """What a script would do: template, pad, `generate`, decode."""
    model, tokenizer = engine._load()
    made: list[Any] = [None] * len(asked)
    ends = _ends(model, tokenizer)
    for batch in plan(asked, engine.batch_size):
        texts = [render(tokenizer, asked[index].messages) for index in batch]
        inputs = tokenizer(
            texts, return_tensors="pt", padding=True, add_special_tokens=not tokenizer.chat_template
        ).to(engine.device)
        inputs.pop("token_type_ids", None)
        sampled = {"do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 0}
        out = model.generate(
            **inputs,
            max_new_tokens=sampling.max_tokens,
            num_return_sequences=asked[0].n,
            pad_token_id=tokenizer.pad_token_id,
            **(sampled if sampling.temperature else {"do_sample": False}),
        )[:, inputs["input_ids"].shape[1] :]
        texts = tokenizer.batch_decode(out, skip_special_tokens=True)
        for place, index in enumerate(batch):
            rows = slice(place * asked[0].n, (place + 1) * asked[0].n)
            lengths = [_length(tokens, ends) for tokens in out[rows].tolist()]
            made[index] = list(zip(texts[rows], lengths, strict=True))
    return made


def _length(tokens: list[int], ends: frozenset[int]) -> int:
    return next((i + 1 for i, token in enumerate(tokens) if token in ends), len(tokens))


def layered(engine: TransformersEngine, asked: list[Request], sampling: Sampling) -> list[Any]:
    """The same through the engine."""
    return [[(c.text, c.tokens) for c in row] for row in engine.generate(asked, sampling)]


def timed(run: Callable[..., list[Any]], *given: Any) -> tuple[float, int, list[list[str]]]:
    """Seconds, tokens, texts."""
    started = perf_counter()
    made = run(*given)
    seconds = perf_counter() - started
    tokens = sum(length for row in made for _, length in row)
    return seconds, tokens, [[text for text, _ in row] for row in made]


def main() -> None:
    """Print both series and their ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--policy", default="tiny")
    parser.add_argument("--prompts", type=int, default=128)
    parser.add_argument("--max-tokens", type=int, default=48)
    given = parser.parse_args()
    device = choose_device(None)
    engine = TransformersEngine(resolve_local(given.policy), device, BATCH[device])
    for label, n, temperature in (("greedy, n=1", 1, 0.0), ("sampled, n=8", 8, 1.0)):
        asked = requests(given.prompts, n)
        # Plain `generate` takes whole prompts; batches must hold as many sequences for both.
        sampling = Sampling(temperature=temperature, max_tokens=given.max_tokens)
        timed(layered, engine, asked, sampling), timed(plain, engine, asked, sampling)
        ratios, per_token = [], {"generate": [], "engine": []}  # type: ignore[var-annotated]
        for _ in range(ROUNDS):
            theirs = timed(plain, engine, asked, sampling)
            ours = timed(layered, engine, asked, sampling)
            if temperature == 0 and ours[2] != theirs[2]:
                raise SystemExit("the two do not generate the same texts")
            per_token["generate"].append(theirs[0] / theirs[1] * 1e3)
            per_token["engine"].append(ours[0] / ours[1] * 1e3)
            ratios.append(per_token["engine"][-1] / per_token["generate"][-1])
        middle = {name: statistics.median(values) for name, values in per_token.items()}
        print(
            f"{given.policy} on {device}, {label}: generate {middle['generate']:.3f} ms/token, "
            f"engine {middle['engine']:.3f} ms/token, ratio {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
