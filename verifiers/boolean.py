"""Yes or no: one clear label, neither hedged nor denied; or one label of a declared set."""

import re

from curate.verifiers.extract import find, plain, sentences
from curate.verifiers.text import normalise
from curate.verifiers.verdict import Options, Verdict

_TRUE = frozenset("yes true correct right y t yeah yep yup affirmative ja oui sí si".split())
_FALSE = frozenset("no false incorrect wrong n f nope nah negative nein non untrue".split())
#: In running text these are ordinary words: "no bounds check", "the right side", "si", "f".
_ALONE = frozenset("y t n f si non sí ja nah".split())
_NEGATION = frozenset(
    "not isn't wasn't doesn't don't never cannot can't hardly neither nor without aren't".split()
)
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|[^\w\s]")
_CLAUSE = re.compile(r"[.,;:!?()—–]|\s-\s")


def _value(word: str) -> str | None:
    return "yes" if word in _TRUE else "no" if word in _FALSE else None


def check(gold: str, options: Options) -> str | None:
    """The gold must be yes or no in some word, or one of the declared labels."""
    if options.labels is not None:
        known = {normalise(label) for label in options.labels}
        return None if normalise(gold) in known else "gold_not_a_label"
    word = normalise(gold)
    return None if _value(word) or word in ("1", "0") else "gold_not_boolean"


def judge(gold: str, response: str, options: Options) -> Verdict:
    """Compare the one label that the response commits to."""
    found = find(response, options)
    if not found.text:
        return Verdict("incorrect", found.reason)
    text = found.answers[0].text if found.answers else found.text
    if found.taken_back:
        text = found.rest
    if options.labels is not None:
        want = normalise(gold)
        given = _declared(text, [normalise(label) for label in options.labels])
    else:
        word = normalise(gold)
        want = _value(word) or ("yes" if word == "1" else "no")
        given = _label(text)
        if given is None and normalise(text) in ("1", "0"):
            given = "yes" if normalise(text) == "1" else "no"
    if given is None:
        return Verdict("incorrect", "no_label")
    if given == "":
        return Verdict("incorrect", "hedged")
    equal = given == want
    return Verdict("correct" if equal else "incorrect", "equal" if equal else "not_equal", given)


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(plain(text).casefold())]


def _label(text: str) -> str | None:
    """``yes``, ``no``, ``""`` when both are claimed, None when neither is."""
    parts = [plain(part) for part in sentences(text)]
    # A question claims nothing.
    parts = [part for part in parts if not part.endswith("?")]
    if not parts:
        return None
    clauses = [clause for clause in _CLAUSE.split(parts[0]) if clause.strip()]
    if clauses:
        first = _words(clauses[0])
        if first and _value(first[0]) is not None:
            claims = _claims(first, bare=len(first) == 1)
            # "Yes, no, yes" names every label; a longer clause after the first only explains.
            for clause in clauses[1:]:
                words = _words(clause)
                if len(words) == 1:
                    claims |= _claims(words, bare=True)
            return claims.pop() if len(claims) == 1 else ""
    for part in reversed(parts):
        claims = _claims(_words(part), bare=False)
        if claims:
            return claims.pop() if len(claims) == 1 else ""
    return None


def _claims(words: list[str], *, bare: bool) -> set[str]:
    claims = set()
    for place, word in enumerate(words):
        value = _value(word)
        if value is None or (word in _ALONE and not bare):
            continue
        # "no" before a noun is a determiner, "right" before a noun an adjective.
        follows = words[place + 1] if place + 1 < len(words) else ""
        if place and word in ("no", "right", "negative") and follows.isalpha() and follows not in (
            "and", "or", "yes", "no", "true", "false",
        ):  # fmt: skip
            continue
        denied = any(one in _NEGATION for one in words[max(0, place - 3) : place])
        claims.add(({"yes": "no", "no": "yes"}[value]) if denied else value)
    return claims


def _declared(text: str, labels: list[str]) -> str | None:
    """The declared label that is named, ``""`` when several are or it is denied."""
    whole = normalise(text)
    if whole in labels:
        return whole
    for part in [*sentences(text)[:1], *reversed(sentences(text))]:
        clause = normalise(_CLAUSE.split(plain(part))[0])
        for reading in (clause, normalise(part)):
            named = {
                label for label in labels if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", reading)
            }
            named = {
                one for one in named if not any(one != other and one in other for other in named)
            }
            if named:
                denied = any(word in _NEGATION for word in reading.split())
                return named.pop() if len(named) == 1 and not denied else ""
    return None
