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
#: Entries of a ``Lookup``'s table of low bits, a power of two.
_TABLE = 1 << 20
_MASK = np.uint64(_TABLE - 1)


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


class Lookup:
    """Finds the places of equal hashes in an array that is searched many times.

    Args:
        hashes: uint64 [m], repeats allowed.
    """

    def __init__(self, hashes: Hashes) -> None:
        self._order = np.argsort(hashes, kind="stable")
        self._keys, self._starts, self._counts = np.unique(
            hashes[self._order], return_index=True, return_counts=True
        )
        # Most of what is looked up is not there; a table of the low bits says so at once.
        self._low_bits = np.zeros(_TABLE, np.bool_)
        self._low_bits[(hashes & _MASK).astype(np.int64)] = True

    def find(self, hashes: Hashes) -> tuple[Rows, Rows]:
        """All pairs of equal hashes: places in ``hashes`` [n], and places in its own [n]."""
        here = np.flatnonzero(self._low_bits[(hashes & _MASK).astype(np.int64)])
        at = np.searchsorted(self._keys, hashes[here])
        known = at < len(self._keys)
        here, at = here[known], at[known]
        equal = self._keys[at] == hashes[here]
        here, at = here[equal], at[equal]
        counts = self._counts[at]
        return np.repeat(here, counts), self._order[ranges(self._starts[at], counts)]


@dataclass(frozen=True)
class Runs:
    """All runs of a number of words in benchmark questions.

    Args:
        lookup: finds a run among them.
        owners: benchmark row of each, [m].
        sizes: distinct runs of each benchmark row.
    """

    lookup: Lookup
    owners: Rows
    sizes: Rows


class Benchmark:
    """Benchmark questions, made ready once for any number of comparisons.

    Args:
        frame: ``question`` and ``answer``.
        ngram: words of a run.
        short: words of a run of short questions.
    """

    def __init__(self, frame: pl.DataFrame, ngram: int, short: int) -> None:
        self.prepared = prepare(frame)
        self.ngram, self.short = ngram, short
        self.sketches = sketches(self.prepared["words"], SHINGLE)
        token_hashes = tokens(self.prepared)
        self.lengths = token_hashes.lengths()
        self.runs: dict[int, Runs] = {}
        for n in {ngram, short}:
            hashed, owners = _distinct(*token_hashes.grams(n))
            sizes = np.bincount(owners, minlength=len(self))
            self.runs[n] = Runs(Lookup(hashed), owners, sizes)
        self.bands = [
            (key, columns, Lookup(fold(self.prepared[key].to_numpy(), self.sketches[:, columns])))
            for columns in (slice(at, at + _BAND) for at in range(0, PERMUTATIONS, _BAND))
            for key in ("signature", "gold")
        ]

    def __len__(self) -> int:
        return self.prepared.height


def shared_runs(pool: pl.DataFrame, bench: Benchmark) -> tuple[Rows, Rows, Rows, Shares]:
    """Pairs that share a run of words.

    A run is ``bench.ngram`` words where both questions have as many, ``bench.short`` where the
    shorter has fewer but at least ``bench.short``; questions below that are not matched by runs
    at all.

    Args:
        pool: what ``prepare`` gives.
        bench: benchmark questions.

    Returns:
        Pool rows, benchmark rows, words of the run, and the share of the benchmark question's
        distinct runs that the prompt holds, each [n].
    """
    here = tokens(pool)
    parts: list[tuple[Rows, Rows, Rows, Shares]] = []
    for n, runs in sorted(bench.runs.items()):
        mine, rows = here.grams(n)
        left, right = runs.lookup.find(mine)
        # A pair of a prompt and a run counts once, however often the prompt repeats the run.
        pairs = np.unique(rows[left] * np.int64(len(runs.owners)) + right)
        left, right = np.divmod(pairs, max(len(runs.owners), 1))
        codes, shared = np.unique(
            left * np.int64(len(bench)) + runs.owners[right], return_counts=True
        )
        left, right = np.divmod(codes, max(len(bench), 1))
        is_long = np.minimum(here.lengths()[left], bench.lengths[right]) >= bench.ngram
        fits = is_long == (n == bench.ngram)
        share = shared / np.maximum(runs.sizes[right], 1)
        parts.append((left[fits], right[fits], np.full(int(fits.sum()), n), share[fits]))
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return joined[0], joined[1], joined[2], joined[3]


def alike(
    pool: pl.DataFrame, bench: Benchmark, threshold: float
) -> tuple[Rows, Rows, npt.NDArray[np.float32]]:
    """Pairs of whole questions that are nearly the same and share signature or answer.

    Args:
        pool: what ``prepare`` gives.
        bench: benchmark questions.
        threshold: least Jaccard similarity of the shingle sets.

    Returns:
        Pool rows, benchmark rows and similarity, each [n].
    """
    sketched = sketches(pool["words"], SHINGLE)
    meetings = [np.empty(0, np.int64)]
    for key, columns, lookup in bench.bands:
        left, right = lookup.find(fold(pool[key].to_numpy(), sketched[:, columns]))
        meetings.append(left * np.int64(len(bench)) + right)
    left, right = np.divmod(np.unique(np.concatenate(meetings)), max(len(bench), 1))
    both = np.concatenate([sketched, bench.sketches])
    near = agreement(both, left, right + pool.height) >= (threshold - _SLACK) * PERMUTATIONS
    left, right = left[near], right[near]
    words = pl.concat([pool["words"], bench.prepared["words"]])
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
