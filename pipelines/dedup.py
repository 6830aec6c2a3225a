"""Dedup: one prompt a question, and none whose copies disagree about the answer.

Three passes, each over what the one before left:

1. *Exact.* System message, question and choices are the same after Unicode NFKC, case folding and
   collapsing white space.
2. *Near.* The texts are nearly the same (``curate.pipelines.near``).
3. *Semantic*, as an option. The texts mean nearly the same (``curate.pipelines.semantic``).

In the last two, prompts that differ in a number, an operator or another token of
``curate.pipelines.guard`` are never taken for one another. Clusters are stars: a prompt is removed
for its likeness to a prompt that stays, the earliest of its kind, so likeness is never chained.

Copies whose golds agree keep the first. Copies whose golds differ in value are all set aside:
at least one is wrong and nothing here can say which. A near copy counts as such only if its wording
is the same but for words that ask and connect; "the radius of the circle" and "the centre of the
circle" with different golds are simply two prompts, and both stay.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from curate.pipelines import guard
from curate.pipelines.agreement import golds_agree, plain, same_wording
from curate.pipelines.near import Near, Pairs, near_pairs, prepare
from curate.pipelines.pool import Pool, rejects
from curate.pipelines.semantic import Semantic, load_encoder, semantic_pairs
from curate.pipelines.step import Context, Metric, Need, Step, StepResult, phase


class Dedup(Step):
    """Exact, near and semantic duplicates.

    Args:
        near: settings of the search for near-duplicates; None for none.
        semantic: settings of the search by meaning; None for none.
    """

    name: ClassVar[str] = "dedup"
    version: ClassVar[int] = 3
    needs: ClassVar[frozenset[Need]] = frozenset({"verifiers"})

    near: Near | None = Near()
    semantic: Semantic | None = None

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        """Keep the first of each cluster; set aside clusters whose golds conflict.

        Raises:
            ConfigError: ``semantic`` is asked for and its encoder is not there.
        """
        # First, so that a missing package costs no work.
        encoder = load_encoder(self.semantic.model) if self.semantic else None
        found = _Findings(pool.frame, ctx)
        metrics: dict[str, Metric] = {"exact": _exact(found)}
        if self.near is not None:
            alive = found.alive()
            prepared = prepare(pool.frame[alive])
            with phase(ctx.progress, "near-duplicates", len(alive), "prompts") as progress:
                pairs = near_pairs(prepared, self.near, progress.advance)
            metrics["near"] = _settle(found, alive, prepared, pairs, "{:.2f} similar to {}")
        if self.semantic is not None and encoder is not None:
            alive = found.alive()
            prepared = prepare(pool.frame[alive])
            with phase(ctx.progress, "encoding", len(alive), "prompts") as progress:
                pairs = semantic_pairs(
                    pool.frame[alive], prepared, self.semantic, encoder, progress.advance
                )
            metrics["semantic"] = _settle(found, alive, prepared, pairs, "semantic {:.2f} to {}")
        return found.result(metrics)


@dataclass
class _Findings:
    """What the passes found so far, by row of the pool."""

    frame: pl.DataFrame
    ctx: Context
    left: dict[int, tuple[str, str]] = field(default_factory=dict)  # row → reason, detail
    head: dict[int, int] = field(default_factory=dict)  # row → the row its cluster is named by

    def alive(self) -> npt.NDArray[np.int64]:
        """Rows that have not left."""
        stays = np.ones(self.frame.height, bool)
        stays[list(self.left)] = False
        return np.flatnonzero(stays)

    def leave(self, row: int, head: int, reason: str, detail: str) -> None:
        """A row goes; its cluster is that of ``head``."""
        self.left[row] = reason, detail
        self.head[head] = self.head.get(head, head)
        if row != head:
            self.head[row] = head

    def name(self, row: int) -> str:
        """How a detail refers to a row."""
        return str(self.frame["source_id"][row] or "?")

    def result(self, metrics: dict[str, Metric]) -> StepResult:
        """Split the pool."""
        rows = sorted(self.head)
        ids = self.frame["id"][[self._root(row) for row in rows]]
        schema = {"_row": pl.UInt32(), "_cluster": pl.String()}
        clusters = pl.DataFrame({"_row": rows, "_cluster": ids}, schema=schema)
        frame = (
            self.frame.with_row_index("_row")
            .join(clusters, on="_row", how="left", maintain_order="left")
            .with_columns(pl.coalesce("_cluster", "cluster").alias("cluster"))
            .drop("_cluster")
        )
        told = [(row, *why) for row, why in sorted(self.left.items())]
        out = pl.DataFrame(
            told,
            schema={"_row": pl.UInt32(), "_reason": pl.String(), "_detail": pl.String()},
            orient="row",
        )
        gone = frame.join(out, on="_row", how="inner", maintain_order="left")
        kept = frame.join(out, on="_row", how="anti", maintain_order="left")
        return StepResult(
            kept=Pool(kept.drop("_row")),
            rejected=rejects(gone, "dedup", pl.col("_reason"), pl.col("_detail"), "question"),
            metrics=metrics,
        )

    def _root(self, row: int) -> int:
        while self.head[row] != row:
            row = self.head[row]
        return row


def _exact(found: _Findings) -> dict[str, Metric]:
    """Copies of a text: by hash first, then texts are compared for those that share one."""
    copies = (
        found.frame.with_row_index("_row")
        .filter(_same_text().hash(seed=0).is_duplicated())
        .select(
            pl.col("_row").cast(pl.Int64()),
            _same_text().alias("_text"),
            pl.concat_str("kind", plain(pl.col("answer")), separator="\x1f").alias("_gold"),
        )
        .filter(pl.len().over("_text") > 1)
        .with_columns(pl.col("_row").first().over("_text").alias("_first"))
    )
    golds = copies.unique(["_text", "_gold"], keep="first", maintain_order=True)
    agree = golds_agree(
        found.frame, golds["_first"].to_numpy(), golds["_row"].to_numpy(), found.ctx.workers
    )
    disputes = dict(golds.filter(~pl.Series(agree)).group_by("_first").len().iter_rows())
    duplicates = conflicts = 0
    sizes = dict(copies.group_by("_first").len().iter_rows())
    for row, first in copies.select("_row", "_first").iter_rows():
        if first in disputes:
            told = f"{sizes[first]} copies with {disputes[first] + 1} different golds"
            detail = f"{told}, first at {found.name(first)}"
            found.leave(row, first, "conflicting_gold", detail)
            conflicts += 1
        elif row != first:
            found.leave(row, first, "duplicate", f"copy of {found.name(first)}")
            duplicates += 1
    return {"duplicates": duplicates, "conflicting": conflicts}


@dataclass
class _Star:
    """A prompt that stays and those that are like it."""

    agreeing: list[tuple[int, float]] = field(default_factory=list)  # row, similarity
    disputing: list[tuple[int, float]] = field(default_factory=list)


def _settle(
    found: _Findings,
    alive: npt.NDArray[np.int64],
    prepared: pl.DataFrame,
    pairs: Pairs,
    told: str,
) -> dict[str, Metric]:
    """Form stars of the pairs, then let each star's golds decide."""
    later, earlier = alive[pairs.later], alive[pairs.earlier]
    agree = golds_agree(found.frame, earlier, later, found.ctx.workers)
    texts = prepared["words"]
    alike = np.ones(len(pairs), bool)
    for place in np.flatnonzero(~agree).tolist():
        one, other = texts[int(pairs.earlier[place])], texts[int(pairs.later[place])]
        alike[place] = same_wording(one, other)
    stars = _stars(later, earlier, pairs.similarity, agree, alike)
    duplicates = conflicts = 0
    for centre, star in stars.items():
        if star.disputing:
            conflicts += _set_aside(found, centre, star)
            continue
        for row, similarity in star.agreeing:
            found.leave(row, centre, "near_duplicate", told.format(similarity, found.name(centre)))
            duplicates += 1
    return {
        "duplicates": duplicates,
        "conflicting": conflicts,
        "pairs_checked": pairs.checked,
        "pairs_similar": len(pairs),
        "pairs_guarded": pairs.guarded,
        "pairs_skipped": pairs.skipped,
        "pairs_of_other_problems": int((~alike).sum()),
    }


def _stars(
    later: npt.NDArray[np.int64],
    earlier: npt.NDArray[np.int64],
    similarity: npt.NDArray[np.float32],
    agree: npt.NDArray[np.bool_],
    alike: npt.NDArray[np.bool_],
) -> dict[int, _Star]:
    """Take rows in order; each joins the star it disputes or is most like, or may become one."""
    neighbours: dict[int, list[tuple[bool, float, int]]] = defaultdict(list)
    for row, other, score, agreed in zip(
        later[alike].tolist(), earlier[alike].tolist(), similarity[alike].tolist(),
        agree[alike].tolist(), strict=True,
    ):  # fmt: skip
        neighbours[row].append((agreed, -score, other))
    stars: dict[int, _Star] = defaultdict(_Star)
    joined: set[int] = set()
    for row in sorted(neighbours):
        near = [known for known in neighbours[row] if known[2] not in joined]
        if not near:
            continue
        agreed, score, centre = min(near)
        (stars[centre].agreeing if agreed else stars[centre].disputing).append((row, -score))
        joined.add(row)
    return stars


def _set_aside(found: _Findings, centre: int, star: _Star) -> int:
    """All of a disputed star leave; returns how many."""

    def gold(row: int) -> str:
        return repr(found.frame["answer"][row])[:80]

    rival, score = star.disputing[0]
    found.leave(
        centre, centre, "conflicting_gold",
        f"gold {gold(centre)}, but {gold(rival)} at {found.name(rival)}, {score:.2f} similar",
    )  # fmt: skip
    for row, similarity in star.disputing:
        found.leave(
            row, centre, "conflicting_gold",
            f"gold {gold(row)}, but {gold(centre)} at {found.name(centre)}, "
            f"{similarity:.2f} similar",
        )  # fmt: skip
    for row, similarity in star.agreeing:
        found.leave(
            row, centre, "conflicting_gold",
            f"{similarity:.2f} similar to {found.name(centre)}, whose gold {gold(centre)} is "
            f"disputed by {found.name(rival)}",
        )  # fmt: skip
    return 1 + len(star.disputing) + len(star.agreeing)


def _same_text() -> pl.Expr:
    """Equal for exact copies."""
    return pl.concat_str([plain(part) for part in guard.parts()], separator="\x1f")
