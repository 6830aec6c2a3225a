"""Units of measure: read by a small grammar of names and powers, looked up in pint.

Only single names ever reach pint, never text from a response as a whole. A name that pint does
not know (``apples``, ``IU``) is a unit of its own, equal to nothing else.
"""

import re
import unicodedata
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

#: kelvin = scale · value + offset
TEMPERATURES: dict[str, tuple[Fraction, Fraction]] = {
    "degC": (Fraction(1), Fraction("273.15")),
    "degF": (Fraction(5, 9), Fraction("459.67") * Fraction(5, 9)),
    "degR": (Fraction(5, 9), Fraction(0)),
    "K": (Fraction(1), Fraction(0)),
}
_ALIASES = {
    "°C": "degC", "℃": "degC", "celsius": "degC", "°F": "degF", "℉": "degF", "fahrenheit": "degF",
    "kelvin": "K", "kelvins": "K", "°R": "degR", "°": "degree", "degrees": "degree",
    "deg": "degree", "º": "degree", "%": "percent", "percent": "percent", "Ω": "ohm",
    "sec": "second", "secs": "second", "hr": "hour", "hrs": "hour", "mins": "minute",
    "min": "minute", "yr": "year", "yrs": "year", "y": "year", "lbs": "pound", "lb": "pound",
    "cc": "milliliter", "mcg": "microgram", "l": "liter", "ml": "milliliter", "dl": "deciliter",
    "ul": "microliter", "µl": "microliter", "$": "USD", "dollar": "USD", "dollars": "USD",
    "usd": "USD", "€": "EUR", "euro": "EUR", "euros": "EUR", "eur": "EUR", "£": "GBP",
    "cent": "cent", "cents": "cent", "d": "day", "wk": "week", "wks": "week", "Å": "angstrom",
    "rads": "radian", "mph": "mile_per_hour", "kph": "kilometer_per_hour", "h": "hour",
    "kmh": "kilometer_per_hour", "sqft": "square_foot", "Kg": "kilogram", "KG": "kilogram",
    "Km": "kilometer", "KM": "kilometer", "metre": "meter", "metres": "meter", "litre": "liter",
    "litres": "liter", "Hr": "hour", "gm": "gram", "gms": "gram", "grams": "gram",
}  # fmt: skip
#: Names pint lacks or means otherwise: kb is a thousand bases here, not kilobarn.
_OWN: dict[str, tuple[Fraction, str]] = {
    "bp": (Fraction(1), "base"), "nt": (Fraction(1), "base"), "bases": (Fraction(1), "base"),
    "base": (Fraction(1), "base"), "kb": (Fraction(10**3), "base"),
    "kbp": (Fraction(10**3), "base"), "Mb": (Fraction(10**6), "base"),
    "Mbp": (Fraction(10**6), "base"), "Gb": (Fraction(10**9), "base"),
    "Gbp": (Fraction(10**9), "base"), "U": (Fraction(1), "enzyme_unit"),
    "mU": (Fraction(1, 1000), "enzyme_unit"), "kU": (Fraction(1000), "enzyme_unit"),
    "IU": (Fraction(1), "IU"), "USD": (Fraction(1), "USD"), "cent": (Fraction(1, 100), "USD"),
    "EUR": (Fraction(1), "EUR"), "GBP": (Fraction(1), "GBP"), "fold": (Fraction(1), "fold"),
    "cells": (Fraction(1), "cell"), "cell": (Fraction(1), "cell"),
    "CFU": (Fraction(1), "CFU"), "cfu": (Fraction(1), "CFU"), "PFU": (Fraction(1), "PFU"),
    "pfu": (Fraction(1), "PFU"), "xg": (Fraction(1), "rcf"),
}  # fmt: skip
_NAME = re.compile(r"[^\W\d_]+|[%°$€£℃℉º]")
_TOKEN = re.compile(
    r"\s*(?P<name>°\s?[CFR](?![a-z])|deg(?:rees?)?\.?\s+(?:C|F|[Cc]elsius|[Ff]ahrenheit)\b|deg[CFR]\b"
    r"|(?!per\b)[^\W\d_]+|[%°$€£℃℉º])"
    r"|\s*(?P<power>\^\s*\{?\s*(?:[-+]?\d{1,2})\s*\}?|\*\*\s*-?\d{1,2}|(?<=[a-zµ])-?[1-9](?![\d.]))"
    r"|(?P<mul>\s*[*·⋅×.]\s*)|(?P<div>\s*(?:/|\bper\b)\s*)|(?P<open>\s*\(\s*)|(?P<close>\s*\))"
)
_POWER_WORDS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_MAX_NAMES = 12


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit.

    Args:
        factor: how many base units it is.
        dimensions: base units and their powers, sorted; ``?`` before names that pint lacks.
        name: canonical name when the unit is a single name of power one.
    """

    factor: Fraction
    dimensions: tuple[tuple[str, int], ...]
    name: str = ""
    known: bool = field(default=True, compare=False)


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(cache_folder=None)


@lru_cache(maxsize=2048)
def _lookup(name: str) -> Unit:
    spelled = _ALIASES.get(name) or _ALIASES.get(name.lower() if len(name) > 3 else name) or name
    if spelled in _OWN:
        factor, base = _OWN[spelled]
        return Unit(factor, ((f"?{base}", 1),), spelled)
    if spelled in TEMPERATURES:
        return Unit(TEMPERATURES[spelled][0], (("kelvin", 1),), spelled)
    for candidate in dict.fromkeys((spelled, spelled.lower() if len(spelled) > 3 else spelled)):
        try:
            number, root = _registry().get_root_units(candidate)
        except Exception:  # pint raises many kinds for a name it does not know
            continue
        dimensions = tuple(sorted((str(base), int(power)) for base, power in root._units.items()))
        return Unit(Fraction(repr(float(number))), dimensions, candidate)
    singular = spelled.lower()
    singular = singular[:-1] if singular.endswith("s") and len(singular) > 3 else singular
    return Unit(Fraction(1), ((f"?{singular}", 1),), singular, known=False)


def _spelled(text: str) -> str:
    text = unicodedata.normalize("NFC", text.replace("\u2126", "Ω").replace("\u212a", "K"))
    return text.replace("\u03bc", "µ")


@lru_cache(maxsize=4096)
def parse_unit(text: str) -> Unit | None:  # noqa: C901 (one rule a kind of token)
    """The unit a text names, or None when it is not one product of names and powers.

    >>> parse_unit("km/h").dimensions
    (('meter', 1), ('second', -1))
    """
    text = _spelled(text).strip()
    if not text or len(text) > 120:
        return None
    parts: list[tuple[str, int]] = []
    place, sign, group, pending, n_open = 0, 1, 1, 1, 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None or match.end() == place:
            return None
        place = match.end()
        if name := match["name"]:
            if name.lower() in _POWER_WORDS:
                power = _POWER_WORDS[name.lower()]
                if name.lower() in ("squared", "cubed") and parts:
                    parts[-1] = (parts[-1][0], parts[-1][1] * power)
                else:
                    pending = power
                continue
            parts.append((_temperature(name), sign * group * pending))
            sign, pending = 1, 1
        elif match["power"]:
            digits = re.search(r"[-+]?\d+", match["power"])
            if not parts or digits is None:
                return None
            parts[-1] = (parts[-1][0], parts[-1][1] * int(digits[0]))
        elif match["div"]:
            sign = -1
        elif match["open"]:
            n_open, group, sign = n_open + 1, group * sign, 1
        elif match["close"]:
            n_open, group = n_open - 1, 1
        if len(parts) > _MAX_NAMES or n_open not in (0, 1):
            return None
    if not parts or n_open or sign < 0:
        return None
    return _product(parts)


def _temperature(name: str) -> str:
    letter = re.fullmatch(r"(?:°\s?|deg(?:rees?)?\.?\s*)([CFRcf])(?:elsius|ahrenheit)?", name)
    return f"deg{letter[1].upper()}" if letter else name


def _product(parts: list[tuple[str, int]]) -> Unit | None:
    factor, powers, known = Fraction(1), dict[str, int](), True
    for name, power in parts:
        unit = _lookup(name)
        if abs(power) > 12:
            return None
        known = known and unit.known
        factor *= unit.factor**power
        for base, exponent in unit.dimensions:
            powers[base] = powers.get(base, 0) + exponent * power
    dimensions = tuple(sorted((base, power) for base, power in powers.items() if power))
    single = len(parts) == 1 and parts[0][1] == 1
    return Unit(factor, dimensions, _lookup(parts[0][0]).name if single else "", known)


def same_unit(one: str, other: str) -> bool | None:
    """Whether two spellings name one unit; None when one of them is no known unit."""
    a, b = parse_unit(one), parse_unit(other)
    if a is None or b is None or not (a.known and b.known):
        return None
    return (a.factor, a.dimensions) == (b.factor, b.dimensions)


def factor(one: str, other: str) -> Fraction | None:
    """How many of the second unit one of the first is; None when they measure different things."""
    a, b = parse_unit(one), parse_unit(other)
    if a is None or b is None or a.dimensions != b.dimensions:
        return None
    return a.factor / b.factor
