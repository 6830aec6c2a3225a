"""One raw row → the parts of a prompt, in the shapes the field publishes.

Recognised: GSM8K, MATH/DeepScaleR/Big-Math, verl, TRL, open-instruct, multiple choice, yes/no.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

import orjson

from curate.curators import choices as options
from curate.curators.chat import ask, turns
from curate.curators.golds import BOOLEANS, final_answer, guess_kind, last_boxed, worked
from curate.pipelines.pool import letters
from curate.pipelines.readers import Problem
from curate.verifiers.api import kinds

Record: TypeAlias = dict[str, Any]

_QUESTIONS = ("question", "problem", "prompt", "query", "messages", "conversations", "input")
_ANSWERS = (
    "reward_model.ground_truth", "answer", "final_answer", "expected_answer", "ground_truth",
    "gold", "target", "answerKey", "answer_idx", "correct_answer", "label", "solution", "output",
    "response",
)  # fmt: skip
_CHOICES = ("choices", "options")
_ABOUT = {
    "domain": ("domain", "subject", "category"),
    "topic": ("topic", "type"),
    "language": ("language", "lang"),
    "license": ("license", "licence"),
    "source": ("data_source", "source", "dataset"),
}


class Columns(NamedTuple):
    """Which columns to read, where a source's own names are not recognised or not meant."""

    question: str | None
    answer: str | None
    kind: str | None
    kind_column: str | None
    system: str | None


class Draft(NamedTuple):
    """A prompt to be: columns of the pool, in order; ``source`` last, to be completed."""

    question: str
    system: str | None
    answer: str
    kind: str
    choices: list[str] | None
    format: str
    domain: str | None
    topic: str | None
    language: str | None
    license: str | None
    metadata: str
    solutions: list[dict[str, str]]
    source: str | None


class _Layout(NamedTuple):
    """Which of the known names a row's columns hold; nearly all rows of a source share one."""

    questions: tuple[str, ...]
    answers: tuple[str, ...]
    choices: str | None
    lettered: tuple[str, ...]
    about: tuple[tuple[str, tuple[str, ...]], ...]


@lru_cache(maxsize=256)
def _layout(columns: tuple[str, ...]) -> _Layout:
    there = set(columns)
    lettered = tuple(takewhile(there.__contains__, letters(options.MAX_CHOICES)))
    return _Layout(
        tuple(name for name in _QUESTIONS if name in there),
        tuple(name for name in _ANSWERS if name.partition(".")[0] in there),
        next((name for name in _CHOICES if name in there), None),
        lettered if len(lettered) > 1 else (),
        tuple((key, tuple(n for n in names if n in there)) for key, names in _ABOUT.items()),
    )


def draft(record: Record, columns: Columns) -> Draft | Problem:
    """The parts of a prompt that a row holds, or why it cannot be used."""
    used: set[str] = set()
    layout = _layout(tuple(record))
    asked = _question(record, columns, layout, used)
    if isinstance(asked, Problem):
        return asked
    system, question = asked
    texts = _texts(record, layout, used)
    if isinstance(texts, Problem):
        return texts
    field, value = _answer(record, columns, layout, texts is not None)
    if value is None:
        return Problem("missing_answer", field, _absent(field, record))
    used.add((field or "").partition(".")[0])
    kind = columns.kind
    if columns.kind_column is not None:
        kind = _text(record.get(columns.kind_column))
        used.add(columns.kind_column)
        if kind not in kinds():
            return Problem("unknown_kind", columns.kind_column, f"{kind!r} is no verifier")
    gold = _gold(value, kind, question, texts)
    if isinstance(gold, Problem):
        return gold._replace(field=field if gold.field == "answer" else gold.field)
    answer, kind, texts = gold
    about = {name: _first(record, names, used) for name, names in layout.about}
    solution = worked(value) if isinstance(value, str) else None
    if solution is None and isinstance(record.get("solution"), str) and field != "solution":
        solution = record["solution"].strip() or None
        used.add("solution")
    return Draft(
        question=options.listed(question, texts) if texts else question,
        system=system if system is not None else columns.system,
        answer=answer,
        kind=kind,
        choices=texts,
        format="choice" if texts else "open",
        metadata=json_text({k: v for k, v in record.items() if k not in used and v is not None}),
        solutions=[{"strategy": "source", "text": solution}] if solution else [],
        **about,
    )


def _question(
    record: Record, columns: Columns, layout: _Layout, used: set[str]
) -> tuple[str | None, str] | Problem:
    names = (columns.question,) if columns.question else layout.questions
    field = next((name for name in names if _filled(_get(record, name))), None)
    if field is None:
        asked = next(iter(names), None)
        return Problem("missing_question", asked, _absent(asked, record))
    value = _get(record, field)
    used.add(field.partition(".")[0])
    chat = turns(value)
    if chat is not None:
        return ask(chat, field)
    if not isinstance(value, str):
        return Problem("bad_type", field, f"expected text, found {type(value).__name__}")
    system = record.get("system", record.get("system_prompt"))
    if isinstance(system, str) and system.strip():
        used |= {"system", "system_prompt"}
        return system, value.strip()
    return None, value.strip()


def _texts(record: Record, layout: _Layout, used: set[str]) -> list[str] | Problem | None:
    name = layout.choices
    if name is not None and _filled(record[name]):
        used.add(name)
        texts = options.option_texts(record[name])
        return Problem("bad_choices", name, "not a list of options") if texts is None else texts
    lettered = list(takewhile(lambda letter: _filled(record[letter]), layout.lettered))
    if len(lettered) < 2:
        return None
    used |= set(layout.lettered)
    return options.option_texts({letter: record[letter] for letter in lettered})


def _answer(
    record: Record, columns: Columns, layout: _Layout, choice: bool
) -> tuple[str | None, Any]:
    """Field and value of the answer; a solution counts only if it marks its final answer."""
    if columns.answer:
        value = _get(record, columns.answer)
        return columns.answer, value if _filled(value) else None
    for name in layout.answers:
        value = _get(record, name)
        if not _filled(value):
            continue
        if name == "solution" and not choice and isinstance(value, str) and not _marked(value):
            continue
        return name, value
    return next(iter(layout.answers), None), None


def _marked(solution: str) -> bool:
    return "####" in solution or last_boxed(solution) is not None or len(solution) <= 40


def _gold(
    value: object, kind: str | None, question: str, texts: list[str] | None
) -> tuple[str, str, list[str] | None] | Problem:
    """Canonical answer, kind and choices."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if texts is None and kind in {None, "choice"} and isinstance(value, str):
        inline = options.inline_options(question)
        if inline and not isinstance(options.chosen(value, inline), Problem):
            texts = inline
    if texts is not None and kind in {None, "choice"}:
        letter = options.chosen(value, texts)
        return letter if isinstance(letter, Problem) else (letter, "choice", texts)
    if isinstance(value, list | dict):
        fits = "items" if isinstance(value, list) else "structured"
        return json_text(value), kind or fits, texts
    text = _text(value)
    if text is None:
        return Problem("bad_type", "answer", f"a gold cannot be a {type(value).__name__}")
    answer = final_answer(text)
    if not answer:
        return Problem("missing_answer", "answer", "nothing after the answer's mark")
    found = kind or guess_kind(answer)
    if found == "boolean" and answer.lower() in BOOLEANS:
        answer = answer.lower()
    return answer, found, texts


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # A column of integers with gaps arrives as floats.
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return str(value) if isinstance(value, int) else None


def _first(record: Record, names: tuple[str, ...], used: set[str]) -> str | None:
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value.strip():
            used.add(name)
            return value.strip()
    return None


def _get(record: Record, path: str) -> Any:
    if path in record:
        return record[path]
    value: Any = record
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _filled(value: object) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, float) and value != value:  # NaN marks a gap in tables
        return False
    return value is not None and value not in ([], {})


def _absent(field: str | None, record: Record) -> str:
    if field is not None and _get(record, field) is None:
        there = field.partition(".")[0] in record
        return f"{field} is null" if there else f"no column {field}"
    if field is not None:
        return f"{field} is empty"
    return "none of the known columns; found " + ", ".join(map(str, record))


def paths(record: Record) -> Iterator[str]:
    """Names of a row's columns, and ``a.b`` for those one level down."""
    for name, value in record.items():
        yield str(name)
        if isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in value)


def suggestion(word: str, known: list[str]) -> str:
    """The end of a message about an unknown name: what was meant, and what there is."""
    close = get_close_matches(word, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{hint} (found: {', '.join(known[:30])})"


def json_text(value: object) -> str:
    """A value of a row as JSON text; what JSON cannot hold as its ``str``."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # lone surrogates, integers over 64 bits
        import json

        return json.dumps(value, default=str, ensure_ascii=True)
