"""JSON: equal as values, types and all, however it is laid out or wrapped in prose."""

import ast
import json
import math
import re
from decimal import Decimal
from typing import Any

from curate.verifiers.extract import find
from curate.verifiers.verdict import Options, Verdict

MAX_DEPTH = 100
#: Longer texts are not tried as Python literals.
MAX_PYTHON = 20_000
_MARK = re.compile(r'[][{}()"]')
_STRING = re.compile(r'"(?:[^"\\]+|\\.)*+"?', re.DOTALL)
_FENCE = re.compile(r"```[ \t]*([A-Za-z0-9_+-]*)[ \t]*\n?")


class _Bad(ValueError):
    """Not acceptable JSON."""


def check(gold: str, options: Options) -> str | None:
    """The gold must be JSON in full."""
    try:
        _load(gold, strict=True)
    except _Bad:
        return "gold_not_json"
    return None


def judge(gold: str, response: str, options: Options) -> Verdict:
    """Compare the JSON value in the response with the gold."""
    found = find(response, options)
    if not found.text:
        return Verdict("incorrect", found.reason)
    want = _load(gold, strict=True)
    value, problem = _find(found.text, options)
    if problem and found.answers:
        value, problem = _find(found.answers[0].text, options)
    if problem:
        return Verdict("incorrect", problem)
    extracted = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)[:2000]
    if _equal(want, value, options):
        return Verdict("correct", "equal", extracted)
    return Verdict("incorrect", "not_equal", extracted)


def _find(text: str, options: Options) -> tuple[Any, str]:
    """The value a text holds: all of it, its last JSON fence, or its last bracketed part."""
    problem = "no_json"
    for piece in _pieces(text.strip()):
        try:
            return _load(piece, strict=options.strict), ""
        except _Bad as error:
            problem = str(error)
            if problem != "no_json":
                break
    return None, problem


def _pieces(text: str) -> list[str]:
    pieces = [text]
    if text[:1] not in ("{", "[", '"'):
        fences = list(_FENCE.finditer(text))
        blocks = [
            (opening[1].lower(), text[opening.end() : closing.start()].strip())
            for opening, closing in zip(fences[::2], fences[1::2], strict=False)
        ]
        tagged = [body for language, body in blocks if language in ("json", "jsonc", "json5")]
        untagged = [
            # A one-line fence may run its first word into the language slot.
            body if body[:1] in ("{", "[") else language + body
            for language, body in blocks
            if language in ("", "text", "txt") or body[:1] in ("{", "[")
        ]
        pieces += tagged[-1:] or untagged[-1:]
        if not tagged and not untagged:
            pieces += _bracketed(text)[-1:]
    return pieces


def _bracketed(text: str) -> list[str]:
    """Outermost balanced ``{…}`` and ``[…]`` of a text, strings respected, in one pass."""
    found: list[str] = []
    depth = start = place = 0
    while match := _MARK.search(text, place):
        place = match.end()
        if match[0] == '"':
            # Outside brackets a quotation mark is prose.
            place = _end_of_string(text, match.start()) if depth else place
        elif match[0] in "{[":
            start = start if depth else match.start()
            depth += 1
        elif match[0] in "}]" and depth:
            depth -= 1
            if not depth:
                found.append(text[start:place])
    return found


def _end_of_string(text: str, start: int) -> int:
    match = _STRING.match(text, start)
    return match.end() if match else len(text)


def _load(text: str, *, strict: bool) -> Any:
    text = text.strip()
    _check_depth(text)
    try:
        return json.loads(
            text,
            parse_int=_integer,
            parse_constant=_constant,
            object_pairs_hook=_unique if strict else None,
        )
    except _Bad:
        raise
    except (ValueError, RecursionError):
        if strict or ("'" not in text and "True" not in text):
            raise _Bad("no_json") from None
    if len(text) > MAX_PYTHON:
        raise _Bad("no_json")
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        raise _Bad("no_json") from None
    if not isinstance(value, dict | list):
        raise _Bad("no_json")
    return value


def _check_depth(text: str) -> None:
    depth = place = 0
    while match := _MARK.search(text, place):
        place = match.end()
        if match[0] == '"':
            place = _end_of_string(text, match.start())
        elif match[0] in "[{(":
            depth += 1
            if depth > MAX_DEPTH:
                raise _Bad("too_deep")
        else:
            depth -= 1


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < 4000 else Decimal(text)


def _constant(text: str) -> float:
    raise _Bad("not_a_json_number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise _Bad("duplicate_key")
    return dict(pairs)


def _equal(want: Any, given: Any, options: Options) -> bool:
    if isinstance(want, dict) and isinstance(given, dict):
        return want.keys() == given.keys() and all(
            _equal(value, given[key], options) for key, value in want.items()
        )
    if isinstance(want, list) and isinstance(given, list):
        if len(want) != len(given):
            return False
        if options.ordered is False:
            return _same_items(want, given, options)
        return all(_equal(one, other, options) for one, other in zip(want, given, strict=True))
    if _is_number(want) and _is_number(given):
        return _same_number(want, given, options)
    if isinstance(want, str) and isinstance(given, str):
        return want == given or (
            options.case_sensitive is False and want.casefold() == given.casefold()
        )
    return type(want) is type(given) and bool(want == given)


def _same_items(want: list[Any], given: list[Any], options: Options) -> bool:
    rest = list(given)
    for one in want:
        place = next((i for i, other in enumerate(rest) if _equal(one, other, options)), -1)
        if place < 0:
            return False
        del rest[place]
    return True


def _same_number(want: Any, given: Any, options: Options) -> bool:
    if want == given:
        return True
    if options.rel_tol is None and options.abs_tol is None:
        return False
    try:
        return math.isclose(
            float(want), float(given), rel_tol=options.rel_tol or 0.0,
            abs_tol=options.abs_tol or 0.0,
        )  # fmt: skip
    except OverflowError:
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
