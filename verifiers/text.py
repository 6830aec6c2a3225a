"""Labels and short spans: equal after stated normalisation, or equal to a declared alias."""

import re
import unicodedata
from datetime import date

from curate.verifiers.extract import Found, find, plain, sentences
from curate.verifiers.verdict import Options, Verdict

_ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)", re.IGNORECASE)
_INNER = re.compile(r"[,!?;:\"](?!\d)|(?<!\d)[,;:\"]|\.(?!\d)|(?<!\d)\.(?=\d)")
_BECAUSE = re.compile(r"(?:[,;—–]|\s-)?\s(?:because|since|due to|as it|as the)\b.*$", re.I | re.S)
_LEAD_IN = re.compile(
    r"^(?:so|thus|hence|therefore|i think|i believe)?,?\s*(?:it is|it's|this is|that is|that's)\s+",
    re.IGNORECASE,
)
_GREEK_NAMES = {
    letter: unicodedata.name(letter).rsplit(" ", 1)[-1].lower()
    for letter in "αβγδεζηθικλμνξπρστυφχψω"
} | {"λ": "lambda"}
_GREEK = re.compile("[α-ωΑ-Ω]")
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014", "-"))


def normalise(text: str, *, case_sensitive: bool = False) -> str:
    """Canonical form of a label: case, punctuation, a leading article and spacing folded.

    Marks inside a number stay, so ``3.5`` is not ``35``; hyphens stay, so ``IL-6`` is not
    ``IL6``.

    >>> normalise("  The Beatles! ")
    'beatles'
    """
    text = unicodedata.normalize("NFKC", plain(text)).translate(_DASHES)
    if not text.isascii():
        text = _GREEK.sub(lambda match: _GREEK_NAMES[match[0].lower()], text)
    if not case_sensitive:
        text = text.casefold()
    text = text.strip(" \t\n\"'")
    bare = re.sub(r"\s+", " ", _INNER.sub(" ", text)).strip(" '")
    bare = re.sub(r"\s*-\s*", "-", bare) if not bare.startswith("-") else bare
    text = bare or re.sub(r"\s+", " ", text)
    return _ARTICLE.sub("", text)


def check(gold: str, options: Options) -> str | None:
    """A label is usable when something is left of it after normalisation."""
    if options.type is not None:
        reader = _READERS.get(options.type)
        if reader is None:
            return "unknown_type"
        return None if reader(gold) is not None else f"unparsable_{options.type}"
    return None if normalise(gold) else "empty_gold"


def judge(gold: str, response: str, options: Options) -> Verdict:
    """Compare the announced answer, or else the whole response, with the gold and its aliases."""
    found = find(response, options)
    if not found.text:
        return Verdict("incorrect", found.reason)
    given = _candidates(found, options)
    if not given:
        return Verdict("incorrect", "no_answer")
    if options.type is not None:
        return _judge_typed(gold, given, options.type)
    sensitive = bool(options.case_sensitive)
    accepted = {normalise(one, case_sensitive=sensitive) for one in (gold, *options.aliases)}
    read = [normalise(one, case_sensitive=sensitive) for one in given]
    for one in read:
        if one in accepted:
            return Verdict("correct", "equal", one)
    return Verdict("incorrect", "not_equal", read[0] or None)


def _candidates(found: Found, options: Options) -> list[str]:
    """Readings of the one answer that was given, the most literal first."""
    if found.taken_back:
        rest = sentences(found.rest)
        text = rest[-1] if rest else ""
    elif found.answers:
        text = found.answers[0].text
    else:
        text = found.text
    if options.strict:
        return [text] if text else []
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    readings = [text]
    # Without an announcement, the answer is the whole response or its last line.
    last = lines[-1] if not found.answers and len(lines) > 1 else lines[0]
    readings.append(last)
    parts = sentences(last)
    if found.answers or len(lines) == 1:
        readings.append(parts[0])
    readings += [shorter for one in readings[1:] if (shorter := _BECAUSE.sub("", one)) != one]
    readings += [shorter for one in readings if (shorter := _LEAD_IN.sub("", plain(one))) != one]
    return readings


# --- dates and times ------------------------------------------------------------------------

_TIME = re.compile(
    r"(?<![\d:])(\d{1,2})(?::([0-5]\d))?(?::([0-5]\d))?\s*([ap])?\.?(?:m\b)?\.?(?![\d:])", re.I
)
_MONTHS = {
    name: number
    for number, names in enumerate(
        "january jan;february feb;march mar;april apr;may;june jun;july jul;august aug;"
        "september sep sept;october oct;november nov;december dec".split(";"),
        1,
    )
    for name in names.split()
}
_ISO = re.compile(r"\b(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})\b")
_MONTH_FIRST = re.compile(r"\b([A-Za-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})\b")
_DAY_FIRST = re.compile(
    r"\b(\d{1,2})(?:st|nd|rd|th)?\.?\s+(?:of\s+)?([A-Za-z]{3,9})\.?,?\s+(\d{4})\b"
)


def read_time(text: str) -> str | None:
    """The one time of day in a text, as HH:MM:SS.

    >>> read_time("3:30 PM")
    '15:30:00'
    """
    words = plain(text)
    words = re.sub(
        r"\bnoon\b", "12:00 pm", re.sub(r"\bmidnight\b", "12:00 am", words, flags=re.I), flags=re.I
    )
    times = {read for match in _TIME.finditer(words) if (read := _clock(match)) is not None}
    return times.pop() if len(times) == 1 else None


def _clock(match: re.Match[str]) -> str | None:
    hour, minute, second = int(match[1]), int(match[2] or 0), int(match[3] or 0)
    half = (match[4] or "").lower()
    if not half and match[2] is None:
        return None
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "p" else 0)
    return f"{hour:02}:{minute:02}:{second:02}" if hour < 24 else None


def read_date(text: str) -> str | None:
    """The one date in a text, as YYYY-MM-DD; 03/04/2020 is ambiguous and not read.

    >>> read_date("on March 5th, 2020")
    '2020-03-05'
    """
    words = plain(text)
    dates = set()
    for match in _ISO.finditer(words):
        dates.add(_day(match[1], int(match[2]), match[3]))
    for match in _MONTH_FIRST.finditer(words):
        dates.add(_day(match[3], _MONTHS.get(match[1].lower(), 0), match[2]))
    for match in _DAY_FIRST.finditer(words):
        dates.add(_day(match[3], _MONTHS.get(match[2].lower(), 0), match[1]))
    dates.discard(None)
    return dates.pop() if len(dates) == 1 else None


def _day(year: str, month: int, day: str) -> str | None:
    try:
        return date(int(year), month, int(day)).isoformat()
    except ValueError:
        return None


_READERS = {"time": read_time, "date": read_date}


def _judge_typed(gold: str, given: list[str], kind: str) -> Verdict:
    read = _READERS[kind]
    value = next((one for text in given if (one := read(text)) is not None), None)
    if value is None:
        return Verdict("incorrect", f"no_{kind}")
    equal = value == read(gold)
    return Verdict("correct" if equal else "incorrect", "equal" if equal else "not_equal", value)
