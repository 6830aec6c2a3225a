"""One row of a file of rollouts → the rollouts it tells of, or why it cannot be used."""

from math import isfinite
from typing import Any, NamedTuple, TypeAlias

from curate.curators.chat import ask, turns
from curate.pipelines.readers import Problem

Record: TypeAlias = dict[str, Any]

_QUESTIONS = ("question", "problem", "prompt", "messages", "query")
_POLICIES = ("policy", "model")
_RESPONSES = (
    "response", "responses", "completion", "completions", "solution", "generation", "output",
    "outputs", "text",
)  # fmt: skip
#: Column → whole numbers only, and the largest its column of the ledger holds.
_SAMPLING = {
    "seed": (True, 2**63),
    "temperature": (False, None),
    "top_p": (False, None),
    "max_tokens": (True, 2**31),
}
_OF_ONE = {
    "sample": (True, 2**31),
    "prompt_tokens": (True, 2**31),
    "tokens": (True, 2**31),
    "logprob_sum": (False, None),
}


class ToldRollout(NamedTuple):
    """A rollout as a file tells it; what it does not tell is None."""

    policy: str
    response: str
    prompt_id: str | None
    question: str | None
    finish_reason: str | None
    seed: int | None
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    sample: int | None
    prompt_tokens: int | None
    tokens: int | None
    logprob_sum: float | None


def told_rollouts(record: Record) -> list[ToldRollout] | Problem:
    """The rollouts of a row: one policy's (long shape) or several policies' (wide shape)."""
    asked = _asked(record)
    if isinstance(asked, Problem):
        return asked
    named = next((name for name in _POLICIES if record.get(name) is not None), None)
    if named is None:
        policies = [(name, value) for name, value in record.items() if _holds_response(value)]
    elif isinstance(record[named], str) and record[named].strip():
        policies = [(record[named].strip(), record)]
    else:
        return Problem("no_policy", named, "a policy's name is text")
    if not policies:
        return Problem(
            "no_policy", None,
            f"neither {' nor '.join(_POLICIES)}, nor an object with a response under a policy's "
            "name",
        )  # fmt: skip
    found = list[ToldRollout]()
    for policy, part in policies:
        told = _rollouts(policy, part, asked)
        if isinstance(told, Problem):
            return told
        found += told
    return found


def _asked(record: Record) -> tuple[str | None, str | None] | Problem:
    """Prompt id and question; at least one of them."""
    key = record.get("prompt_id")
    key = key.strip() if isinstance(key, str) and key.strip() else None
    name = next((name for name in _QUESTIONS if record.get(name) is not None), None)
    if name is None:
        return (key, None) if key else Problem(
            "missing_question", None, f"none of prompt_id, {', '.join(_QUESTIONS)}"
        )  # fmt: skip
    chat = turns(record[name])
    if chat is not None:
        question = ask(chat, name)
        return question if isinstance(question, Problem) else (key, question[1])
    if not isinstance(record[name], str):
        return Problem("bad_type", name, f"expected text, found {type(record[name]).__name__}")
    return key, record[name]


def _rollouts(
    policy: str, part: Record, asked: tuple[str | None, str | None]
) -> list[ToldRollout] | Problem:
    name = next((name for name in _RESPONSES if part.get(name) is not None), None)
    if name is None:
        return Problem("missing_response", None, f"{policy}: none of {', '.join(_RESPONSES)}")
    given = part[name] if isinstance(part[name], list) else [part[name]]
    responses = [_response(value) for value in given]
    # What is told once of several responses (their tokens, say) is true of none of them.
    columns = _SAMPLING if len(given) > 1 else {**_SAMPLING, **_OF_ONE}
    numbers = dict[str, Any]()
    for column in (*_SAMPLING, *_OF_ONE):
        whole, limit = columns.get(column, (False, None))
        value = part.get(column) if column in columns else None
        if value is not None and not _fits(value, whole, limit):
            return Problem("bad_type", column, f"{value!r} cannot be a rollout's {column}")
        numbers[column] = value
    finish = part.get("finish_reason") if len(given) == 1 else None
    found = list[ToldRollout]()
    for response in responses:
        if response is None:
            return Problem("missing_response", name, f"{policy}: a response is text")
        ended = finish if finish in {"stop", "length"} else None
        found.append(ToldRollout(policy, response, *asked, ended, **numbers))
    return found


def _response(value: object) -> str | None:
    if isinstance(value, dict):
        value = next((value[name] for name in _RESPONSES if value.get(name) is not None), None)
    return value if isinstance(value, str) else None


def _holds_response(value: object) -> bool:
    return isinstance(value, dict) and any(isinstance(value.get(n), str) for n in _RESPONSES)


def _fits(value: object, whole: bool, limit: int | None) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return False
    return (not whole or float(value).is_integer()) and (limit is None or -limit <= value < limit)
