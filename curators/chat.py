"""Chat-shaped prompts: the system message, and the one user turn that asks."""

from collections.abc import Sequence

import orjson

from curate.pipelines.readers import Problem


def turns(value: object) -> list[tuple[str, str]] | None:
    """(role, content) turns of a chat, as a list or as JSON text of one; None if it is neither."""
    if isinstance(value, str) and value.lstrip().startswith("[{"):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        return None
    found = []
    for turn in value:
        if not isinstance(turn, dict):
            return None
        role, content = turn.get("role", turn.get("from")), turn.get("content", turn.get("value"))
        if not isinstance(role, str) or not isinstance(content, str):
            return None
        found.append((_ROLES.get(role, role), content))
    return found


def ask(chat: list[tuple[str, str]], field: str) -> tuple[str | None, str] | Problem:
    """System message and question of a chat; a trailing assistant turn is the answer, not asked."""
    system = "\n\n".join(content for role, content in chat if role == "system") or None
    rest = [(role, content) for role, content in chat if role != "system"]
    if rest and rest[-1][0] == "assistant":
        rest.pop()
    if len(rest) != 1 or rest[0][0] != "user":
        roles = ", ".join(role for role, _ in chat)
        return Problem("several_turns", field, f"expected one user turn, found {roles}")
    return system, rest[0][1]


_ROLES = {"human": "user", "gpt": "assistant"}
