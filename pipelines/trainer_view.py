"""Exported files as a trainer sees them: how it loads them, what it reads, what it rewards."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from curate.pipelines.errors import UsageError
from curate.pipelines.hub import without_progress_bars
from curate.verifiers import rewards as hooks

Row: TypeAlias = Mapping[str, Any]
Prompt: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a row says.

    Args:
        prompt: (role, content) of each message.
        prompt_id: the pool's id.
        rank: place in the curriculum.
        stage: its stage.
        gold: the reference answer.
        kind: name of the verifier.
        args: the verifier's options.
    """

    prompt: Prompt
    prompt_id: str
    rank: int
    stage: int
    gold: str
    kind: str
    args: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TrainerView:
    """One trainer's way with its files.

    Args:
        together: it loads all files in one call, else one by one and concatenates them.
        see: reads a row; raises KeyError, TypeError or ValueError when it cannot.
        reward: rows and one response each → rewards, None for a verdict of ``error`` where the
            hook tells.
        flat: it takes one user turn, so a system message stands in front of the question.
    """

    together: bool
    see: Callable[[Row], Seen]
    reward: Callable[[Sequence[Row], Sequence[str]], list[float | None]]
    flat: bool = False

    def expected_prompt(self, system: str | None, question: str) -> Prompt:
        """The prompt that a pool row must have become."""
        turns = [("system", system)] if system is not None else []
        if self.flat:
            texts = [text for _, text in (*turns, ("user", question))]
            return (("user", "\n\n".join(texts)),)
        return (*turns, ("user", question))


def load(view: TrainerView, paths: Sequence[Path]) -> tuple[Any, list[Row]]:
    """Load files through ``datasets``, as every one of these trainers does.

    Args:
        view: whose way.
        paths: files of one kind, in order.

    Returns:
        The Arrow schema that ``datasets`` found, and the rows in a sequential sampler's order.

    Raises:
        UsageError: ``datasets`` is not installed.
        ValueError: the files cannot be loaded; the message says why.
    """
    try:
        import datasets
    except ImportError as error:
        raise UsageError(
            "verify-export loads files as trainers do, with the datasets library: "
            "pip install 'datasets>=3.0'"
        ) from error
    loader = {".jsonl": "json"}.get(paths[0].suffix, paths[0].suffix[1:])
    groups = [list(paths)] if view.together else [[path] for path in paths]
    try:
        # A cache of its own: one left from files that have changed since would hide the change.
        with without_progress_bars(), TemporaryDirectory(prefix="curate-verify-") as cache:
            parts = [
                datasets.load_dataset(
                    loader,
                    data_files=[str(path) for path in group],
                    split="train",
                    cache_dir=cache,
                    keep_in_memory=True,
                )
                for group in groups
            ]
            whole = datasets.concatenate_datasets(parts) if len(parts) > 1 else parts[0]
            return whole.features.arrow_schema, whole.to_list()
    except (datasets.exceptions.DatasetsError, OSError, ValueError, TypeError) as error:
        cause = error.__cause__ or error
        raise ValueError(f"{type(cause).__name__}: {cause}") from error


def _chat(messages: Sequence[Row]) -> Prompt:
    return tuple((str(message["role"]), str(message["content"])) for message in messages)


def _args(text: str) -> Mapping[str, object]:
    value = json.loads(text)
    if not isinstance(value, Mapping):
        raise ValueError("verifier options are no JSON object")
    return value


def _placed(prompt: Prompt, label: str, row: Row) -> Seen:
    told = json.loads(label)
    return Seen(
        prompt, row["prompt_id"], row["rank"], row["stage"],
        told["gold"], told["kind"], told["args"],
    )  # fmt: skip


def _see_trl(row: Row) -> Seen:
    return Seen(
        _chat(row["prompt"]), row["prompt_id"], row["rank"], row["stage"],
        row["answer"], row["kind"], _args(row["verifier_args"]),
    )  # fmt: skip


def _see_extra(row: Row, gold: str) -> Seen:
    info = row["extra_info"]
    return Seen(
        _chat(row["prompt"]), info["prompt_id"], info["index"], info["stage"],
        gold, info["kind"], _args(info["verifier_args"]),
    )  # fmt: skip


def _see_prime_rl(row: Row) -> Seen:
    info = json.loads(row["info"])
    return Seen(
        _chat(row["prompt"]), info["prompt_id"], info["rank"], info["stage"],
        row["answer"], info["kind"], info["args"],
    )  # fmt: skip


def _reward_trl(rows: Sequence[Row], responses: Sequence[str]) -> list[float | None]:
    columns = {name: [row[name] for row in rows] for name in rows[0] if name != "prompt"}
    return hooks.trl_reward(
        completions=[[{"role": "assistant", "content": text}] for text in responses],
        prompts=[row["prompt"] for row in rows],
        **columns,
    )


def _reward_verl(rows: Sequence[Row], responses: Sequence[str]) -> list[float | None]:
    scores = [
        hooks.compute_score(
            data_source=row["data_source"],
            solution_str=text,
            ground_truth=row["reward_model"]["ground_truth"],
            extra_info=row["extra_info"],
        )
        for row, text in zip(rows, responses, strict=True)
    ]
    return [None if score["verifier_error"] else score["score"] for score in scores]


def _reward_openrlhf(rows: Sequence[Row], responses: Sequence[str]) -> list[float | None]:
    prompts = [
        "".join(f"<|{role}|>{text}" for role, text in _chat(row["prompt"])) + "<|assistant|>"
        for row in rows
    ]
    queries = [f"{prompt}{text}<|end|>" for prompt, text in zip(prompts, responses, strict=True)]
    found = hooks.reward_func(queries, prompts, [row["label"] for row in rows])
    errors = found["extra_logs"]["verifier_error"].tolist()
    return [None if error else score
            for score, error in zip(found["scores"].tolist(), errors, strict=True)]  # fmt: skip


def _reward_open_instruct(rows: Sequence[Row], responses: Sequence[str]) -> list[float | None]:
    return [
        hooks.open_instruct_score(text, row["ground_truth"])
        for row, text in zip(rows, responses, strict=True)
    ]


def _reward_skyrl(rows: Sequence[Row], responses: Sequence[str]) -> list[float | None]:
    return [hooks.skyrl_reward(text, row) for row, text in zip(rows, responses, strict=True)]


def _reward_nemo_rl(rows: Sequence[Row], responses: Sequence[str]) -> list[float | None]:
    logs = [
        [{"role": "user", "content": row["input"]}, {"role": "assistant", "content": text}]
        for row, text in zip(rows, responses, strict=True)
    ]
    return list(hooks.nemo_rl_rewards(logs, [{"ground_truth": row["output"]} for row in rows]))


def _reward_prime_rl(rows: Sequence[Row], responses: Sequence[str]) -> list[float | None]:
    async def judged() -> list[float]:
        return await asyncio.gather(
            *(
                hooks.verifiers_reward(
                    completion=[{"role": "assistant", "content": text}],
                    answer=row["answer"],
                    info=row["info"],
                )
                for row, text in zip(rows, responses, strict=True)
            )
        )

    return list(asyncio.run(judged()))


VIEWS: dict[str, TrainerView] = {
    "trl": TrainerView(True, _see_trl, _reward_trl),
    "verl": TrainerView(
        False, lambda row: _see_extra(row, row["reward_model"]["ground_truth"]), _reward_verl
    ),
    "openrlhf": TrainerView(
        True, lambda row: _placed(_chat(row["prompt"]), row["label"], row), _reward_openrlhf
    ),
    "open-instruct": TrainerView(
        True,
        lambda row: _placed(_chat(row["messages"]), row["ground_truth"], row),
        _reward_open_instruct,
    ),
    "skyrl": TrainerView(
        False, lambda row: _see_extra(row, row["reward_spec"]["ground_truth"]), _reward_skyrl
    ),
    "nemo-rl": TrainerView(
        False,
        lambda row: _placed((("user", row["input"]),), row["output"], row),
        _reward_nemo_rl,
        flat=True,
    ),
    "prime-rl": TrainerView(True, _see_prime_rl, _reward_prime_rl),
}
