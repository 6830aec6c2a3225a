"""The gold answer inside a source's answer text, and the verifier that fits it."""

import re

_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NUMBER = re.compile(r"[+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?%?|[+-]?\d+\s*/\s*\d+")
_SYMBOLIC = re.compile(r"[\w\s+\-*/^=<>≤≥(){}\[\],.:;|!%°π√∞∪∩±·×÷$\\]+")
_FORMULA = re.compile(r"[\d+*/^=<>_√π∞]|\w\s*-\s*\w")
_WORD = re.compile(r"[A-Za-z]{3,}")
_FUNCTIONS = frozenset(
    {
        "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh",
        "tanh", "log", "exp", "sqrt", "max", "min", "mod", "lim", "inf", "sup", "det", "gcd", "lcm",
        "infinity",
    }
)  # fmt: skip
BOOLEANS = frozenset({"yes", "no", "true", "false"})


def final_answer(text: str) -> str:
    r"""What an answer text comes to: after ``####``, else in the last ``\boxed``, else all of it.

    >>> final_answer("3 + 4 = <<3+4=7>>7. #### 1,207")
    '1207'
    >>> final_answer("so it is \\boxed{\\frac{1}{2}}.")
    '\\frac{1}{2}'
    """
    _, mark, after = text.rpartition("####")
    answer = after if mark else (last_boxed(text) or text)
    answer = answer.strip()
    return answer.replace(",", "") if _THOUSANDS.fullmatch(answer) else answer


def worked(text: str) -> str | None:
    """The solution in front of a marked final answer, or None when there is only an answer."""
    before, mark, _ = text.rpartition("####")
    if mark:
        return before.strip() or None
    boxed = last_boxed(text)
    return text.strip() if boxed is not None and len(text) > len(boxed) + 12 else None


def last_boxed(text: str) -> str | None:
    r"""Content of the last ``\boxed{…}`` or ``\fbox{…}`` whose braces balance, or None."""
    if "box" not in text:
        return None
    for start in reversed([match.end() for match in re.finditer(r"\\f?box(?:ed)?\s*\{", text)]):
        depth = 1
        for place in range(start, len(text)):
            if text[place] == "{" and text[place - 1] != "\\":
                depth += 1
            elif text[place] == "}" and text[place - 1] != "\\":
                depth -= 1
                if depth == 0:
                    return text[start:place]
    return None


def guess_kind(answer: str) -> str:
    r"""``math`` for numbers, LaTeX and formulas, ``boolean`` for yes/no, ``text`` for words.

    >>> [guess_kind(a) for a in ("12", "x^2+1", "\\frac12", "Yes", "Paris", "a_n = 2n")]
    ['math', 'math', 'math', 'boolean', 'text', 'math']
    """
    bare = answer.strip().strip("$").strip()
    if bare.lower() in BOOLEANS:
        return "boolean"
    if _NUMBER.fullmatch(bare) or "\\" in bare or "$" in answer:
        return "math"
    words = [word for word in _WORD.findall(bare) if word.lower() not in _FUNCTIONS]
    marked = _FORMULA.search(bare) is not None
    if not words and _SYMBOLIC.fullmatch(bare) and (marked or len(bare) == 1):
        return "math"
    return "text"
