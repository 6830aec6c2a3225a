"""Numbers with units: equal after conversion, within a stated tolerance.

The default tolerance is a relative 1e-6, enough for the rounding of unit conversion and nothing
else: 9.8 is not 9.81. ``rel_tol`` and ``abs_tol`` (in the gold's unit) replace it. A bare number
lacks the unit of a gold that has a physical one, unless ``unit_optional`` or ``question_unit``
supplies it; a unit after the answer to a gold without one is accepted. Percent is 1/100.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from curate.verifiers.extract import Found, find, plain, sentences
from curate.verifiers.numbers import SCALES, decimal, ungroup, unraise
from curate.verifiers.units import TEMPERATURES, Unit, parse_unit
from curate.verifiers.verdict import Options, Verdict

DEFAULT_REL_TOL = Fraction(1, 10**6)
#: Characters of a sentence that are read; finding quantities is quadratic in them at worst.
_MAX_PROSE = 2_000

_POINT = (
    r"\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d{1,3}(?: \d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"
)
_COMMA = r"\d{1,3}(?:[. ]\d{3})+(?!\d)(?:,\d+)?|\d+,\d+|\d+(?:\.\d+)?"
_SCALE_WORDS = "|".join(sorted(SCALES, key=len, reverse=True))


def _pattern(number: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?:(?P<sign>[-+])\s?)?(?:(?P<money>[$€£]|USD\b)\s?)?(?P<number>{number})(?P<exp>[eE][-+]?\d+)?"
        r"(?:\s*(?:±|\\pm)\s*[\d.,]+)?"
        r"(?:\s*(?:\*|·|×|x|\\times|\\cdot)\s*10\s*(?:\^|\*\*)\s*\{?\s*(?P<power>[-+]?\d+)\s*\}?)?"
        r"(?P<bottom>\s*/\s*\d+(?![\d.]))?"
        rf"(?:\s*(?P<scale>{_SCALE_WORDS})\b)?",
        re.IGNORECASE,
    )


_NUMBER = {False: _pattern(_POINT), True: _pattern(_COMMA)}
_POWER_OF_TEN = re.compile(
    r"(?P<sign>[-+])?(?<![\d.])10\s*(?:\^|\*\*)\s*\{?\s*(?P<power>[-+]?\d+)\s*\}?"
)
_UNIT_CHARS = re.compile(
    r"\s?-?\s*((?:per\s+|[^\W\d_]+(?:\s(?=per\b|[^\W\d_]))?|[%°$€£℃℉º]|[/*·⋅.^(){}²³⁻¹-]|\s(?=/)|(?<=[\^{/-])\d{1,2}|"
    r"(?<=[a-zA-Z])[1-9](?!\d))+)"
)
_DENIED = re.compile(r"(?:\b(?:not|never|than|isn't|wasn't|instead of)|≠)\s*(?:\w+\s+){0,2}$", re.I)
_HEDGE = re.compile(r"\s*(?:,|/|or|and|to|-|–|,\s*or|,\s*and)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value and its unit.

    Args:
        value: in the unit as written.
        unit: None when bare.
        text: as written.
        start: offset in the text it was found in.
        end: offset just after it.
    """

    value: Fraction
    unit: Unit | None
    text: str
    start: int = 0
    end: int = 0


#: A dollar sign that opens mathematics has a partner with no space before and no digit after it.
_MATH_SPAN = re.compile(r"\$(?!\s)([^$\n]{0,400}[^\s$\\])\$(?!\d)")


def _improper(match: re.Match[str]) -> str:
    whole, top, bottom = (int(group) for group in match.groups())
    return f"{whole * bottom + top}/{bottom}" if top < bottom else match[0]


def _spelled(text: str) -> str:
    """One spelling for LaTeX, superscripts and micro, degree and ohm signs."""
    text = re.sub(r"\^\s*\{?\s*\\circ\s*\}?\s*|\\degree\s*|\\textdegree\s*", "°", text)
    text = re.sub(r"\\(?:mu|micro)(?![A-Za-z])\s*", "µ", text)
    text = re.sub(r"\\[Oo](?:mega|hm)(?![A-Za-z])\s*", "Ω", text)
    text = re.sub(r"\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}", r"\1/\2", text)
    text = re.sub(r"\\(?:,|;|:|!|quad|left|right)(?![A-Za-z])|\{,\}(?=\d)", " ", text)
    text = re.sub(r"\\si\s*\{|\\unit\s*\{", "{", text).replace("\\$", " USD ")
    text = _MATH_SPAN.sub(r" \1 ", text)
    text = re.sub(r"\$(?=\s?\d)", " USD ", text)
    text = unraise(plain(text))
    text = re.sub(r"(?<![\d./])(\d{1,6})\s+(\d{1,6})/(\d{1,6})(?![\d/])", _improper, text)
    return re.sub(r"(?<=[\d}])\s*\\(?:cdot|times)\s*(?=10)", "*", text).replace("\\cdot", "·")


def _read(  # noqa: C901 (one rule a part of the number)
    text: str, match: re.Match[str], *, comma: bool
) -> Fraction | None:
    groups = match.groupdict()
    if "number" not in groups:
        if len(groups["power"]) > 4:
            return None
        value = Fraction(10) ** int(groups["power"])
    else:
        found = decimal(ungroup(groups["number"], decimal_comma=comma) + (groups["exp"] or ""))
        if found is None:
            return None
        value = found
        if groups["power"]:
            if len(groups["power"]) > 4:
                return None
            value *= Fraction(10) ** int(groups["power"])
        if groups["bottom"]:
            bottom = int(re.sub(r"\D", "", groups["bottom"]))
            if not bottom or len(groups["bottom"]) > 40:
                return None
            value /= bottom
        if groups["scale"]:
            value *= SCALES[groups["scale"].lower()]
    if groups["sign"] == "-":
        before = text[: match.start()].rstrip()
        # "5-3" and "10 - 7" subtract.
        if not before or not (before[-1].isdigit() or before[-1] in ")%"):
            value = -value
    return value


def _unit_at(text: str, place: int, *, greedy: bool) -> tuple[Unit | None, int]:
    """The longest unit that starts here.

    Args:
        text: where.
        place: offset after the number.
        greedy: an unknown word counts as a unit.
    """
    match = _UNIT_CHARS.match(text, place)
    if match is None:
        return None, place
    words = match[1].rstrip(" .-")
    start = match.start(1)
    pieces = [found.end() for found in re.finditer(r"[^\s]+", words)][:6]
    for end in reversed(pieces):
        unit = parse_unit(words[:end].rstrip(".,;("))
        if unit is not None and unit.known:
            return unit, start + len(words[:end].rstrip(".,;("))
    if greedy and pieces:
        whole = parse_unit(words[: pieces[-1]])
        if len(pieces) > 1 and whole is None:
            whole = parse_unit(words[: pieces[0]])
        if whole is not None:
            return whole, start + pieces[-1]
    return None, place


def quantities(text: str, *, comma: bool = False, greedy: bool = True) -> list[Quantity]:
    """All quantities of a text, in order."""
    found: list[Quantity] = []
    place = 0
    while place < len(text):
        first = _POWER_OF_TEN.search(text, place)
        second = _NUMBER[comma].search(text, place)
        match = min((m for m in (first, second) if m), key=lambda m: m.start(), default=None)
        if first and second and first.start() <= second.start("number") <= first.end():
            match = first
        if match is None:
            break
        place = match.end()
        before = text[match.start() - 1 : match.start()]
        if before and (before.isalpha() or before in "_^"):
            continue
        value = _read(text, match, comma=comma)
        if value is None:
            continue
        unit, end = _unit_at(text, match.end(), greedy=greedy)
        if unit is None and match.groupdict().get("money"):
            unit = parse_unit(match["money"])
        place = max(end, match.end())
        found.append(Quantity(value, unit, text[match.start() : place], match.start(), place))
    return found


def _whole(text: str, *, comma: bool) -> Quantity | None:
    """The quantity that a text is, from its first to its last character."""
    if len(text) > _MAX_PROSE:
        return None
    text = _spelled(text).strip().strip("'\"").rstrip(".;,").strip()
    text = re.sub(r"^(?:≈|~|about|approximately|=)\s*", "", text)
    found = quantities(text, comma=comma)
    if len(found) == 1 and found[0].start == 0 and found[0].end == len(text):
        return found[0]
    return None


def check(gold: str, options: Options) -> str | None:
    """The gold must be one number, with or without a unit, and nothing else."""
    if options.question_unit is not None and parse_unit(options.question_unit) is None:
        return "unknown_question_unit"
    quantity = _whole(gold, comma=options.decimal_comma)
    if quantity is None:
        return "gold_not_a_quantity"
    if options.is_year and quantity.value.denominator != 1:
        return "gold_not_a_year"
    return None


def judge(gold: str, response: str, options: Options) -> Verdict:
    """Compare the quantity the response settles on with the gold's."""
    found = find(response, options)
    if not found.text:
        return Verdict("incorrect", found.reason)
    want = _whole(gold, comma=options.decimal_comma)
    assert want is not None
    given, reason = _settled(found, options)
    if given is None:
        return Verdict("incorrect", reason)
    shown = given.text.strip()[:200]
    problem = _differs(want, given, options)
    return Verdict("incorrect", problem, shown) if problem else Verdict("correct", "equal", shown)


def _settled(found: Found, options: Options) -> tuple[Quantity | None, str]:
    comma = options.decimal_comma
    if not found.taken_back:
        for answer in found.answers:
            whole = _whole(answer.text, comma=comma)
            if whole is not None or options.strict:
                return whole, "unreadable"
            parts = sentences(answer.text)
            text = _spelled(parts[0][:_MAX_PROSE]) if parts else ""
            if quantities(text, comma=comma, greedy=False):
                equals = text.rfind("=")
                return _one(text[equals + 1 :], comma=comma, first=True)
            if answer.source in ("box", "tag"):
                return None, "no_quantity"
    text = found.rest if found.taken_back else found.text
    if not found.taken_back and (whole := _whole(text, comma=comma)) is not None:
        return whole, ""
    if options.strict:
        return None, "unreadable"
    for part in reversed(sentences(text)[-8:]):
        spelled = _spelled(part[-_MAX_PROSE:])
        if quantities(spelled, comma=comma, greedy=False):
            return _one(spelled, comma=comma, first=False)
    return None, "no_quantity"


def _one(text: str, *, comma: bool, first: bool) -> tuple[Quantity | None, str]:
    """The first or last quantity of a sentence that is not denied, if it stands alone."""
    found = [
        one
        for one in quantities(text, comma=comma, greedy=False)
        if not _DENIED.search(text[max(0, one.start - 40) : one.start])
    ]
    if not found:
        return None, "no_quantity"
    place = 0 if first else len(found) - 1
    for left, right in ((place - 1, place), (place, place + 1)):
        if left < 0 or right >= len(found):
            continue
        between = text[found[left].end : found[right].start]
        sign = text[found[right].start : found[right].start + 1]
        hedge = _HEDGE.fullmatch(between) or (not between and sign == "-")
        same = (found[left].value, found[left].unit) == (found[right].value, found[right].unit)
        if len(between) < 16 and hedge and not same:
            return None, "hedged"
    return found[place], ""


def _differs(  # noqa: C901 (a flat list of rules, first match wins)
    want: Quantity, given: Quantity, options: Options
) -> str:
    """Reason why a quantity is not the wanted one, or an empty string."""
    if options.is_year:
        grouped = "," in given.text or " " in given.text.strip().split("\n")[0][:5].strip()
        return "" if given.value == want.value and not grouped else "not_equal"
    default = parse_unit(options.question_unit) if options.question_unit else None
    want_unit, given_unit = want.unit or default, given.unit or default
    if want_unit is None and given_unit is not None:
        # The question fixed the unit; only a unit that is a number changes the value.
        want_unit = Unit(Fraction(1), ()) if not given_unit.dimensions else given_unit
    if given_unit is None and want_unit is not None:
        counted = all(base.startswith("?") for base, _ in want_unit.dimensions)
        optional = options.unit_optional or (counted and bool(want_unit.dimensions))
        if want_unit.dimensions == () and not options.unit_optional:
            given_unit = Unit(Fraction(1), ())  # 0.05 for 5 %
        elif not optional:
            return "missing_unit"
        else:
            given_unit = want_unit
    if want_unit is not None and given_unit is not None:
        want_unit, given_unit = _degrees(want_unit, given_unit), _degrees(given_unit, want_unit)
    one, other, unit = want.value, given.value, Fraction(1)
    if want_unit is not None and given_unit is not None:
        if want_unit.dimensions != given_unit.dimensions:
            return "wrong_unit"
        if want_unit != given_unit or not want_unit.known:
            one, other = _base(one, want_unit, options), _base(other, given_unit, options)
            unit = want_unit.factor
    tolerance = DEFAULT_REL_TOL * abs(one)
    if options.rel_tol is not None or options.abs_tol is not None:
        tolerance = max(
            abs(one) * Fraction(options.rel_tol or 0), Fraction(options.abs_tol or 0) * unit
        )
        # A tolerance of 1 % must not reject 101 because 0.01 is no exact double.
        tolerance *= 1 + Fraction(1, 10**9)
    elif one.denominator == 1 and other.denominator == 1 and want_unit == given_unit:
        tolerance = Fraction(0)
    return "" if abs(one - other) <= tolerance else "not_equal"


def _degrees(unit: Unit, other: Unit) -> Unit:
    """Read a bare C or F beside a temperature as degrees, not as coulomb or farad."""
    if unit.name in ("C", "F") and other.name in TEMPERATURES:
        return parse_unit(f"deg{unit.name}") or unit
    return unit


def _base(value: Fraction, unit: Unit, options: Options) -> Fraction:
    if unit.name in TEMPERATURES and not options.delta:
        scale, offset = TEMPERATURES[unit.name]
        return value * scale + offset
    return value * unit.factor
