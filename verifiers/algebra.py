"""The last resort for mathematics: math-verify, only ever run inside a worker process."""

from curate.verifiers.extract import find
from curate.verifiers.verdict import Options, Verdict


def load() -> None:
    """Import the computer algebra system; takes a second or two."""
    import math_verify  # noqa: F401


def decide(kind: str, gold: str, response: str, options: Options) -> Verdict:
    """Verdict of math-verify on the last explicit answer, or on the whole text."""
    from math_verify import parse, verify

    found = find(response, options)
    text = f"${found.answers[0].text}$" if found.answers else found.text
    want = parse(f"${gold}$", parsing_timeout=None, raise_on_error=True)
    if not want:
        return Verdict("error", "unparsable_gold")
    given = parse(text, parsing_timeout=None, raise_on_error=True)
    if not given:
        return Verdict("incorrect", "no_answer")
    equal = verify(want, given, timeout_seconds=None, allow_set_relation_comp=True)
    return Verdict(
        "correct" if equal else "incorrect", "equal" if equal else "not_equal", str(given[-1])
    )
