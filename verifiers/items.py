"""Lists, sets and multisets: the right items, no others, in the right order where that counts."""

import re
from fractions import Fraction
from typing import TypeAlias

from curate.verifiers.extract import find, plain, sentences
from curate.verifiers.numbers import decimal, ungroup
from curate.verifiers.text import normalise
from curate.verifiers.verdict import Options, Verdict

Item: TypeAlias = "str | list[Item]"

MAX_DEPTH = 50
_PAIRS = {"[": "]", "(": ")", "{": "}"}
_GROUPED = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?![\d,])")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)])\s+")
_LEAD_IN = re.compile(r"^[^,\[\](){}:=]{1,60}[:=]\s*(?=\S)")


class _TooDeep(ValueError):
    """More nesting than any answer has."""


def check(gold: str, options: Options) -> str | None:
    """The gold must read as a list; brackets must match."""
    try:
        items = _read(gold)
    except _TooDeep:
        return "gold_too_deep"
    if items is None:
        return "gold_not_a_list"
    bracketed = plain(gold)[:1] in _PAIRS
    return None if items or bracketed else "empty_gold"


def judge(gold: str, response: str, options: Options) -> Verdict:
    """Compare the list in the response with the gold's."""
    found = find(response, options)
    if not found.text:
        return Verdict("incorrect", found.reason)
    text = found.text
    if found.answers:
        text = found.rest if found.taken_back else found.answers[0].text
    want = _read(gold) or []
    last: list[Item] | None = None
    for reading in _readings(text, announced=bool(found.answers), strict=options.strict):
        try:
            items = _read(reading)
        except _TooDeep:
            return Verdict("incorrect", "too_deep")
        if items is None:
            continue
        if last is None:
            last = items
        if _same(want, items, options):
            return Verdict("correct", "equal", _show(items))
    if last is None:
        return Verdict("incorrect", "no_list")
    return Verdict("incorrect", "not_equal", _show(last))


def _readings(text: str, *, announced: bool, strict: bool) -> list[str]:
    """Ways to read one answer: as it stands, or without the words around a bracketed list."""
    readings = [text]
    if strict:
        return readings
    lines = [line for line in text.splitlines() if line.strip()]
    bullets = [line for line in lines if _BULLET.match(line)]
    if len(bullets) > 1:
        readings.append("\n".join(_BULLET.sub("", line) for line in bullets))
    elif len(lines) > 1:
        readings.append(lines[0] if announced else lines[-1])
    part = sentences(readings[-1])
    if part and len(bullets) <= 1:
        readings.append(part[0] if announced else part[-1])
    bracketed = re.findall(r"\[[^\[\]]*\]", text)
    if len(bracketed) == 1 and text.count("[") == 1:
        readings.append(bracketed[0])
    stripped = _LEAD_IN.sub("", readings[-1])
    if stripped != readings[-1]:
        readings.append(stripped)
    return readings


def _read(text: str) -> list[Item] | None:
    """Items of a list, bracketed or bare; None when brackets or quotes do not match."""
    words = plain(text) if "\n" not in text.strip() else plain(text.strip().replace("\n", " ; "))
    words = words.strip().rstrip(".")
    words = words.replace("\\{", "{").replace("\\}", "}")
    words = re.sub(r"\s*(?:→|->|=>)\s*", ", ", words)
    if re.fullmatch(r"[-+]?[\d.]+(?: [-+]?[\d.]+)+", words):
        words = words.replace(" ", ", ")
    if words in ("[]", "()", "{}", "none", "empty", "∅", "\\emptyset"):
        return []
    if words[:1] in _PAIRS and _closes(words):
        words = words[1:-1]
        if not words.strip():
            return []
    return _split(words, 0)


def _closes(text: str) -> bool:
    """True when the bracket that opens the text is closed by its last character."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char in "[({") - (char in "])}")
        if not depth:
            return place == len(text) - 1
    return False


def _split(text: str, depth: int) -> list[Item] | None:
    if depth > MAX_DEPTH:
        raise _TooDeep
    pieces = _pieces(text)
    if pieces is None:
        return None
    items: list[Item] = []
    for piece in pieces:
        piece = piece.strip()
        if not piece:
            continue
        if piece[0] in _PAIRS and _closes(piece) and piece[-1] == _PAIRS[piece[0]]:
            inner = _split(piece[1:-1], depth + 1) if piece[1:-1].strip() else []
            if inner is None:
                return None
            if piece[0] != "(" or len(inner) != 1:
                items.append(inner)
                continue
        items.append(piece)
    return items


def _pieces(text: str) -> list[str] | None:
    """Split at top-level separators: semicolons if there are any, else commas and "and"."""
    outside = _outside(text)
    if outside is None:
        return None
    grouped = _thousands(text)
    cuts = [(place, place + 1) for place in outside if text[place] == ";"]
    if not cuts:
        for place in outside:
            if text[place] == "," and place not in grouped:
                cuts.append((place, place + 1))
            elif text[place] == " " and (match := _AND.match(text, place)):
                cuts.append((place, match.end()))
    pieces, start = [], 0
    for begin, end in cuts:
        pieces.append(text[start:begin])
        start = max(start, end)
    pieces.append(text[start:])
    return pieces


def _thousands(text: str) -> set[int]:
    """Places of commas that group digits: where items are told apart by more than a comma."""
    spaced = ", " in text or ";" in text or re.search(r"\s(?:and|or)\s", text)
    if not spaced and (text.count(",") != 1 or not re.search(r"[a-zA-Z]", text)):
        return set()
    return {
        match.start() + offset
        for match in _GROUPED.finditer(text)
        for offset, char in enumerate(match[0])
        if char == ","
    }


def _outside(text: str) -> list[int] | None:
    """Places of semicolons, commas and spaces outside brackets and quotes, if these all match."""
    places: list[int] = []
    depth, quote = 0, ""
    for place, char in enumerate(text):
        if quote:
            if char == quote and not text[place + 1 : place + 2].isalnum():
                quote = ""
        elif char in "'\"" and not text[place - 1 : place].isalnum():
            quote = char
        elif char in "[({":
            depth += 1
        elif char in "])}":
            depth -= 1
            if depth < 0:
                return None
        elif not depth and char in ";, ":
            places.append(place)
    return None if depth or quote else places


_AND = re.compile(r" (?:and|&) ")


def _same(want: list[Item], given: list[Item], options: Options) -> bool:
    if options.ordered is not False:
        return len(want) == len(given) and all(
            _equal(one, other, options) for one, other in zip(want, given, strict=True)
        )
    if options.multiset is False:
        return all(any(_equal(w, g, options) for g in given) for w in want) and all(
            any(_equal(w, g, options) for w in want) for g in given
        )
    if len(want) != len(given):
        return False
    rest = list(given)
    for one in want:
        place = next((i for i, other in enumerate(rest) if _equal(one, other, options)), -1)
        if place < 0:
            return False
        del rest[place]
    return True


def _equal(want: Item, given: Item, options: Options) -> bool:
    if isinstance(want, list) or isinstance(given, list):
        return (
            isinstance(want, list)
            and isinstance(given, list)
            and _same(want, given, Options(rel_tol=options.rel_tol, abs_tol=options.abs_tol))
        )
    one, other = (_number(item.strip("'\" ")) for item in (want, given))
    if one is not None and other is not None:
        if one == other:
            return True
        difference = abs(one - other)
        return difference <= abs(one) * (options.rel_tol or 0) or difference <= (
            options.abs_tol or 0
        )
    sensitive = bool(options.case_sensitive)
    return normalise(want, case_sensitive=sensitive) == normalise(given, case_sensitive=sensitive)


def _number(text: str) -> Fraction | None:
    top, slash, bottom = text.partition("/")
    value = decimal(ungroup(top.strip()))
    if not slash or value is None:
        return value
    divisor = decimal(bottom.strip())
    return value / divisor if divisor else None


def _show(items: list[Item]) -> str:
    shown = ", ".join(
        f"[{_show(item)}]" if isinstance(item, list) else item.strip("'\" ") for item in items
    )
    return shown[:2000]
