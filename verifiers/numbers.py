"""Exact numbers from text: separators, fractions, mixed numbers, percent, powers of ten, words."""

import re
from fractions import Fraction

#: Digits beyond this are compared as text, never converted.
MAX_DIGITS = 4000
MAX_EXPONENT = 5000

_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_RAISED = re.compile(r"[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_VULGAR = {
    "½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5),
    "⅗": (3, 5), "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8),
    "⅞": (7, 8),
}  # fmt: skip

SCALES = {
    "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "hundred": 100,
    "dozen": 12, "quadrillion": 10**15, "mn": 10**6, "bn": 10**9,
}  # fmt: skip

NUMBER = (
    r"[+-]?(?:\d{1,3}(?:,\d{3})+(?![\d])(?:\.\d+)?|\d{1,3}(?: \d{3})+(?!\d)(?:\.\d+)?"
    r"|\d+(?:\.\d*)?|\.\d+)"
)
_PLAIN = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?")


_SMALL = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen".split()
    )
} | {
    word: 10 * value
    for value, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)
}


def spelled_out(text: str) -> int | None:
    """The whole number that English words spell, or None.

    >>> spelled_out("three hundred and forty-two")
    342
    """
    words = text.lower().replace("-", " ").split()
    if not words or len(words) > 16:
        return None
    total = current = 0
    for place, word in enumerate(words):
        if word in _SMALL:
            current += _SMALL[word]
        elif word == "hundred" and 0 < current < 10:
            current *= 100
        elif word in ("thousand", "million", "billion") and 0 < current < 1000:
            total += current * SCALES[word]
            current = 0
        elif word != "and" or place in (0, len(words) - 1):
            return None
    return total + current


def unraise(text: str) -> str:
    """Write superscript digits as ``^{…}`` and vulgar fractions as ``a/b``."""
    if text.isascii():
        return text
    text = _RAISED.sub(lambda match: "^{" + match[0].translate(_SUPERSCRIPT) + "}", text)
    for char, (top, bottom) in _VULGAR.items():
        if char in text:
            text = re.sub(rf"(?<=\d)\s*{char}", f" {top}/{bottom}", text)
            text = text.replace(char, f"{top}/{bottom}")
    return text


def decimal(text: str) -> Fraction | None:
    """The exact value of a plain decimal, without separators; None when it is none or too long.

    >>> decimal("-1.25e2")
    Fraction(-125, 1)
    """
    match = _PLAIN.fullmatch(text)
    if match is None or len(text) > MAX_DIGITS:
        return None
    sign, whole, part, exponent = match[1], match[2] or "", match[3] or "", int(match[4] or 0)
    if not whole + part or abs(exponent) > MAX_EXPONENT:
        return None
    exponent -= len(part)
    value = int(whole + part)
    value = -value if sign == "-" else value
    return Fraction(value * 10**exponent) if exponent >= 0 else Fraction(value, 10**-exponent)


def ungroup(text: str, *, decimal_comma: bool = False) -> str:
    """Remove thousands separators from one number.

    >>> ungroup("1,234,567.8"), ungroup("1 000"), ungroup("1.234,5", decimal_comma=True)
    ('1234567.8', '1000', '1234.5')
    """
    if decimal_comma:
        if re.fullmatch(r"[+-]?\d{1,3}(?:[. ]\d{3})+(?:,\d+)?", text):
            text = text.replace(".", "").replace(" ", "")
        return text.replace(",", ".")
    if re.fullmatch(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", text):
        return text.replace(",", "")
    if re.fullmatch(r"[+-]?\d{1,3}(?: \d{3})+(?:\.\d*)?", text):
        return text.replace(" ", "")
    return text
