"""One row of a file of rollouts → the rollouts it tells of, or why it cannot be used."""

import re
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

from curate.curators.chat import ask, turns
from curate.pipelines.readers import Problem

Record: TypeAlias = dict[str, Any]

_QUESTIONS = ("question", "problem", "prompt", "messages", "query")
_POLICIES = ("policy", "model")
_RESPONSES = (
    "response", "responses", "completion", "completions", "solution", "generation", "output",
    "outputs",
)  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: Column → whole numbers only, and what they must be below. Only log-probabilities are negative.
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
    revision: str | None
    template: str | None
    verifier_version: str | None
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
    else:
        policies = [(record[named], record)]
    if not policies:
        return Problem(
            "no_policy", None,
            f"neither {' nor '.join(_POLICIES)}, nor an object with a response under a policy's "
            "name",
        )  # fmt: skip
    found = list[ToldRollout]()
    for policy, part in policies:
        if not isinstance(policy, str) or not policy.strip() or _CONTROL.search(policy):
            return Problem("no_policy", named, "a policy's name is text in one line")
        told = _rollouts(policy.strip(), part, asked)
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
    if not given:
        return Problem("missing_response", name, f"{policy}: an empty list")
    responses = [_response(value) for value in given]
    # What is told once of several responses (their tokens, say) is true of none of them.
    columns = _SAMPLING if len(given) > 1 else {**_SAMPLING, **_OF_ONE}
    told = dict[str, Any]()
    for column in (*_SAMPLING, *_OF_ONE):
        whole, limit = columns.get(column, (False, None))
        value = part.get(column) if column in columns else None
        if value is not None and not _fits(value, whole, limit):
            return Problem("bad_type", column, f"{value!r} cannot be a rollout's {column}")
        told[column] = value
    for column in ("revision", "template", "verifier_version"):
        told[column] = part.get(column) if isinstance(part.get(column), str) else None
    finish = part.get("finish_reason") if len(given) == 1 else None
    ended = finish if isinstance(finish, str) and finish in {"stop", "length"} else None
    found = list[ToldRollout]()
    for response in responses:
        if response is None:
            return Problem("missing_response", name, f"{policy}: a response is text")
        if not all(map(_encodable, (policy, response, *asked, *told.values()))):
            return Problem("bad_encoding", name, f"{policy}: holds half a surrogate pair")
        found.append(ToldRollout(policy, response, *asked, ended, **told))
    return found


def _response(value: object) -> str | None:
    if isinstance(value, dict):
        inner = (value.get(name) for name in (*_RESPONSES, "text"))
        value = next((text for text in inner if text is not None), None)
    return value if isinstance(value, str) else None


def _holds_response(value: object) -> bool:
    return isinstance(value, dict) and any(isinstance(value.get(n), str) for n in _RESPONSES)


def _fits(value: object, whole: bool, limit: int | None) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return False
    return (not whole or float(value).is_integer()) and (limit is None or 0 <= value < limit)


def _encodable(value: object) -> bool:
    return not isinstance(value, str) or not any(
        "\ud800" <= character <= "\udfff" for character in value
    )
