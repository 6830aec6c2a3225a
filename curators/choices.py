"""Multiple choice: option lists in the shapes sources use, and which option the answer means."""

import re

import orjson

from curate.pipelines.pool import letters
from curate.pipelines.readers import Problem

MAX_CHOICES = 26
_LETTER = re.compile(r"\(?\s*([A-Za-z])\s*[).:]?")
_LISTED = re.compile(r"^\s*\(?([A-Z])[).:]\s+(\S.*?)\s*$", re.MULTILINE)


def option_texts(value: object) -> list[str] | None:
    """Option texts in order, or None when the value is no option list.

    Takes a list of texts, ``{"text": […], "label": […]}``, ``{"A": …, "B": …}``, a list of
    ``{"label"/"key", "text"/"content"}``, JSON text of any of these, or ``one|other``.
    """
    if isinstance(value, str):
        value = _from_text(value)
    if isinstance(value, dict):
        texts = value.get("text")
        value = texts if isinstance(texts, list) else _by_letter(value)
    if not isinstance(value, list) or not value:
        return None
    found = [_option(item) for item in value]
    texts = [text for text in found if text is not None]
    return texts if len(texts) == len(found) else None


def inline_options(question: str) -> list[str] | None:
    """Options written into the question as ``A. …`` or ``(A) …`` lines, from A without gaps."""
    found = _LISTED.findall(question)
    if len(found) < 2 or [letter for letter, _ in found] != letters(len(found)):
        return None
    return [text for _, text in found]


def chosen(answer: object, texts: list[str]) -> str | Problem:
    """Letter of the option an answer means: a 0-based index, a letter, or the option's text.

    Text is looked for first, so that an answer "3" among the options 1, 2, 3 is the option 3.
    """
    if not 2 <= len(texts) <= MAX_CHOICES:
        return Problem("bad_choices", "choices", f"{len(texts)} options; 2 to {MAX_CHOICES} fit")
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    if isinstance(answer, int) and not isinstance(answer, bool):
        return _at(answer, texts)
    text = str(answer).strip()
    same = [i for i, option in enumerate(texts) if option.strip().casefold() == text.casefold()]
    if len(same) > 1:
        return Problem("bad_choices", "answer", f"{text!r} is the text of {len(same)} options")
    if same:
        return letters(len(texts))[same[0]]
    letter = _LETTER.fullmatch(text)
    if letter and letter.group(1).upper() in letters(len(texts)):
        return letter.group(1).upper()
    if text.isascii() and text.isdigit():
        return _at(int(text), texts)
    return Problem("bad_choices", "answer", f"{text[:80]!r} names none of {len(texts)} options")


def listed(question: str, texts: list[str]) -> str:
    """The question with its options under it, unless it lists them already."""
    inline = inline_options(question)
    if inline is not None and [t.strip() for t in inline] == [t.strip() for t in texts]:
        return question
    lines = (f"{name}. {text}" for name, text in zip(letters(len(texts)), texts, strict=True))
    return "\n".join([question.rstrip(), *lines])


def _at(index: int, texts: list[str]) -> str | Problem:
    if 0 <= index < len(texts):
        return letters(len(texts))[index]
    detail = f"index {index} of {len(texts)} options (counted from 0)"
    return Problem("bad_choices", "answer", detail)


def _from_text(value: str) -> object:
    text = value.strip()
    if text[:1] in "[{":
        try:
            loaded: object = orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
        return loaded
    parts = [part.strip() for part in text.split("|")]
    return parts if len(parts) > 1 else None


def _by_letter(value: dict[object, object]) -> list[object] | None:
    names = sorted(str(key) for key in value)
    return [value[name] for name in names] if names == letters(len(names)) else None


def _option(item: object) -> str | None:
    if isinstance(item, dict):
        item = next((item[k] for k in ("text", "content", "value") if k in item), None)
    if isinstance(item, bool) or not isinstance(item, str | int | float):
        return None
    return str(item).strip()
