"""Text from outside put into Markdown: shown as it is, never obeyed.

Source paths, reasons and error messages may hold pipes, backticks, HTML, links or line breaks.
Every character that CommonMark, GitHub's tables or HTML give a meaning inside a line gets a
backslash, which all of them take back when they show it. Numeric references would do by the
standard, but Prefect's pages show them as they are written. Some viewers still make a link of a
bare address; it leads where it says.
"""

import re
from collections.abc import Iterable, Sequence

#: An underscore inside a word and a colon before a space do nothing; ``://`` and ``www.`` link.
_ACTIVE = re.compile(
    r"[&<>`*~\[\]\\|$@]|(?<![a-z0-9])_|_(?![a-z0-9])|:(?=\S)|(?<=www)\.", re.IGNORECASE
)
#: Control characters and those that turn the reading direction of what follows.
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
LIMIT = 500


def inline(text: object, limit: int = LIMIT) -> str:
    r"""A value as one line of plain text, safe in a paragraph, list item, heading or table cell.

    Args:
        text: what to show; white space is folded to single spaces.
        limit: most characters kept; a longer text ends in an ellipsis.

    >>> print(inline("a|b <i>c"))
    a\|b \<i\>c
    """
    folded = " ".join(str(text).split())
    cut = folded if len(folded) <= limit else folded[: limit - 1] + "…"
    seen = _UNSEEN.sub(lambda match: f"\\x{ord(match[0]):02x}", cut)
    return _ACTIVE.sub(r"\\\g<0>", seen)


def table(header: Sequence[str], rows: Iterable[Sequence[object]], text: Sequence[str] = ()) -> str:
    """A Markdown table of figures, aligned to the right but for the first column.

    Args:
        header: column names.
        rows: one cell for every column; numbers get thousands separators, ``None`` a dash.
        text: further columns that hold text, aligned to the left.
    """
    marks = ["---" if not i or name in text else "---:" for i, name in enumerate(header)]
    lines = [[inline(name) for name in header], marks]
    lines += [[cell(value) for value in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: object) -> str:
    """One value for a person to read, escaped.

    >>> cell(1234567), cell(0.123456), cell(None)
    ('1,234,567', '0.123', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return inline(f"{value:,.3f}" if isinstance(value, float) else value)
