"""What prompts share with benchmark questions: runs of n words, and likeness of the whole question.

Runs of 13 words are the habit since GPT-3 (Brown et al., 2020, appendix C); for short questions 8.
Everything works on hashes in numpy arrays; texts are looked at again for the few rows that match.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from curate.pipelines import guard
from curate.pipelines.near import (
    PERMUTATIONS,
    Hashes,
    Rows,
    agreement,
    fold,
    jaccard,
    mix,
    ranges,
    sketches,
)

Shares: TypeAlias = npt.NDArray[np.float64]

#: Bytes of a shingle where whole questions are compared.
SHINGLE = 4
_TOKEN = r"\pL+|\d+"
_BAND = 2
_SLACK = 0.25


@dataclass(frozen=True)
class Tokens:
    """Words and numbers of texts, as hashes.

    Args:
        hashes: uint64, one text's after the other's.
        bounds: [n + 1], where each text's begin and end.
    """

    hashes: Hashes
    bounds: Rows

    def lengths(self) -> Rows:
        """Tokens a text, [n]."""
        return np.diff(self.bounds)

    def grams(self, n: int) -> tuple[Hashes, Rows]:
        """Hashes of all runs of ``n`` tokens that stay within a text, and their texts' rows."""
        n_windows = max(len(self.hashes) - n + 1, 0)
        hashed = np.zeros(n_windows, np.uint64)
        for place in range(n):
            hashed = mix(hashed * np.uint64(31) + self.hashes[place : place + n_windows])
        counts = np.maximum(self.lengths() - n + 1, 0)
        return hashed[ranges(self.bounds[:-1], counts)], np.repeat(np.arange(len(counts)), counts)


def prepare(frame: pl.DataFrame) -> pl.DataFrame:
    """What is compared, one row a question.

    Args:
        frame: ``question`` and ``answer``.

    Returns:
        ``words`` (String), ``tokens`` (List(UInt64)), ``signature`` and ``gold`` (UInt64).
    """
    return (
        frame.lazy()
        .select(
            guard.canonical(pl.col("question")).alias("_text"),
            guard.canonical(pl.col("answer")).str.replace_all(r"\s+", "").str.to_lowercase()
            .hash(seed=1).alias("gold"),
        )
        .select(
            guard.words(pl.col("_text")).alias("words"),
            guard.signature(pl.col("_text")).hash(seed=0).alias("signature"),
            "gold",
        )
        .with_columns(
            pl.col("words").str.extract_all(_TOKEN)
            .list.eval(pl.element().hash(seed=2)).alias("tokens")
        )
        .collect(engine="streaming")
    )  # fmt: skip


def tokens(prepared: pl.DataFrame) -> Tokens:
    """The token hashes of a prepared frame."""
    lengths = prepared["tokens"].list.len().to_numpy()
    bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    flat = prepared.filter(pl.col("tokens").list.len() > 0)["tokens"].explode()
    return Tokens(flat.to_numpy().astype(np.uint64), bounds)


def shared_runs(
    pool: pl.DataFrame, bench: pl.DataFrame, ngram: int, short: int
) -> tuple[Rows, Rows, Rows, Shares]:
    """Pairs that share a run of words.

    A run is ``ngram`` words where both questions have as many, ``short`` where the shorter has
    fewer but at least ``short``; questions below that are not matched by runs at all.

    Args:
        pool: what ``prepare`` gives.
        bench: the same for benchmark questions.
        ngram: words of a run.
        short: words of a run of short questions.

    Returns:
        Pool rows, benchmark rows, words of the run, and the share of the benchmark question's
        distinct runs that the prompt holds, each [n].
    """
    here, there = tokens(pool), tokens(bench)
    parts: list[tuple[Rows, Rows, Rows, Shares]] = []
    for n in sorted({ngram, short}):
        grams, owners = _distinct(*there.grams(n))
        sizes = np.bincount(owners, minlength=bench.height)
        mine, rows = here.grams(n)
        order = np.argsort(grams, kind="stable")
        ranked = grams[order]
        hit = np.isin(mine, ranked)
        mine, rows = _distinct(mine[hit], rows[hit])
        low = np.searchsorted(ranked, mine, "left")
        counts = np.searchsorted(ranked, mine, "right") - low
        left = np.repeat(rows, counts)
        right = owners[order[ranges(low, counts)]]
        codes, shared = np.unique(left * np.int64(bench.height) + right, return_counts=True)
        left, right = np.divmod(codes, max(bench.height, 1))
        is_long = np.minimum(here.lengths()[left], there.lengths()[right]) >= ngram
        fits = is_long == (n == ngram)
        share = shared / np.maximum(sizes[right], 1)
        parts.append((left[fits], right[fits], np.full(int(fits.sum()), n), share[fits]))
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return joined[0], joined[1], joined[2], joined[3]


def alike(
    pool: pl.DataFrame,
    bench: pl.DataFrame,
    bench_sketches: npt.NDArray[np.uint32],
    threshold: float,
) -> tuple[Rows, Rows, npt.NDArray[np.float32]]:
    """Pairs of whole questions that are nearly the same and share signature or answer.

    Args:
        pool: what ``prepare`` gives.
        bench: the same for benchmark questions.
        bench_sketches: their ``sketches``.
        threshold: least Jaccard similarity of the shingle sets.

    Returns:
        Pool rows, benchmark rows and similarity, each [n].
    """
    sketched = sketches(pool["words"], SHINGLE)
    found = np.empty(0, np.int64)
    for start in range(0, PERMUTATIONS, _BAND):
        columns = slice(start, start + _BAND)
        for key in ("signature", "gold"):
            mine = fold(pool[key].to_numpy(), sketched[:, columns])
            theirs = fold(bench[key].to_numpy(), bench_sketches[:, columns])
            order = np.argsort(theirs, kind="stable")
            low = np.searchsorted(theirs[order], mine, "left")
            counts = np.searchsorted(theirs[order], mine, "right") - low
            left = np.repeat(np.arange(len(mine)), counts)
            found = np.union1d(found, left * np.int64(bench.height) + order[ranges(low, counts)])
    left, right = np.divmod(found, max(bench.height, 1))
    both = np.concatenate([sketched, bench_sketches])
    near = agreement(both, left, right + pool.height) >= (threshold - _SLACK) * PERMUTATIONS
    left, right = left[near], right[near]
    words = pl.concat([pool["words"], bench["words"]])
    similarity = jaccard(words, left, right + pool.height, SHINGLE)
    keep = similarity >= threshold
    return left[keep], right[keep], similarity[keep]


def first_run(one: str, other: str, n: int) -> str:
    """The first run of ``n`` words that two texts share, or an empty text.

    >>> first_run("so what is two plus two", "what is two plus three", 3)
    'what is two'
    """
    words, known = (re.findall(r"[^\W\d_]+|\d+", text) for text in (one, other))
    runs = {tuple(known[place : place + n]) for place in range(len(known) - n + 1)}
    for place in range(len(words) - n + 1):
        if tuple(words[place : place + n]) in runs:
            return " ".join(words[place : place + n])
    return ""


def _distinct(hashes: Hashes, owners: Rows) -> tuple[Hashes, Rows]:
    """Each text's hashes once."""
    order = np.lexsort((hashes, owners))
    hashes, owners = hashes[order], owners[order]
    if not len(hashes):
        return hashes, owners
    fresh = (hashes[1:] != hashes[:-1]) | (owners[1:] != owners[:-1])
    fresh = np.concatenate([[True], fresh])
    return hashes[fresh], owners[fresh]
