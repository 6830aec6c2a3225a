"""Answers that are wrong by construction, one for every gold, to try a reward function on.

Being wrong never rests on a verifier's word: a number differs by more than any agreed tolerance, a
letter names another option, a list has one item more, a JSON value has another type. Where the
gold's form is not understood, the answer is a number or a word made from the gold's hash, which the
gold cannot contain by chance.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from curate.verifiers.text import normalise

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_FIRST_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
_YES = frozenset("yes true correct right y t 1".split())


def wrong_answer(kind: str, gold: str, args: Mapping[str, object]) -> str:
    """An answer that differs from the gold.

    Args:
        kind: name of a verifier.
        gold: the reference answer.
        args: the verifier's options.
    """
    return _MAKERS.get(kind, _text)(gold.strip(), args)


def _math(gold: str, args: Mapping[str, object]) -> str:
    if _NUMBER.fullmatch(gold):
        return _shifted(gold, args)
    return str(_hash(gold))


def _quantity(gold: str, args: Mapping[str, object]) -> str:
    found = _FIRST_NUMBER.search(gold)
    if found is None or re.search(r"\d", gold[found.end() :]):
        return str(_hash(gold))
    number = found[0].replace(",", "")
    return gold[: found.start()] + _shifted(number, args) + gold[found.end() :]


def _shifted(number: str, args: Mapping[str, object]) -> str:
    """The number plus one, or plus more where a tolerance would forgive one."""
    value = Decimal(number)
    relative, absolute = (Decimal(str(args.get(name) or 0)) for name in ("rel_tol", "abs_tol"))
    tolerated = max(abs(value) * relative, absolute)
    step = 1 if tolerated < 1 else 2 * tolerated.to_integral_value() + 1
    return f"{value + step:f}"


def _choice(gold: str, args: Mapping[str, object]) -> str:
    texts = _option_texts(args.get("options"))
    letters = list(texts) or ["A", "B", "C", "D"]
    chosen = {letter.upper() for letter in _LETTER.findall(gold)} & set(letters)
    if re.fullmatch(r"[A-Z]{2,}", gold) and set(gold) <= set(letters):
        chosen = set(gold)
    if not chosen or (len(gold) > 3 and not args.get("multi")):
        named = [letter for letter, text in texts.items() if normalise(text) == normalise(gold)]
        chosen = set(named) or chosen
    others = [letter for letter in letters if letter not in chosen]
    return others[0] if others else letters[0]


def _option_texts(options: object) -> dict[str, str]:
    if isinstance(options, Mapping):
        return {str(letter).strip().upper(): str(text) for letter, text in options.items()}
    if isinstance(options, Sequence) and not isinstance(options, str):
        return {chr(ord("A") + index): str(text) for index, text in enumerate(options)}
    return {}


def _boolean(gold: str, args: Mapping[str, object]) -> str:
    labels = args.get("labels")
    if isinstance(labels, Sequence) and not isinstance(labels, str):
        others = [str(label) for label in labels if normalise(str(label)) != normalise(gold)]
        return others[0] if others else _word(gold)
    return "no" if normalise(gold) in _YES else "yes"


def _text(gold: str, args: Mapping[str, object]) -> str:
    if args.get("type") in ("date", "time"):
        # Another year, or another hour: the number keeps its digits' count.
        moved = re.sub(r"\d{4}|\d{1,2}(?=:)", lambda found: _next(found[0]), gold, count=1)
        return moved if moved != gold else _word(gold)
    return _word(gold)


def _next(digits: str) -> str:
    value = int(digits)
    return f"{value - 1 if value > 1 else value + 1:0{len(digits)}d}"


def _items(gold: str, args: Mapping[str, object]) -> str:
    extra = str(_hash(gold)) if re.search(r"\d", gold) else _word(gold)
    closing = gold[-1:] if gold[-1:] in ("]", ")", "}") else ""
    inner = gold[: -1 if closing else None].rstrip()
    separator = "" if inner in ("[", "(", "{") else ", "
    return f"{inner}{separator}{extra}{closing}"


def _structured(gold: str, args: Mapping[str, object]) -> str:
    return json.dumps({_word(gold): _hash(gold)})


def _hash(gold: str) -> int:
    """A number of nine digits that the gold would hold only by a chance of one in a billion."""
    digest = hashlib.blake2b(gold.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return 100_000_007 + int.from_bytes(digest) % 899_999_981


def _word(gold: str) -> str:
    return f"zq{_hash(gold)}"


_MAKERS: dict[str, Callable[[str, Mapping[str, object]], str]] = {
    "math": _math,
    "choice": _choice,
    "quantity": _quantity,
    "text": _text,
    "boolean": _boolean,
    "items": _items,
    "structured": _structured,
}
