"""Mathematical answers: found, parsed in full and compared exactly; algebra only as a last resort.

A gold and an answer that this package parses are decided here, within bounds, in microseconds to
milliseconds. What only a computer algebra system could read is left to ``algebra``, which runs in
a killable process.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from curate.verifiers.compare import same
from curate.verifiers.evaluate import TooBig, begin, exact
from curate.verifiers.expressions import parse
from curate.verifiers.extract import Found, clean, find, plain
from curate.verifiers.nodes import Node, is_scalar
from curate.verifiers.numbers import decimal, spelled_out, ungroup
from curate.verifiers.readings import (
    answer_readings,
    scaled,
    split_unit,
    tail_readings,
    visible_tail,
)
from curate.verifiers.tokens import TooComplex, Unreadable
from curate.verifiers.verdict import Options, Verdict

#: Golds that stand for a missing answer.
_SENTINELS = frozenset(
    "proof|not found|notfound|none|null|nan|n/a|na|unknown|no answer|see solution|answer|"
    "not provided|unsolved|undetermined|todo|tbd|?".split("|")
)
_WORDS = re.compile(r"[^\W\d_]{2,}(?:[-' ][^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Parsed:
    """One answer as it was read.

    Args:
        text: the reading, for the record.
        node: what it parses to, or None when it does not.
        unit: unit or counted thing left out of the node.
        percent: the number is a percentage.
        too_complex: beyond the bounds of the parser.
    """

    text: str
    node: Node | None
    unit: str = ""
    percent: bool = False
    too_complex: bool = False


@lru_cache(maxsize=4096)
def _parse(text: str) -> Parsed:
    """Parse one reading; a percent sign or degree mark at its end is a unit."""
    number = decimal(ungroup(text.strip()))
    if number is not None:
        return Parsed(text, ("num", number))
    body = re.sub(r"^(?:=|≈|~|\\approx(?![A-Za-z]))\s*", "", text.strip())
    percent, unit = False, ""
    if (words := spelled_out(body)) is not None:
        return Parsed(text, ("num", Fraction(words)))
    if match := re.fullmatch(r"(.*[\d})])\s*(?:\\?%|percent|per cent)", body, re.DOTALL):
        body, percent = match[1], True
    elif body.endswith(("\\circ", "\\circ}", "°")) and "=" not in body:
        body, unit = split_unit(body)
    try:
        return Parsed(text, parse(scaled(body)), unit, percent)
    except Unreadable:
        return Parsed(text, None, unit, percent)
    except TooComplex:
        return Parsed(text, None, unit, percent, too_complex=True)


def _key(text: str) -> str:
    """Spelling without spaces, wrappers and trailing marks; words also without case."""
    text = re.sub(r"\\left|\\right|\\[,;:! ]|[\s$~]|\\displaystyle", "", plain(clean(text)))
    text = re.sub(r"\\[dt]frac", r"\\frac", text).strip(".\"'*")
    return text.casefold() if re.fullmatch(r"[^\W\d_]{2,}[^\d]*", text) else text


@dataclass(frozen=True, slots=True)
class _Gold:
    """A gold with all its readings."""

    parsed: Parsed
    bare: Parsed
    key: str
    word: bool


@lru_cache(maxsize=4096)
def _gold(text: str, decimal_comma: bool) -> _Gold:
    text = clean(text).strip()
    if len(text) > 1 and text.startswith("$") and text.endswith("$"):
        text = text.strip("$").strip()
    if "\\boxed" in text and (boxes := find(text, Options()).answers):
        text = boxes[0].text.strip()
    text = re.sub(r"^(?:\\\$|\$|€|£)\s*(?=[-\d.])", "", text).rstrip(".;")
    if decimal_comma:
        text = ungroup(text, decimal_comma=True)
    words = plain(text)
    word = bool(_WORDS.fullmatch(words)) and (len(words) > 2 or "\\" in text)
    head, unit = split_unit(text)
    bare = _parse(head)
    if unit in ("%", "\\%", "percent"):
        bare = Parsed(head, bare.node, "", percent=True)
    elif unit:
        bare = Parsed(head, bare.node, unit, bare.percent, bare.too_complex)
    return _Gold(_parse(text), bare, _key(text), word)


def check(gold: str, options: Options) -> str | None:
    r"""The gold must be mathematics, or a short label such as ``odd`` or ``\text{Friday}``."""
    text = plain(clean(gold)).strip()
    if not text.strip("{}$. "):
        return "empty_gold"
    if text.casefold().strip(" .") in _SENTINELS:
        return "sentinel_gold"
    parsed = _gold(gold, options.decimal_comma)
    if parsed.parsed.node is not None or parsed.bare.node is not None:
        return None
    if parsed.parsed.too_complex:
        return None
    n_words = len(re.findall(r"[^\W\d_]{2,}", re.sub(r"\\[A-Za-z]+", " ", text)))
    if "\\" not in gold and n_words > 1 and (text.endswith(".") or n_words > 4):
        return "gold_not_mathematics"
    return None


def judge(gold: str, response: str, options: Options) -> Verdict | None:
    """Verdict, or None when only algebra can tell."""
    wanted = _gold(gold, options.decimal_comma)
    found = find(response, options)
    if not found.text:
        return Verdict("incorrect", found.reason)
    readings = _given(found, options)
    if not readings:
        return Verdict("incorrect", "no_answer")
    begin()
    try:
        return _decide(wanted, readings, options)
    except (TooBig, RecursionError):
        return Verdict("incorrect", "too_complex", _shown(readings[0]))


def algebra_texts(gold: str, response: str, options: Options) -> tuple[str, str]:
    """Gold and answer as LaTeX for the algebra system."""
    readings = _given(find(response, options), options)
    return _gold(gold, options.decimal_comma).parsed.text, readings[0]


def _given(found: Found, options: Options) -> list[str]:
    """Readings of the one answer the response settles on."""
    if not found.taken_back:
        for answer in found.answers:
            if not answer.text.strip():
                return []
            readings = answer_readings(answer.text, strict=options.strict)
            if answer.source in ("box", "tag"):
                return _unboxed(readings, options)
            if any(_parse(_fixed(one, options)).node is not None for one in readings):
                return readings
            if answer.source == "marker" and any(_WORDS.fullmatch(plain(r)) for r in readings):
                return readings
            if (number := _prose_number(answer.text)) is not None:
                return [*readings, number]
    if options.strict:
        return [] if found.answers else [found.text]
    return tail_readings(visible_tail(found))


def _prose_number(text: str) -> str | None:
    from curate.verifiers.extract import sentences
    from curate.verifiers.readings import last_number

    for part in sentences(text):
        number = last_number(part)
        if number is not None:
            return number
    return None


def _unboxed(readings: list[str], options: Options) -> list[str]:
    """A sentence inside a box may itself announce an answer."""
    if options.strict or any(_parse(one).node is not None for one in readings):
        return readings
    words = plain(readings[0])
    if " " in words:
        inner = find(words, options)
        if inner.answers:
            return [*readings, *answer_readings(inner.answers[0].text)]
        if (number := _prose_number(words)) is not None and words.replace(number, "").replace(
            " ", ""
        ).isalpha():
            return [*readings, number]
    return readings


def _fixed(text: str, options: Options) -> str:
    return ungroup(text, decimal_comma=True) if options.decimal_comma else text


def _decide(  # noqa: C901 (a flat list of rules, first match wins)
    gold: _Gold, readings: list[str], options: Options
) -> Verdict | None:
    for reading in readings:
        if gold.key and _key(reading) == gold.key:
            return Verdict("correct", "equal", _shown(reading))
    read = [_parse(_fixed(reading, options)) for reading in readings]
    given = next((one for one in read if one.node is not None), None)
    if given is None:
        shown = _shown(readings[0])
        if any(one.too_complex for one in read):
            return Verdict("incorrect", "too_complex", shown)
        return None if _needs_algebra(gold, readings) else Verdict("incorrect", "unreadable", shown)
    if given.node is not None and not given.unit:
        for reading in readings:
            unit = split_unit(_fixed(reading, options))[1]
            if unit and split_unit(reading)[0].strip() == given.text.strip():
                percent = unit in ("%", "\\%", "percent")
                given = Parsed(given.text, given.node, "" if percent else unit, percent)
                break
    shown = _shown(given.text)
    if gold.word and gold.parsed.node is None:
        return Verdict("incorrect", "not_equal", shown)
    golds = [one for one in (gold.parsed, gold.bare) if one.node is not None]
    if not golds:
        return (
            None if _needs_algebra(gold, [given.text]) else Verdict("incorrect", "not_equal", shown)
        )
    # "5 m" may be a product or a length: every reading of the answer meets every one of the gold.
    heads = [given]
    if not given.unit:
        head, unit = split_unit(given.text)
        if unit and (bare := _parse(head)).node is not None:
            heads.append(Parsed(head, bare.node, unit, bare.percent))
    for one in golds:
        for other in heads:
            if _equal(one, other, options):
                return Verdict("correct", "equal", shown)
    return Verdict("incorrect", "not_equal", shown)


def _equal(gold: Parsed, given: Parsed, options: Options) -> bool:
    assert gold.node is not None and given.node is not None
    if gold.unit and given.unit and _clash(gold, given):
        return _convertible(gold, given)
    if _close(gold.node, given.node, options):
        return not (gold.percent and given.percent) or gold.percent == given.percent
    if gold.percent != given.percent and is_scalar(gold.node) and is_scalar(given.node):
        hundredth = ("num", Fraction(1, 100))
        one = ("mul", gold.node, hundredth) if gold.percent else gold.node
        other = ("mul", given.node, hundredth) if given.percent else given.node
        return same(one, other, strict=options.exact)
    return False


def _close(gold: Node, given: Node, options: Options) -> bool:
    if same(gold, given, strict=options.exact):
        return True
    if options.rel_tol is None and options.abs_tol is None:
        return False
    one, other = (exact(node) if is_scalar(node) else None for node in (gold, given))
    if one is None or other is None:
        return False
    return abs(one - other) <= max(
        abs(one) * Fraction(options.rel_tol or 0), Fraction(options.abs_tol or 0)
    )


def _clash(gold: Parsed, given: Parsed) -> bool:
    from curate.verifiers.units import same_unit

    return same_unit(gold.unit, given.unit) is False


def _convertible(gold: Parsed, given: Parsed) -> bool:
    from curate.verifiers.units import factor

    assert gold.node is not None and given.node is not None
    ratio = factor(given.unit, gold.unit)
    if ratio is None or not (is_scalar(gold.node) and is_scalar(given.node)):
        return False
    return same(gold.node, ("mul", given.node, ("num", ratio)))


#: What the algebra system reads and this parser does not.
_BEYOND = re.compile(r"\\(?:int|lim|sum|prod|partial|begin\s*\{vmatrix\}|det)(?![A-Za-z])")
_KNOWN = frozenset(
    "int lim sum prod partial begin end vmatrix det frac dfrac tfrac sqrt infty pi to rightarrow "
    "sin cos tan cot sec csc ln log exp cdot times left right limits theta alpha beta lambda e d "
    "mathrm text arctan arcsin arccos quad".split()
)


def _needs_algebra(gold: _Gold, readings: list[str]) -> bool:
    """True when a side holds an integral, limit or the like, and nothing unknown to algebra.

    math-verify falls back to a fragment of what it cannot parse, so it is only asked about
    notation it knows; and an integral is no answer where a plain number was wanted.
    """
    parsed = gold.bare.node or gold.parsed.node
    if gold.word or (parsed is not None and exact(parsed) is not None):
        return False
    both = f"{gold.parsed.text} {readings[0]}"
    if len(both) > 1500 or not _BEYOND.search(both):
        return False
    return all(name in _KNOWN for name in re.findall(r"\\([A-Za-z]+)", both))


def _shown(text: str) -> str:
    number = decimal(ungroup(text.strip()))
    if number is not None and number.denominator == 1 and len(text) < 400:
        return str(number)
    return text.strip()[:2000]
