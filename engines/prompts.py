"""From chat messages to the text a model reads: its template once, or a plain one."""

from collections.abc import Sequence
from typing import Any

from curate.engines.api import Message


def render(tokenizer: Any, messages: Sequence[Message]) -> str:
    """The prompt's text, special tokens written out.

    Args:
        tokenizer: a Hugging Face tokenizer; without a chat template the prompt is
            ``Question: … Answer:``, which base models continue.
        messages: chat turns.
    """
    if not tokenizer.chat_template:
        system = [m.content for m in messages if m.role == "system"]
        rest = [m.content for m in messages if m.role != "system"]
        return "\n\n".join([*system, f"Question: {rest[-1]}\nAnswer:"])
    import jinja2

    try:
        return _templated(tokenizer, messages)
    except jinja2.TemplateError:
        # Some templates refuse a system turn; its words then open the first user turn.
        return _templated(tokenizer, _folded(messages))


def _templated(tokenizer: Any, messages: Sequence[Message]) -> str:
    turns = [{"role": m.role, "content": m.content} for m in messages]
    text: str = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return text


def _folded(messages: Sequence[Message]) -> list[Message]:
    system = [m.content for m in messages if m.role == "system"]
    rest = [m for m in messages if m.role != "system"]
    if not system or not rest:
        return list(messages)
    return [Message(rest[0].role, "\n\n".join([*system, rest[0].content])), *rest[1:]]
