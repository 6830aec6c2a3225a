"""The chat-completions protocol: what is sent, and what the answers and refusals mean.

Servers differ in what they take and in how they refuse; everything known of that is here.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from curate.engines.api import Completion, FinishReason, Message, Sampling, Structure
from curate.engines.server import ServerRef
from curate.pipelines.errors import UsageError

#: Some servers keep seeds in 32 signed bits.
_SEED_BITS = 31
#: A vLLM server lays the model's own generation_config.json under each request; these undo it.
_NEUTRAL: Mapping[str, float] = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
_FINISH: Mapping[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    # No tool was offered: the model ended its turn in a way of its own.
    "tool_calls": "stop",
    "function_call": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    # Cut by the server, not ended by the model: counted as truncated.
    "content_filter": "length",
}
_TOO_LONG = re.compile(
    r"context[ _](length|size|window)|maximum (model|input|prompt|sequence) length|max_model_len"
    r"|(prompt|input)\b.{0,40}\btoo long",
    re.IGNORECASE | re.DOTALL,
)
_CONTEXT = re.compile(
    r"(?:context (?:length|size|window)|model length)\D{0,20}?(\d[\d,]*)", re.IGNORECASE
)

#: What reading a body of any content may raise.
_ODD = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_MOST_TOKENS = 1 << 31


class Unusable(Exception):
    """A reply that is not a whole answer; asking again may help."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error reply, read.

    Args:
        message: the server's words.
        param: the parameter it blames, or "".
        code: its error code, or "".
    """

    message: str
    param: str
    code: str

    def blames(self, names: Sequence[str]) -> str | None:
        """The one of ``names`` it is about, or None."""
        if self.param:
            return self.param if self.param in names else None
        return next((n for n in names if re.search(rf"\b{n}\b", self.message)), None)

    @property
    def too_long(self) -> bool:
        """Whether prompt and ``max_tokens`` together do not fit the context."""
        return self.code == "context_length_exceeded" or bool(_TOO_LONG.search(self.message))

    @property
    def context(self) -> int | None:
        """The context's size in tokens, where the message tells it."""
        found = _CONTEXT.search(self.message)
        return int(found[1].replace(",", "")) if found else None


def payload(
    server: ServerRef, messages: Sequence[Message], sampling: Sampling, seed: int
) -> dict[str, Any]:
    """The body of one request for one completion.

    Args:
        server: whom it goes to.
        messages: chat turns.
        sampling: settings; all are sent, so that the server's defaults decide nothing.
        seed: of this completion.

    Raises:
        UsageError: this server cannot hold a completion to the form asked for.
    """
    body: dict[str, Any] = {
        "model": server.model,
        "messages": [{"role": m.role, "content": m.content} for m in messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": seed & (1 << _SEED_BITS) - 1,
        "logprobs": True,
    }
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if server.vllm:
        body |= _NEUTRAL
    if sampling.structure:
        body |= _structure(server, sampling.structure)
    return body


def droppable(body: Mapping[str, Any]) -> list[str]:
    """Parameters that can be left out without changing what is drawn from which distribution."""
    names = [name for name in ("logprobs", "seed", *_NEUTRAL) if name in body]
    return [*names, "top_p"] if body.get("top_p") == 1 else names


def read_refusal(text: str) -> Refusal:
    """Read an error body: OpenAI's, vLLM's, FastAPI's, or whatever it is."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return Refusal(text, "", "")
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return Refusal(str(error), "", "")
    detail = error.get("detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        place = detail[0].get("loc") or [""]
        return Refusal(str(detail[0].get("msg")), str(place[-1]), "")
    message = error.get("message") or detail or text
    return Refusal(str(message), str(error.get("param") or ""), str(error.get("code") or ""))


def read_completion(text: str, sample: int, max_tokens: int) -> Completion:
    """Read a reply with one choice.

    ``text`` is the message's content: a server that splits reasoning off keeps it out. A finish
    reason that is missing or unknown is "length" when ``max_tokens`` were generated.

    Raises:
        Unusable: no JSON, cut short, no choice, no token counts, or aborted by the server.
    """
    try:
        body = json.loads(text)
        choice = body["choices"][0]
        content = choice["message"].get("content") or ""
        usage = body.get("usage") or {}
        told_tokens, told_prompt = usage.get("completion_tokens"), usage.get("prompt_tokens")
        told = choice.get("finish_reason")
        logs = (choice.get("logprobs") or {}).get("content")
    except _ODD as error:
        raise Unusable(f"no whole answer ({type(error).__name__}: {error})") from None
    if not isinstance(content, str):
        raise Unusable("no whole answer (its content is no text)")
    tokens, prompt_tokens = _count(told_tokens), _count(told_prompt)
    reason = told if isinstance(told, str) else ""
    if reason in {"abort", "error"}:
        raise Unusable(f"the server gave it up (finish_reason {reason})")
    ended: FinishReason = "length" if tokens >= max_tokens else "stop"
    return Completion(
        sample=sample,
        # A lone surrogate, which JSON can spell, is no text that can be stored.
        text=content.encode("utf-8", "replace").decode("utf-8"),
        finish_reason=_FINISH.get(reason, ended),
        prompt_tokens=prompt_tokens,
        tokens=tokens,
        logprob_sum=_logprob_sum(logs, tokens),
        seconds=0.0,
    )


def retry_after(value: str | None, now: datetime | None = None) -> float:
    """Seconds a ``Retry-After`` header asks for (a number or a date); 0 when it asks for nothing.

    >>> retry_after("1.5"), retry_after("soon"), retry_after(None)
    (1.5, 0.0, 0.0)
    """
    if not value:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = parsedate_to_datetime(value)
        except ValueError:
            return 0.0
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        seconds = (when - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def _structure(server: ServerRef, structure: Structure) -> dict[str, Any]:
    if not server.vllm:
        if structure.json_schema is None:
            raise UsageError(
                f"policy {server.name}: only vLLM servers hold answers to a regex or a choice"
            )
        schema = json.loads(structure.json_schema)
        form = {"name": "answer", "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    if structure.json_schema is not None:
        return {"structured_outputs": {"json": json.loads(structure.json_schema)}}
    if structure.regex is not None:
        return {"structured_outputs": {"regex": structure.regex}}
    return {"structured_outputs": {"choice": list(structure.choice or ())}}


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS:
        return value
    raise Unusable('no token counts in its "usage", without which nothing can be measured')


def _logprob_sum(logs: object, tokens: int) -> float | None:
    # Some servers leave the end-of-sequence token out of the list but not out of the count.
    if not isinstance(logs, list) or not tokens - 1 <= len(logs) <= tokens:
        return None
    values = [entry.get("logprob") if isinstance(entry, dict) else None for entry in logs]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    whole = len(numbers) == len(values) and all(map(math.isfinite, numbers))
    return math.fsum(numbers) if whole else None
