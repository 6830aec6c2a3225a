"""How the text of an answer may be read as mathematics: as it stands, or without words and units.

The readings of one answer come most literal first; the first that parses in full is what the
answer says. None of them skips over mathematics: only words, units and currency are left out.
"""

import re

from curate.verifiers.extract import Found, sentences

#: Longer answers are read only as they stand.
MAX_CHARS = 1_500
#: Only so much of a sentence is searched for a number.
MAX_PROSE = 2_000

_SPAN = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_CONNECTIVE = re.compile(r"[\s,;]*(?:(?:,|;)?\s*(?:and|or|und|oder|et|ou|y|o|和|或)?)?[\s,;]*")
_MONEY = re.compile(r"(?:\\?\$|€|£|¥|₹|\\pounds|\\euro|USD|EUR|Rs\.?)\s*(?=[-+]?[\d.])")
_MONEY_AFTER = re.compile(r"(?<=[\d])\s*(?:\\?\$|€|£|¥|₹)(?!\w)")

#: Number-like pieces in prose: decimals, fractions, mixed numbers, percent, multiples of pi.
_NUMBER = re.compile(
    r"(?P<sign>[-+])?"
    r"(?:\\[dt]?frac\s*(?:\{[^{}]*\}|\d)\s*(?:\{[^{}]*\}|\d)"
    r"|(?:\d{1,3}(?:,(?:\\!)?\d{3})+(?!\d)|\d{1,3}(?: \d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?"
    r"(?:\s+\d+/\d+|\s*/\s*\d+(?!\.?\d))?|\.\d+)"
    r"(?:\s*(?:\\%|%)|\s*(?:\\pi|π)(?![A-Za-z]))?"
)
_DENIED = re.compile(
    r"(?:\b(?:not|never|except|excluding|unlike|wrong|incorrect(?:ly)?|than|isn't|aren't|wasn't|"
    r"cannot be|instead of)|n't|≠|\\neq?|!=)"
    r"(?:\s+(?:be|equal(?:\s+to)?|to|the|a|is|just|simply|only|exactly))*\s*\$?$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"[\s$*)]*(?:is|was|would be|cannot be|can't be)\s+(?:\w+\s+)?(?:wrong|incorrect|false|not\b|"
    r"impossible|ruled out|too (?:small|large|low|high|big))",
    re.IGNORECASE,
)
_HEDGE = re.compile(r"\W*(?:or|and|,|/|,\s*(?:or|and)|oder|ou|und|et|maybe|or maybe|perhaps)\W*",
                    re.IGNORECASE)  # fmt: skip
_LEAD_WORDS = re.compile(
    r"^(?:(?:so|thus|hence|therefore|it|which|that|this|there|we|get|have|is|are|equals?|about|"
    r"exactly|approximately|roughly|only|just|a|an|the|total|of|answer|value|final|simply|"
    r"clearly|still|then|be|to|would|will|must|needs?)\b[\s:,]*){1,8}",
    re.IGNORECASE,
)
_MATH_WORD = frozenset(
    "and or not times plus minus divided over by hundred thousand million billion trillion dozen "
    "if when where for squared cubed mod than all except to through union but half third".split()
)
_WORDS_AFTER = re.compile(
    r"^(?P<head>.*[\d})\]!πi%])\s*(?:-\s*)?(?P<words>(?<![A-Za-z\\])[^\W\d_]+(?:[\s./'-]+[^\W\d_]+){0,11}"
    r"(?:\^\{?[-\d]\}?|[²³])?)$",
    re.DOTALL,
)
_WRAPPED_UNIT = re.compile(
    r"^(?P<head>.*\S)\s*\\(?:text|mbox|mathrm|textrm|textnormal|hbox|rm|operatorname)\s*\{(?P<words>[^{}\\\d]*"
    r"(?:\\%)?[^{}\\\d]*)\}\s*(?P<power>\^\{?[-\d]\}?|[²³])?\s*(?P<more>(?:[/·]|\\cdot|\\text\{[^{}\d]*\}|\s)*)\.?$",
    re.DOTALL,
)
_DEGREE_TAIL = re.compile(
    r"^(?P<head>.*\S)\s*(?:\^\s*\{?\s*\\circ\s*\}?|°)\s*(?P<scale>[CF])?$", re.DOTALL
)
_LETTER_UNITS = frozenset("m g s h L N J W V A K C F".split())
_SHORT_UNITS = frozenset(
    "cm mm km kg mg ft in yd mi lb lbs oz hr hrs min sec mL ml kW Hz cc sq mph pm am rad deg "
    "kmh kPa Pa units".split()
)
_SCALE = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12, "hundred": 2}


def spans(text: str) -> list[tuple[int, int, str]]:
    r"""Math spans of a text: start, end and content of ``$…$``, ``\(…\)``, ``\[…\]``."""
    if "\\$" in text:
        # An escaped dollar is a currency sign and neither opens nor closes a span.
        text = text.replace("\\$", "\\ ")
    if "$" not in text and "\\(" not in text and "\\[" not in text:
        return []
    found = []
    for match in _SPAN.finditer(text):
        content = next(group for group in match.groups() if group is not None)
        if content.strip():
            found.append((match.start(), match.end(), content.strip()))
    return found


def groups(text: str) -> list[str]:
    """Contents of math spans; spans that commas or "and" connect are one group."""
    joined: list[str] = []
    last_end = -1
    for start, end, content in spans(text):
        between = text[last_end:start] if last_end >= 0 else ""
        if joined and between.strip() and len(between) < 16 and _CONNECTIVE.fullmatch(between):
            joined[-1] += " , " + content
        else:
            joined.append(content)
        last_end = end
    return joined


def answer_readings(text: str, *, strict: bool = False) -> list[str]:
    """Readings of an explicit answer: a box's content or what follows a marker."""
    text = _trimmed(text)
    if strict or len(text) > MAX_CHARS:
        return [text]
    readings = [] if _prose_around(text) else [text]
    parts = sentences(text)
    first = _trimmed(parts[0]) if parts else text
    # "**25** (see below)": what stands in bold is the answer.
    bold = re.match(r"\*\*(.+?)\*\*", text)
    for piece in dict.fromkeys([first, *([bold[1]] if bold else [])]):
        if piece != text:
            readings.append(piece)
        found = groups(piece)
        if found:
            readings.append(found[0])
        readings += _without_words(piece)
    return list(dict.fromkeys(reading for reading in readings if reading))


def tail_readings(text: str) -> list[str]:
    """Readings of a text without an explicit answer: all of it, or what its last sentence gives."""
    text = text.strip()
    readings: list[str] = []
    if len(text) <= 400:
        if not _prose_around(text):
            readings.append(_trimmed(text))
        if "\n" not in text:
            readings += _without_words(_trimmed(text))
    for part in reversed(sentences(text)[-6:]):
        part = part[-MAX_PROSE:]
        found = groups(part)
        numbers = last_number(part)
        if found and not _denied_span(part, found):
            readings.append(found[-1])
            if "=" not in part.rsplit("$", 1)[-1] and not re.search(r"\d", part.rsplit("$", 1)[-1]):
                return readings
        if numbers is not None:
            return [*readings, numbers]
        if found or re.search(r"\d", part):
            break
    return readings


def _prose_around(text: str) -> bool:
    """True when words stand outside the math spans: they are no part of the mathematics."""
    found = spans(text)
    if not found:
        return False
    place, outside = 0, []
    for start, end, _ in found:
        outside.append(text[place:start])
        place = end
    outside.append(text[place:])
    return re.search(r"(?<![\\A-Za-z])[^\W\d_]{2,}", " ".join(outside)) is not None


def _denied_span(part: str, found: list[str]) -> bool:
    before = part[: part.rfind(found[-1])]
    return _DENIED.search(before.rstrip("$ ")) is not None


def last_number(text: str) -> str | None:
    """The last number in prose that is not denied, with those that "or" or "and" tie to it."""
    text = text[-MAX_PROSE:]
    matches = [
        match
        for match in _NUMBER.finditer(text)
        if not _glued(text, match)
        and not _DENIED.search(text[max(0, match.start() - 60) : match.start()])
        and not _DENIED_AFTER.match(text[match.end() : match.end() + 60])
    ]
    if not matches or _is_operand(text, matches[-1]) or _inside_braces(text, matches[-1].start()):
        return None
    chosen = [_signed(text, matches[-1])]
    for earlier, later in zip(matches[-2::-1], matches[:0:-1], strict=False):
        between = text[earlier.end() : later.start()]
        if len(between) > 24 or not between.strip() or not _HEDGE.fullmatch(between):
            break
        chosen.insert(0, _signed(text, earlier))
    return " , ".join(chosen)


def _glued(text: str, match: re.Match[str]) -> bool:
    """True for digits inside a word (x2, H2O) or a longer literal."""
    before = text[match.start() - 1 : match.start()]
    return bool(before) and ((before.isalpha() and before.isascii()) or before in "_^.\\")


def _is_operand(text: str, match: re.Match[str]) -> bool:
    """True for a number that is part of a sum or product written out."""
    before, after = text[max(0, match.start() - 6) : match.start()], text[match.end() :][:3]
    return re.search(r"(?:[+*/^×·<>≤≥≠]|\\[gln]eq?)\s*$", before) is not None or (
        re.match(r"\s*(?:[+*^×·]|/\s*\d|-\s?\d)", after) is not None and not after.startswith("**")
    )


def _inside_braces(text: str, place: int) -> bool:
    """True for a number within a LaTeX argument: a fragment, not an answer."""
    before = text[:place].replace("\\{", "").replace("\\}", "")
    return before.count("{") > before.count("}")


def _signed(text: str, match: re.Match[str]) -> str:
    """A sign belongs to a number unless something stands before it to subtract from."""
    if match["sign"] and (before := text[: match.start()].rstrip()):
        if before[-1].isalnum() and (before[-1].isdigit() or match.start() == len(before)):
            return match[0][1:]
        if before[-1] in ")]}%":
            return match[0][1:]
    return match[0]


def _trimmed(text: str) -> str:
    text = text.strip()
    if text.startswith("**") and text.endswith("**") and len(text) > 4:
        text = text[2:-2]
    text = re.sub(r"^(?:[*_`>#✅\s]+)|(?:[*_`\s]+)$", "", text)
    quoted = re.fullmatch(r"(['\"])(.*)\1\.?", text, re.DOTALL)
    if quoted:
        text = quoted[2]
    text = text.rstrip()
    span = re.fullmatch(r"\$\$?([^$]*[^$\\])\$\$?|\\\((.*)\\\)|\\\[(.*)\\\]", text, re.DOTALL)
    if span and text.count("\\(") + text.count("\\[") < 2:
        text = next(group for group in span.groups() if group is not None).strip()
    while text.endswith((".", ",", ";", "。", "!")) and not text.endswith(("...", "\\!")):
        if text.endswith("!") and re.search(r"[\dn)\]}]!+$", text):
            break
        text = text[:-1].rstrip()
    return text


def _without_words(text: str) -> list[str]:
    """Readings without currency, units and words before or after."""
    readings = []
    bare = _MONEY_AFTER.sub("", _MONEY.sub("", text))
    if bare != text:
        readings.append(bare)
    led = _LEAD_WORDS.sub("", bare).strip()
    for piece in dict.fromkeys([bare, led]):
        if piece and piece != text:
            readings.append(piece)
        head, unit = split_unit(piece)
        if unit and head:
            readings.append(head)
    if "**" in text:
        readings.append(text.replace("**", ""))
    return readings


def split_unit(text: str) -> tuple[str, str]:
    r"""Mathematics and the unit or counted thing after it; the unit is empty when there is none.

    >>> split_unit(r"15\mbox{ cm}^2"), split_unit("12 apples"), split_unit("3k")
    (('15', 'cm^2'), ('12', 'apples'), ('3k', ''))
    """
    text = text.strip()
    degrees = _DEGREE_TAIL.match(text)
    if degrees and not re.search(r"\\(?:sin|cos|tan)", degrees["head"]):
        return degrees["head"], "°" + (degrees["scale"] or "")
    wrapped = _WRAPPED_UNIT.match(text)
    if wrapped and _is_unit(wrapped["words"], wrapped=True) and _ends_value(wrapped["head"]):
        unit = re.sub(r"[\s~]+", " ", wrapped["words"]).strip()
        return wrapped["head"], unit + (wrapped["power"] or "") + (wrapped["more"] or "").strip()
    worded = _WORDS_AFTER.match(text)
    if worded and not worded["head"].endswith("\\"):
        words = worded["words"].strip()
        spaced = text[len(worded["head"]) :][:1].isspace()
        if _is_unit(words, wrapped=False, spaced=spaced, head=worded["head"]):
            return worded["head"].strip(), words
    return text, ""


def _ends_value(head: str) -> bool:
    head = head.rstrip("\\ ~$,;:!")
    return bool(head) and (head[-1].isalnum() or head[-1] in ")]}!%°'|")


def _is_unit(words: str, *, wrapped: bool, spaced: bool = True, head: str = "") -> bool:
    """True for words that can name a unit or the things counted."""
    words = words.replace("~", " ").replace("\\%", "%").strip(" .")
    if not words:
        return False
    if words == "%":
        return True
    names = re.split(r"[\s./^{}²³\d·-]+", words)
    names = [name for name in names if name]
    if not names or any(name.lower() in _MATH_WORD - set(_SCALE) for name in names):
        return False
    if any(name.lower() in _SCALE for name in names):
        return False
    if wrapped:
        return True
    number = re.fullmatch(r"[-+\d.,/\s]*|.*\\frac\s*\{\d+\}\s*\{\d+\}|.*\\?pi|.*π", head.strip())
    return all(_names_unit(name, bool(number), spaced=spaced) for name in names)


def _names_unit(name: str, after_number: bool, *, spaced: bool) -> bool:
    """True for a name too long or too well known to be a product of symbols."""
    if len(name) > 3 or not name.isascii():
        return True
    if len(name) == 1:
        return after_number and name in _LETTER_UNITS
    return name in _SHORT_UNITS or (after_number and spaced)


def scaled(text: str) -> str:
    """Write "1.5 million" as a product.

    >>> scaled("1.5 million")
    '1.5*10^{6}'
    """
    return re.sub(
        r"(?<=\d)\s*\b(hundred|thousand|million|billion|trillion)\b",
        lambda match: f"*10^{{{_SCALE[match[1].lower()]}}}",
        text,
        flags=re.IGNORECASE,
    )


def visible_tail(found: Found) -> str:
    """Text in which to look for the answer when no explicit one stands."""
    return found.rest if found.taken_back else found.text
