"""Near-duplicate pairs by MinHash: which prompts are nearly the same text with the same content.

Texts are sets of character n-grams (shingles). MinHash sketches (`rensa`) are cut into bands; two
texts meet when a band is equal *and* their signatures (``curate.pipelines.guard``) are, so that
prompts that differ in a number are never even compared. Every pair that meets is then verified by
the exact Jaccard similarity of its shingle sets: the sketch proposes, it never decides.

Source of the scheme: Broder, "On the resemblance and containment of documents" (1997); banding as
in Leskovec, Rajaraman and Ullman, "Mining of Massive Datasets", chapter 3.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from curate.pipelines import guard

Hashes: TypeAlias = npt.NDArray[np.uint64]
Rows: TypeAlias = npt.NDArray[np.int64]
Scores: TypeAlias = npt.NDArray[np.float32]

#: Hash functions of a sketch.
PERMUTATIONS = 64
#: Chance that a pair exactly at the threshold meets in no band, at most.
_MISS = 1e-3
#: Sketches estimate similarity with a standard error below 0.0625; four of them are given away.
_SLACK = 0.25
#: In a crowded band a row meets its nearest predecessors and the band's first rows, no others.
_NEIGHBOURS, _FIRST = 24, 8
_ROWS_AT_ONCE = 50_000
_PAIRS_AT_ONCE = 20_000
_BASE = np.uint64(0x9E3779B97F4A7C15)


class Near(BaseModel):
    """Settings of near-duplicate search.

    Args:
        threshold: least Jaccard similarity of two prompts' shingle sets, 0…1.
        shingle: length of a shingle in bytes of UTF-8 (characters, for English and LaTeX).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float = Field(default=0.7, gt=0.3, lt=1)
    shingle: int = Field(default=4, ge=2, le=16)


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows that are similar enough and share their signature.

    Args:
        later: row numbers [n].
        earlier: row numbers [n], each smaller than ``later``'s.
        similarity: float32 [n], 0…1.
        checked: pairs whose similarity was computed.
        guarded: pairs, at least, that looked alike to the sketch and differ in signature.
        skipped: pairs left out because too many rows shared a band.
    """

    later: Rows
    earlier: Rows
    similarity: Scores
    checked: int = 0
    guarded: int = 0
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.later)


def prepare(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns that near-duplicate search reads, one row a prompt.

    Args:
        frame: ``system``, ``question`` and ``choices``.

    Returns:
        ``words`` (String) and ``signature`` (UInt64).
    """
    return (
        frame.lazy()
        .select(guard.canonical(guard.text()).alias("_text"))
        .select(
            guard.words(pl.col("_text")).alias("words"),
            guard.signature(pl.col("_text")).hash(seed=0).alias("signature"),
        )
        .collect(engine="streaming")
    )


def near_pairs(
    prepared: pl.DataFrame, settings: Near, advance: Callable[[int], object] = lambda rows: None
) -> Pairs:
    """All pairs at or above the threshold, but for a chance of 0.1 % at the threshold itself.

    Args:
        prepared: what ``prepare`` gives.
        settings: threshold and shingle length.
        advance: called with the number of rows sketched since the last call.
    """
    texts, keys = prepared["words"], prepared["signature"].to_numpy()
    sketched = sketches(texts, settings.shingle, advance)
    width = rows_a_band(settings.threshold)
    found = np.empty(0, np.uint64)
    guarded = skipped = 0
    least = (settings.threshold - _SLACK) * PERMUTATIONS
    for start in range(0, PERMUTATIONS - width + 1, width):
        bare = fold(np.zeros(len(keys), np.uint64), sketched[:, start : start + width])
        guarded = max(guarded, _pairs_within(bare) - _pairs_within(bare ^ mix(keys)))
        for later, earlier, left_out in _meetings(bare ^ mix(keys)):
            skipped += left_out
            alike = agreement(sketched, later, earlier) >= least
            codes = (later[alike].astype(np.uint64) << np.uint64(32)) | earlier[alike].astype(
                np.uint64
            )
            found = np.union1d(found, codes)
    later = (found >> np.uint64(32)).astype(np.int64)
    earlier = (found & np.uint64(0xFFFFFFFF)).astype(np.int64)
    del sketched
    similarity = jaccard(texts, later, earlier, settings.shingle)
    keep = similarity >= settings.threshold
    return Pairs(later[keep], earlier[keep], similarity[keep], len(later), guarded, skipped)


def jaccard(texts: pl.Series, one: Rows, other: Rows, length: int) -> Scores:
    """Exact Jaccard similarity of the shingle sets of pairs of texts.

    Args:
        texts: String [n].
        one: row numbers [m].
        other: row numbers [m].
        length: bytes of a shingle.

    Returns:
        float32 [m].
    """
    out = np.empty(len(one), np.float32)
    for start in range(0, len(one), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        n_pairs = len(one[part])
        rows, places = np.unique(np.concatenate([one[part], other[part]]), return_inverse=True)
        sets, bounds = _sets(texts[rows], length)
        sizes = np.diff(bounds)
        members = np.repeat(np.tile(np.arange(n_pairs, dtype=np.uint64), 2), sizes[places])
        values = sets[ranges(bounds[places], sizes[places])]
        tagged = (members << np.uint64(32)) | values
        tagged.sort()
        shared = np.bincount(
            (tagged[1:][tagged[1:] == tagged[:-1]] >> np.uint64(32)).astype(np.int64),
            minlength=n_pairs,
        )
        total = sizes[places[:n_pairs]] + sizes[places[n_pairs:]]
        out[part] = shared / (total - shared)
    return out


def shingles(texts: pl.Series, length: int) -> tuple[Hashes, Rows]:
    """Hashes of all runs of ``length`` bytes.

    Args:
        texts: String [n], no nulls; a text shorter than a shingle is padded to one.
        length: bytes of a shingle.

    Returns:
        Hashes, one after the other, and the bounds [n + 1] of each text's.
    """
    padded = (" " + texts + " ").str.pad_end(length)
    offsets = np.concatenate([[0], np.cumsum(padded.str.len_bytes().to_numpy(), dtype=np.int64)])
    data = np.frombuffer("".join(padded).encode(), np.uint8)
    n_windows = max(len(data) - length + 1, 0)
    hashed = np.zeros(n_windows, np.uint64)
    for place in range(length):
        hashed = hashed * np.uint64(257) + data[place : place + n_windows] + np.uint64(1)
    counts = np.diff(offsets) - length + 1
    bounds = np.concatenate([[0], np.cumsum(counts)])
    return mix(hashed[ranges(offsets[:-1], counts)]), bounds


def _sets(texts: pl.Series, length: int) -> tuple[Hashes, Rows]:
    """``shingles`` without repeats, cut to 32 bits."""
    hashed, bounds = shingles(texts, length)
    owners = np.repeat(np.arange(len(texts), dtype=np.uint64), np.diff(bounds))
    tagged = np.unique((owners << np.uint64(32)) | (hashed >> np.uint64(32)))
    counts = np.bincount((tagged >> np.uint64(32)).astype(np.int64), minlength=len(texts))
    return tagged & np.uint64(0xFFFFFFFF), np.concatenate([[0], np.cumsum(counts)])


def sketches(
    texts: pl.Series, length: int, advance: Callable[[int], object] = lambda rows: None
) -> npt.NDArray[np.uint32]:
    """MinHash sketches, uint32 [n, ``PERMUTATIONS``]."""
    from rensa import RMinHash

    out = np.empty((len(texts), PERMUTATIONS), np.uint32)
    for start in range(0, len(texts), _ROWS_AT_ONCE):
        part = texts[start : start + _ROWS_AT_ONCE]
        hashed, bounds = shingles(part, length)
        matrix = RMinHash.digest_matrix_from_flat_token_hashes(
            hashed, bounds.astype(np.uint64), PERMUTATIONS, 0
        )
        out[start : start + len(part)] = matrix.to_rows()
        advance(len(part))
    return out


def rows_a_band(threshold: float) -> int:
    """Most rows a band may have for a pair at the threshold to meet nearly always."""
    return max(
        (width for width in range(2, 17)
         if (1 - threshold**width) ** (PERMUTATIONS // width) <= _MISS),
        default=1,
    )  # fmt: skip


def _meetings(keys: Hashes) -> Iterator[tuple[Rows, Rows, int]]:
    """Rows with equal keys, as (later, earlier, pairs left out) in batches."""
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    fresh = np.concatenate([[True], ranked[1:] != ranked[:-1]]) if len(keys) else np.empty(0, bool)
    starts = np.flatnonzero(fresh)
    place = np.arange(len(keys)) - starts[np.cumsum(fresh) - 1] if len(keys) else starts
    crowded = place - _NEIGHBOURS - _FIRST
    left_out = int(crowded[crowded > 0].sum())
    for step in range(1, _NEIGHBOURS + 1):
        here = np.flatnonzero(place >= step)
        if not len(here):
            return
        yield order[here], order[here - step], left_out if step == 1 else 0
    for step in range(_FIRST):
        here = np.flatnonzero(place > _NEIGHBOURS + step)
        if not len(here):
            return
        yield order[here], order[here - place[here] + step], 0


def _pairs_within(keys: Hashes) -> int:
    _, sizes = np.unique(keys, return_counts=True)
    return int((sizes * (sizes - 1) // 2).sum())


def agreement(sketches: npt.NDArray[np.uint32], one: Rows, other: Rows) -> Rows:
    """How many hash functions agree on each pair."""
    out = np.empty(len(one), np.int64)
    for start in range(0, len(one), 4 * _ROWS_AT_ONCE):
        part = slice(start, start + 4 * _ROWS_AT_ONCE)
        out[part] = (sketches[one[part]] == sketches[other[part]]).sum(axis=1)
    return out


def fold(keys: Hashes, columns: npt.NDArray[np.uint32]) -> Hashes:
    """One key a row of [n] keys and [n, k] columns."""
    for column in columns.T:
        keys = mix(keys * _BASE + column)
    return keys


def mix(values: Hashes) -> Hashes:
    """Spread bits (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def ranges(starts: Rows, counts: Rows) -> Rows:
    """Indices start, start + 1, … (``counts`` of them) for each start, one after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    out: Rows = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return out
