"""The last resort for mathematics: math-verify, only ever run inside a worker process."""

from typing import Any

from curate.verifiers.math import algebra_texts
from curate.verifiers.verdict import Options, Verdict


def load() -> None:
    """Import the computer algebra system; takes a second or two."""
    import math_verify  # noqa: F401


def decide(kind: str, gold: str, response: str, options: Options) -> Verdict:
    """Verdict of math-verify on two answers that the parser of this package cannot read.

    math-verify's own timeouts are off: they need signals, and the process is killed anyway.
    """
    from math_verify import verify

    wanted, given = algebra_texts(gold, response, options)
    want, found = _parsed(wanted), _parsed(given)
    if not want:
        return Verdict("error", "unparsable_gold")
    if not found:
        return Verdict("incorrect", "unreadable", given)
    # Not symmetric: an answer that contains less than the gold may pass one way round.
    equal = all(
        verify(
            one, other, strict=True, allow_set_relation_comp=True, timeout_seconds=None,
            raise_on_error=True,
        )
        for one, other in ((want, found), (found, want))
    )  # fmt: skip
    return Verdict("correct" if equal else "incorrect", "algebra" if equal else "not_equal", given)


def _parsed(text: str) -> list[Any]:
    """Expressions math-verify reads in a text, without its fallback to the bare string."""
    from math_verify import LatexExtractionConfig, parse

    found = parse(
        f"${text}$",
        extraction_config=[LatexExtractionConfig()],
        fallback_mode="no_fallback",
        parsing_timeout=None,
        raise_on_error=False,
    )
    return [one for one in found if not isinstance(one, str)]
