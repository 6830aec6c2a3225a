"""Whether the golds of two prompts agree in value, and whether their wording is the same."""

import re
from collections import Counter

import numpy as np
import numpy.typing as npt
import polars as pl

from curate.pipelines import guard
from curate.pipelines.pool import verifier_arguments
from curate.verifiers.api import Row, verify_many

_WORD = re.compile(r"\w+")

#: Words that introduce, ask or connect, and name nothing a problem is about.
_FILLER = frozenset(
    "find determine calculate compute evaluate solve give show state what is are was were be "
    "please that if then the a an of in on at to "
    "for with and by let suppose given assume denote denotes "
    "represent represents we have has how which it its this these following value answer problem "
    "question number text rm mathrm frac left right so do does would will can as from there here "
    "problem hint note thanks thank you kindly help me".split()
)


def golds_agree(
    frame: pl.DataFrame,
    one: npt.NDArray[np.int64],
    other: npt.NDArray[np.int64],
    workers: int,
) -> npt.NDArray[np.bool_]:
    """Compare golds of pairs of prompts, by their text and, where that differs, by value.

    "1/2" and "0.5" agree when the first prompt's verifier calls each the other's equal; the gold
    of a choice is the text of the option, so options in another order agree too.

    Args:
        frame: prompts.
        one: row numbers [n], the prompts whose verifiers judge.
        other: row numbers [n].
        workers: verifier processes.

    Returns:
        bool [n]; an answer that a verifier cannot use agrees with its own text only.
    """
    involved, places = np.unique(np.concatenate([one, other]), return_inverse=True)
    facts = frame[involved].select(
        "kind", "answer", "verifier_options", "choices", gold=plain(guard.gold_text())
    )
    first, second = facts[places[: len(one)]], facts[places[len(one) :]]
    agree = (first["gold"] == second["gold"]).to_numpy().copy()
    asked = [
        place
        for place in np.flatnonzero(~agree).tolist()
        if first["choices"][place] is None and second["choices"][place] is None
    ]
    rows: list[Row] = []
    for place in asked:
        kind, options = first["kind"][place], first["verifier_options"][place]
        here, there = first["answer"][place], second["answer"][place]
        arguments = verifier_arguments(options, None)
        rows += [Row(kind, here, there, arguments), Row(kind, there, here, arguments)]
    verdicts = verify_many(rows, workers=workers)
    for place, forth, back in zip(asked, verdicts[::2], verdicts[1::2], strict=True):
        agree[place] = forth.value == back.value == "correct"
    return np.asarray(agree, bool)


def same_wording(one: str, other: str) -> bool:
    """True when two texts hold the same words, but for words that only ask and connect.

    >>> same_wording("Find the area of the square.", "What is the area of this square?")
    True
    >>> same_wording("Find the radius of the circle.", "Find the centre of the circle.")
    False
    """
    here, there = (Counter(_WORD.findall(text.lower())) for text in (one, other))
    return not ((here - there) + (there - here)).keys() - _FILLER


def plain(expression: pl.Expr) -> pl.Expr:
    """NFKC, lower case, single spaces: what makes two spellings one."""
    return (
        expression.str.normalize("NFKC")
        .str.to_lowercase()
        .str.replace_all(r"\s+", " ")
        .str.strip_chars()
    )
