"""From LaTeX or plain notation to tokens: one spelling for each thing, or a clear refusal.

Everything in the text must become a token. What is not understood raises ``Unreadable``, so no
part of an answer is ever silently left out.
"""

import re
from fractions import Fraction
from typing import NamedTuple

from curate.verifiers.numbers import decimal, unraise

MAX_CHARS = 4_000
MAX_TOKENS = 1_500


class Unreadable(ValueError):
    """Not mathematics that this parser knows in full."""


class TooComplex(ValueError):
    """Longer or deeper than any answer."""


class Token(NamedTuple):
    """One token: its kind, its spelling, the number it stands for, and a space before it."""

    kind: str  # num | sym | func | op | open | close | rel | word | macro | env | end
    text: str
    value: Fraction | None = None
    spaced: bool = False


_SPACES = re.compile(
    r"(?<!\\)\\(?:[,;:!> ]|(?:q?quad|thinspace|displaystyle|textstyle|(?:no)?limits|mathstrut|"
    r"hfill)\b)|~|&nbsp;"
)
_SIZES = re.compile(r"\\(?:left|right|middle|bigg?[lrm]?|Bigg?[lrm]?)(?![A-Za-z])\s*(?:\.(?!\d))?")
_WRAPPERS = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|mathcal|mbox|hbox|operatorname\*?|"
    r"boldsymbol|bm|emph|rm|bf|it|mathop|boxed|fbox|underline|ensuremath|textnormal|textsc)\s*"
    r"\{((?:[^{}]|\{[^{}]*\})*)\}"
)
_REPLACED = {
    "≤": "<=", "≥": ">=", "≠": "!=", "≈": "\\approx ", "∈": "\\in ", "∞": "\\infty ", "π": "\\pi ",
    "√": "\\sqrt ", "×": "*", "·": "*", "⋅": "*", "∙": "*", "÷": "/", "∪": "\\cup ",
    "∩": "\\cap ", "∅": "\\emptyset ", "ℝ": "\\R ", "±": "\\pm ", "∓": "\\mp ", "°": "^\\circ ",
    "…": "\\ldots ", "⌊": "\\lfloor ", "⌋": "\\rfloor ", "⌈": "\\lceil ", "⌉": "\\rceil ",
    "−": "-", "–": "-", "—": "-", "⁄": "/", "∕": "/", "→": "\\to ", "∖": "\\setminus ",
    "₀": "_0", "₁": "_1", "₂": "_2", "₃": "_3", "₄": "_4", "₅": "_5", "₆": "_6", "₇": "_7",
    "₈": "_8", "₉": "_9", "ℤ": "\\Z ", "ℚ": "\\Q ", "ℕ": "\\N ", "ℂ": "\\C ",
}  # fmt: skip
_UNICODE = str.maketrans(_REPLACED)
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "θ": "theta",
    "λ": "lambda", "μ": "mu", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "ω": "omega",
    "Δ": "Delta", "Σ": "Sigma", "Ω": "Omega", "η": "eta", "ζ": "zeta", "ν": "nu", "ξ": "xi",
    "χ": "chi", "ψ": "psi", "κ": "kappa",
}  # fmt: skip
_GREEK_NAMES = frozenset(_GREEK.values()) | {
    "varepsilon", "vartheta", "varphi", "Gamma", "Theta", "Lambda", "Xi", "Pi", "Phi", "Psi",
    "iota", "upsilon", "ell", "hbar", "angle", "triangle",
}  # fmt: skip

FUNCTIONS = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln exp gcd lcm min max det "
    "arccot arcsec arccsc coth lg asin acos atan abs floor ceil sgn sign cosec arsinh arcosh "
    "artanh sinc cis Re Im arg".split()
)
_RELATIONS = {
    "\\leq": "<=", "\\le": "<=", "\\leqslant": "<=", "\\leqq": "<=", "\\geq": ">=", "\\ge": ">=",
    "\\geqslant": ">=", "\\geqq": ">=", "\\neq": "!=", "\\ne": "!=", "\\lt": "<", "\\gt": ">",
    "\\approx": "~", "\\simeq": "~", "\\in": "in", "\\equiv": "==", "\\notin": "notin",
    "\\sim": "==", "\\to": "to", "\\rightarrow": "to", "\\mapsto": "to", "\\cong": "~",
    "\\subset": "subset", "\\subseteq": "subset", "\\coloneqq": "=", "\\doteq": "~",
}  # fmt: skip
_OPERATORS = {
    "\\cdot": "*", "\\times": "*", "\\ast": "*", "\\div": "/", "\\pm": "pm", "\\mp": "mp",
    "\\cup": "cup", "\\cap": "cap", "\\setminus": "setminus", "\\backslash": "setminus",
    "\\bullet": "*", "\\bigcup": "cup", "\\lor": "or", "\\vee": "or", "\\land": "and",
    "\\wedge": "and", "\\colon": ":", "\\mid": "mid", "\\vert": "|", "\\lvert": "|",
    "\\rvert": "|", "\\prime": "'", "\\over": "over", "\\circ": "circ", "\\degree": "degree",
    "\\%": "%", "\\ldots": "dots", "\\cdots": "dots", "\\dots": "dots", "\\vdots": "dots",
    "\\dotsc": "dots", "\\mod": "mod", "\\bmod": "mod", "\\Vert": "||", "\\|": "||",
}  # fmt: skip
_OPENING = {"\\lfloor": "floor", "\\lceil": "ceil", "\\{": "{{", "\\lbrace": "{{",
            "\\langle": "<<", "\\lbrack": "["}  # fmt: skip
_CLOSING = {"\\rfloor": "floor", "\\rceil": "ceil", "\\}": "}}", "\\rbrace": "}}",
            "\\rangle": ">>", "\\rbrack": "]"}  # fmt: skip
_MACROS = frozenset(
    "frac sqrt binom overline bar hat vec tilde sum prod dot stackrel overrightarrow widehat "
    "pmod begin end choose cbrt".split()
)
_CONSTANTS = {"\\pi": "pi", "\\infty": "inf", "\\emptyset": "empty", "\\varnothing": "empty",
              "\\R": "reals", "\\Z": "integers", "\\N": "naturals", "\\Q": "rationals",
              "\\C": "complexes", "\\imath": "i"}  # fmt: skip
_WORDS = {"pi": "pi", "infinity": "inf", "infty": "inf", "inf": "inf", "oo": "inf"}

_SCAN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<repeat>\d*\.\d*\\overline\s*\{\d+\}|\d*\.\d*\\dot\s*\{\d\})"
    r"|(?P<based>\d[0-9A-F]*_(?:\d\b|\{\(?\d{1,2}\)?\}|\{\s*\\?[a-z]+\s*\}))"
    r"|(?P<num>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+(?![\d.]))?|\d+\.(?!\w))"
    r"|(?P<command>\\(?:[A-Za-z]+|[%{}|$&#_\\]))"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<dots>\.{3,})"
    r"|(?P<rel><=|>=|=<|!=|==|<>|:=|[<>=])"
    r"|(?P<op>\*\*|[-+*/^_,;:!'|%&])"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
)
_GROUPED = re.compile(r"(?<![\d.,_^{])(?:[1-9]\d{0,2})(?:,\d{3})+(?![\d,])(?!,?\d)")
#: Short words that no product of symbols is likely to spell.
_PROSE = frozenset(
    "so is it to the of we be by my are was has had not for but yes no its can you get all one "
    "two she her his him who how why let now our out use way may did does per via thus hence "
    "if on as in".split()
)
_BASE_WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
               "nine": 9, "ten": 10, "sixteen": 16, "twelve": 12}  # fmt: skip


def prepare(text: str) -> str:
    r"""Spell LaTeX and Unicode variants one way; wrappers such as ``\text{…}`` go."""
    if len(text) > MAX_CHARS:
        raise TooComplex
    text = unraise(text)
    if not text.isascii():
        text = text.translate(_UNICODE)
        for letter, name in _GREEK.items():
            text = text.replace(letter, f"\\{name} ")
    text = re.sub(r"(?<=\d)\s*(?:\{,\}|,\\!|\\,)\s*(?=\d{3}(?!\d))", "", text)
    if "\\" in text:
        text = re.sub(r"\\mathbb\s*\{?([RZNQC])\}?", r"\\\1 ", text)
        text = _SPACES.sub(" ", _SIZES.sub("", text))
        text = re.sub(r"\\[dtc]frac(?![A-Za-z])", r"\\frac", text)
        text = re.sub(r"\\[dt]binom(?![A-Za-z])", r"\\binom", text)
        text = text.replace("\\$", " ").replace("\\(", " ").replace("\\)", " ")
        text = re.sub(r"(?<!\\)\\[\[\]]", " ", text)
        for _ in range(6):
            shorter = _WRAPPERS.sub(r" \1 ", text)
            if shorter == text:
                break
            text = shorter
        text = re.sub(r"\^\s*\{?\s*\\circ\s*\}?", r"\\degree ", text)
    return text.replace("$", " ").replace("`", " ").strip()


def tokenise(text: str) -> list[Token]:
    """Tokens of a prepared text, with an ``end`` token last.

    Raises:
        Unreadable: something in the text is not known.
        TooComplex: more tokens than any answer has.
    """
    text = _ungroup(text)
    tokens: list[Token] = []
    place, spaced = 0, False
    while place < len(text):
        match = _SCAN.match(text, place)
        if match is None:
            raise Unreadable(text[place])
        place = match.end()
        kind = match.lastgroup or ""
        if kind == "space":
            spaced = True
            continue
        for token in _tokens(kind, match[0]):
            tokens.append(token._replace(spaced=spaced))
            spaced = False
        if len(tokens) > MAX_TOKENS:
            raise TooComplex
    return [*tokens, Token("end", "")]


def _ungroup(text: str) -> str:
    """Remove thousands commas, except inside brackets, where commas separate."""
    if "," not in text:
        return text
    pieces, place, seen = [], 0, 0
    stack: list[bool] = []
    for match in _GROUPED.finditer(text):
        for index in range(seen, match.start()):
            char = text[index]
            if char in "([{":
                # The braces of \frac{1}{21,000} hold one number, those of {1,200} two.
                before = text[index - 1 : index]
                stack.append(char != "{" or not (before.isalpha() or before in ("}", "]", "^")))
            elif char in ")]}" and stack:
                stack.pop()
        seen = match.start()
        pieces.append(text[place : match.start()])
        pieces.append(match[0] if any(stack) else match[0].replace(",", ""))
        place = match.end()
    return "".join(pieces) + text[place:]


def _tokens(kind: str, text: str) -> list[Token]:
    if kind in ("op", "rel"):
        text = {"**": "^", "=<": "<=", "<>": "!=", ":=": "="}.get(text, text)
        return [Token(kind, text)]
    if kind in ("open", "close"):
        return [Token(kind, text)]
    if kind == "dots":
        return [Token("op", "dots")]
    if kind == "num":
        value = decimal(text)
        if value is None:
            raise TooComplex
        return [Token("num", text, value)]
    if kind == "repeat":
        return [Token("num", text, _repeating(text))]
    if kind == "based":
        return _based(text)
    return _command(text) if kind == "command" else _letters(text)


def _repeating(text: str) -> Fraction:
    head, period = re.findall(r"^(\d*\.\d*)\\[a-z]+\s*\{(\d+)\}", text)[0]
    whole, _, part = head.partition(".")
    fixed = Fraction(int(whole + part or 0), 10 ** len(part))
    return fixed + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(part))


def _based(text: str) -> list[Token]:
    digits, _, subscript = text.partition("_")
    name = subscript.strip("{()} \\")
    base = int(name) if name.isdigit() else _BASE_WORDS.get(name, 0)
    if len(digits) > 1000:
        raise TooComplex
    if 2 <= base <= 36 and all(int(digit, 36) < base for digit in digits):
        return [Token("num", text, Fraction(int(digits, base)))]
    raise Unreadable(text)


def _command(text: str) -> list[Token]:
    name = text[1:]
    if text in _RELATIONS:
        return [Token("rel", _RELATIONS[text])]
    if text in _OPERATORS:
        return [Token("op", _OPERATORS[text])]
    if text in _OPENING:
        return [Token("open", _OPENING[text])]
    if text in _CLOSING:
        return [Token("close", _CLOSING[text])]
    if text in _CONSTANTS:
        return [Token("sym", _CONSTANTS[text])]
    if name in FUNCTIONS:
        return [Token("func", name)]
    if name in _MACROS:
        return [Token("macro", name)]
    if name in _GREEK_NAMES:
        return [Token("sym", name)]
    if text == "\\\\":
        return [Token("op", "\\\\")]
    raise Unreadable(text)


def _letters(text: str) -> list[Token]:
    """A known word, or one symbol a letter; a long run of letters is a word, not a product."""
    if text in _WORDS:
        return [Token("sym", _WORDS[text])]
    if text in FUNCTIONS:
        return [Token("func", text)]
    if text in ("and", "or", "mod"):
        return [Token("op", text)]
    if text in ("sqrt", "binom", "cbrt"):
        return [Token("macro", text)]
    if text in _GREEK_NAMES and len(text) > 3:
        return [Token("sym", text)]
    if text in ("pmatrix", "bmatrix", "matrix", "vmatrix", "array", "cases", "Bmatrix",
                "smallmatrix", "aligned", "align", "gathered"):  # fmt: skip
        return [Token("env", text)]
    if not text.isupper() and (len(text) > 3 or text.lower() in _PROSE):
        raise Unreadable(text)
    return [Token("sym", letter) for letter in text]
