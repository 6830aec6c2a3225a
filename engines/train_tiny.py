"""Train the built-in policy ``tiny``: ``python -m curate.engines.train_tiny [FOLDER]``.

A character-level Llama on graded arithmetic (``engines/arithmetic.py``), stopped long before it
has learnt everything: a policy whose pass rates spread over 0…1 shows what a curriculum is for.
Deterministic given seed, torch version and thread count; some minutes on 2 cores.
"""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from curate.engines.arithmetic import WORDS, held_out, problem

SEED = 0
STEPS = 430
BATCH = 192
PIECE = 48
PEAK_RATE = 2e-3
WARM_UP = 60
CONTEXT = 384
#: Larger problems are drawn more rarely, so that they stay hard.
SHARES = {
    "sum-1": 2, "sum-2": 4, "sum-3": 4, "sum-4": 2, "difference-1": 2, "difference-2": 3,
    "difference-3": 2, "product-1": 2, "product-2": 2, "steps-1": 3, "steps-2": 2, "choice-1": 2,
}  # fmt: skip
SYSTEM = "Give the answer after ####."
TEMPLATE = (
    "{{ bos_token }}"
    "{% for m in messages %}"
    "{% if m['role'] == 'system' %}S: {{ m['content'] }}\n"
    "{% elif m['role'] == 'user' %}Q: {{ m['content'] }}\n"
    "{% else %}A: {{ m['content'] }}{{ eos_token }}\n{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}A: {% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """One token a character (newline and printable ASCII), or a word the problems are made of."""
    specials = ["<pad>", "<s>", "</s>", "<unk>"]
    characters = ["\n", *(chr(code) for code in range(32, 127))]
    words = sorted(WORDS, key=lambda word: (-len(word), word))
    vocabulary = {token: index for index, token in enumerate([*specials, *characters, *words])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    longest_first = "|".join([*map(re.escape, words), r"[\s\S]"])
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(longest_first), "isolated")
    inner.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", model_max_length=CONTEXT, padding_side="left",
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    made.chat_template = TEMPLATE
    return made


def network(vocabulary: int) -> LlamaForCausalLM:
    """The untrained model: 3 layers, width 128."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary, hidden_size=128, intermediate_size=352, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=CONTEXT,
            tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=0,
        )
    )  # fmt: skip


def draw(rng: np.random.Generator, tokens: PreTrainedTokenizerFast) -> list[tuple[list[int], int]]:
    """``BATCH`` token rows, shortest first, each with the length of its prompt."""
    names = list(SHARES)
    shares = np.array(list(SHARES.values())) / sum(SHARES.values())
    rows: list[tuple[list[int], int]] = []
    for family in rng.choice(names, size=BATCH, p=shares):
        found = problem(str(family), rng)
        while held_out(found.question):
            found = problem(str(family), rng)
        system = f"S: {SYSTEM}\n" if rng.random() < 0.1 else ""
        prompt = encode(tokens, f"<s>{system}Q: {found.question}\nA: ")
        rows.append((prompt + encode(tokens, f"{found.worked}</s>"), len(prompt)))
    return sorted(rows, key=lambda row: len(row[0]))


def padded(rows: list[tuple[list[int], int]]) -> dict[str, torch.Tensor]:
    """Ids, mask and labels, shape (rows, longest); prompts carry no loss."""
    shape = len(rows), max(len(ids) for ids, _ in rows)
    ids, labels = torch.zeros(shape, dtype=torch.long), torch.full(shape, -100)
    for row, (text, start) in enumerate(rows):
        ids[row, : len(text)] = torch.tensor(text)
        labels[row, start : len(text)] = ids[row, start : len(text)]
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


def encode(tokens: PreTrainedTokenizerFast, text: str) -> list[int]:
    """Ids of a text, special tokens as written."""
    ids: list[int] = tokens(text, add_special_tokens=False)["input_ids"]
    return ids


def train(folder: Path) -> None:
    """Train and save weights, tokenizer and configuration to ``folder``."""
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    tokens = tokenizer()
    model = network(len(tokens)).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, weight_decay=0.01)
    schedule: Any = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1, (step + 1) / WARM_UP) * (1 - step / STEPS)
    )
    for step in range(STEPS):
        rows = draw(rng, tokens)
        optimiser.zero_grad()
        total = 0.0
        # In pieces of similar length, for less padding.
        for start in range(0, BATCH, PIECE):
            loss = model(**padded(rows[start : start + PIECE])).loss * PIECE / BATCH
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step} of {STEPS}: loss {total:.3f}", flush=True)  # noqa: T201
    model.to(torch.bfloat16).save_pretrained(folder)
    tokens.save_pretrained(folder)


if __name__ == "__main__":
    train(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "tiny"))
