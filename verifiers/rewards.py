"""Reward functions in the shape each trainer calls, all judged through ``curate.verifiers.api``.

Every hook reads gold, kind and options from the row that the matching shard carries. A verdict
``correct`` is 1.0 and ``incorrect`` 0.0. ``error`` (the gold cannot be used, or a limit was hit)
is never a reward: it is None where a trainer can skip a completion, and 0.0 beside a count where
it cannot. Hooks may be called from any thread, and whatever needs a computer algebra system runs
in a killable process.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from curate.pipelines.errors import UsageError
from curate.verifiers.api import Row, verify_many

#: What decoding may leave after a response: end-of-turn and padding tokens.
_MARKS = re.compile(
    r"(?:\s*(?:<[|｜][^<>\s]{1,40}[|｜]>|</?s>|<eos>|<pad>|<(?:start|end)_of_turn>))+\s*$"
)


def label(gold: str, kind: str, args: str) -> str:
    """Everything a verifier needs as one JSON text, for trainers that pass on a single label.

    Args:
        gold: the reference answer.
        kind: name of a verifier.
        args: the verifier's options as JSON object text.

    >>> label("3 km", "quantity", '{"rel_tol": 0.01}')
    '{"args": {"rel_tol": 0.01}, "gold": "3 km", "kind": "quantity"}'
    """
    value = {"args": json.loads(args), "gold": gold, "kind": kind}
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def labelled(text: str, response: str) -> Row:
    """The row to judge from a label made by ``label``.

    Raises:
        UsageError: the text is no such label.
    """
    try:
        value = json.loads(text)
        gold, kind, args = value["gold"], value["kind"], value["args"]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"label {text[:60]!r} is not one that `curate` wrote; point the trainer's label "
            "column at the shard's"
        ) from error
    return Row(str(kind), str(gold), response, _arguments(args))


def rewards(rows: Sequence[Row], *, workers: int = 2) -> list[float | None]:
    """1.0, 0.0 or, for ``error`` verdicts, None; one a row, in order.

    Args:
        rows: what to judge.
        workers: verifier processes.

    Raises:
        UsageError: a kind or an option is unknown.
    """
    values = {"correct": 1.0, "incorrect": 0.0}
    return [values.get(verdict.value) for verdict in verify_many(rows, workers=workers)]


def trl_reward(
    completions: Sequence[object],
    answer: Sequence[str],
    kind: Sequence[str],
    verifier_args: Sequence[str],
    **columns: object,
) -> list[float | None]:
    """Reward function for TRL: ``GRPOTrainer(reward_funcs=trl_reward, …)``.

    Args:
        completions: texts, or lists of chat messages of which the last is judged.
        answer: the dataset's column of golds.
        kind: the dataset's column of verifiers.
        verifier_args: the dataset's column of options, JSON object texts.
        **columns: whatever else TRL passes.

    Returns:
        One value a completion; TRL leaves out those that are None.
    """
    rows = [
        Row(kind_, gold, text_of(completion), _arguments(args))
        for completion, gold, kind_, args in zip(
            completions, answer, kind, verifier_args, strict=True
        )
    ]
    return rewards(rows)


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    **kwargs: object,
) -> dict[str, float]:
    """Reward function for verl: ``custom_reward_function.name=compute_score``.

    Args:
        data_source: ignored.
        solution_str: the response.
        ground_truth: the gold.
        extra_info: the shard's struct, of which ``kind`` and ``verifier_args`` are read.
        **kwargs: whatever else verl passes.

    Returns:
        ``score`` (the reward), ``acc`` and ``verifier_error``, always all three.

    Raises:
        UsageError: ``extra_info`` lacks what tells how to judge.
    """
    info = extra_info or {}
    if "kind" not in info:
        raise UsageError("extra_info lacks 'kind': the row is not from a verl shard of `curate`")
    row = Row(info["kind"], ground_truth, solution_str, _arguments(info.get("verifier_args")))
    (value,) = rewards([row])
    score = value or 0.0
    return {"score": score, "acc": score, "verifier_error": float(value is None)}


def reward_func(
    queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str], **kwargs: object
) -> dict[str, Any]:
    """Reward function for OpenRLHF: the file that ``--reward.remote_url`` names imports it.

    Args:
        queries: prompt and response as one text, special tokens included.
        prompts: the prompts, chat template applied.
        labels: the shard's ``label`` column.
        **kwargs: whatever else OpenRLHF passes.

    Returns:
        ``rewards`` and ``scores`` (float tensors, one a query) and ``extra_logs``.
    """
    import torch

    rows = [
        labelled(text, _after(query, prompt))
        for query, prompt, text in zip(queries, prompts, labels, strict=True)
    ]
    values = rewards(rows)
    scores = torch.tensor([value or 0.0 for value in values], dtype=torch.float32)
    errors = torch.tensor([float(value is None) for value in values])
    return {
        "rewards": scores,
        "scores": scores.clone(),
        "extra_logs": {"accuracy": scores, "verifier_error": errors},
    }


def open_instruct_score(prediction: str, label_: str) -> float:
    """Score for an open-instruct ``VerifierFunction``.

    Args:
        prediction: the decoded response.
        label_: the shard's ``ground_truth``.
    """
    (value,) = rewards([labelled(label_, prediction)])
    return value or 0.0


def skyrl_reward(action: str, extras: Mapping[str, Any]) -> float:
    """Reward for a SkyRL text environment's ``step``.

    Args:
        action: the response.
        extras: the row's other columns, of which ``reward_spec`` and ``extra_info`` are read.
    """
    info = extras["extra_info"]
    row = Row(
        info["kind"],
        extras["reward_spec"]["ground_truth"],
        _unmarked(action),
        _arguments(info["verifier_args"]),
    )
    (value,) = rewards([row])
    return value or 0.0


def nemo_rl_rewards(
    message_logs: Sequence[Sequence[Mapping[str, Any]]], metadata: Sequence[Mapping[str, Any]]
) -> list[float]:
    """Rewards for a NeMo-RL environment's ``step``.

    Args:
        message_logs: one conversation a sample; its assistant messages are judged together.
        metadata: one mapping a sample, of which ``ground_truth`` (the shard's ``output``) is read.
    """
    rows = [
        labelled(
            info["ground_truth"],
            "".join(str(message["content"]) for message in log if message["role"] == "assistant"),
        )
        for log, info in zip(message_logs, metadata, strict=True)
    ]
    return [value or 0.0 for value in rewards(rows)]


async def verifiers_reward(
    completion: object, answer: str, info: Mapping[str, Any] | str, **kwargs: object
) -> float:
    """Rubric function for the ``verifiers`` library and prime-rl.

    Args:
        completion: text, or chat messages of which the last is judged.
        answer: the gold.
        info: the shard's ``info``, as JSON text or parsed, with ``kind`` and ``args``.
        **kwargs: whatever else a rubric passes.
    """
    told = json.loads(info) if isinstance(info, str) else info
    row = Row(told["kind"], answer, text_of(completion), _arguments(told.get("args")))
    # Judging may wait for a process; the rollouts that share this event loop must not.
    (value,) = await asyncio.to_thread(rewards, [row])
    return value or 0.0


def text_of(completion: object) -> str:
    """The text that a completion says: itself, or its last message's content.

    Raises:
        UsageError: it is neither text nor chat messages.
    """
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Sequence) and completion:
        last = completion[-1]
        content = last.get("content") if isinstance(last, Mapping) else getattr(last, "content", "")
        if isinstance(content, Sequence) and not isinstance(content, str):
            return "".join(
                str(part.get("text", "")) for part in content if isinstance(part, Mapping)
            )
        return "" if content is None else str(content)
    if completion == [] or completion is None:
        return ""
    raise UsageError(f"a completion is neither text nor messages but {type(completion).__name__}")


def _arguments(args: object) -> Mapping[str, object]:
    """Verifier options from JSON object text or a mapping."""
    value = json.loads(args) if isinstance(args, str) else args
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UsageError(f"verifier options are not an object but {type(value).__name__}")
    return value


def _after(query: str, prompt: str) -> str:
    """The response: what follows the prompt, without the marks of its end."""
    _, found, rest = query.partition(prompt)
    return _unmarked(rest if found else query)


def _unmarked(text: str) -> str:
    return _MARKS.sub("", text)
