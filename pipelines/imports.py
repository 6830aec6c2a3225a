"""Rollouts made elsewhere, as policies of this build.

Two shapes are read, in any format a source may have:

* long: a row a prompt and policy, with ``prompt_id`` or a question (text or chat), ``policy`` (or
  ``model``) and one response or a list of them; also what a build's own ledger holds;
* wide: a row a question, and under each policy's name an object that holds its response.

A response is never taken as right because the file says so: all are judged here. How they were
sampled is kept where the file tells (``seed``, ``temperature``, ``top_p``, ``max_tokens``) and null
where it does not.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import polars as pl

from curate.curators.rows import json_text
from curate.engines.api import EngineIdentity
from curate.pipelines.errors import SourceError
from curate.pipelines.import_rows import ToldRollout, told_rollouts
from curate.pipelines.ledger import DRAW
from curate.pipelines.pool import REJECT_SCHEMA, ROLLOUT_SCHEMA, Schema
from curate.pipelines.readers import Problem
from curate.pipelines.replay import SETTINGS, Replay, text_key
from curate.pipelines.sources import open_source
from curate.pipelines.step import Metric

BACKEND = "imported"
_TOLD: Schema = {
    name: ROLLOUT_SCHEMA.get(name, pl.String()) for name in ("source_id", *ToldRollout._fields)
}


@dataclass(frozen=True)
class Imports:
    """What files of rollouts hold.

    Args:
        draws: a row a rollout, in the files' order: ``source_id``, ``policy``, ``DRAWN``, ``text``
            (see ``text_key``; without system message), ``SETTINGS`` and what else they were told
            with.
        unusable: ``REJECT_SCHEMA`` rows for what could not be read as a rollout.
    """

    draws: pl.DataFrame
    unusable: pl.DataFrame

    @property
    def policies(self) -> list[str]:
        """Names of the policies, in the files' order."""
        return self.draws["policy"].unique(maintain_order=True).to_list()

    def replay(self, policy: str) -> Replay:
        """One policy's rollouts.

        Its revision is a digest of their content, so that a changed file meets no old verdicts.
        """
        draws = self.draws.filter(pl.col("policy") == policy)
        digest = _digest(draws.drop("policy", "source_id"))
        settings = {name: _only(draws[name]) for name in SETTINGS}
        identity = EngineIdentity(BACKEND, policy, digest, BACKEND, "unknown")
        return Replay(identity, draws, settings, with_system=False)

    @property
    def digest(self) -> str:
        """16 hex digits over what could not be read; the rest is in the policies' revisions."""
        return _digest(self.unusable)

    def settle(self, prompts: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Metric]]:
        """What becomes of the files' rollouts on a pool: those of no use, and counts.

        Args:
            prompts: rows with ``id``, ``system`` and ``question``.

        Returns:
            ``REJECT_SCHEMA`` rows, and ``{read, used, unused}`` with ``unused`` by reason.
        """
        texts = text_key(prompts, with_system=False)
        ours = pl.col("prompt_id").is_in(prompts["id"].implode()).fill_null(False)
        ours |= pl.col("text").is_in(texts.implode()).fill_null(False)
        strange = self.draws.filter(~ours)
        unused = pl.concat(
            [self.unusable, _unused(strange, "no_prompt", "no prompt of the measured pool")]
        )
        reasons = unused["reason"].value_counts().sort("reason")
        return unused, {
            "read": len(self.draws) + len(self.unusable),
            "used": len(self.draws) - len(strange),
            "unused": dict(zip(reasons["reason"], reasons["count"], strict=True)),
        }


class StoredImports(NamedTuple):
    """What a finished build found out about the files it imported, for one that reads them not.

    Args:
        digest: the files' (see ``Imports.digest``).
        unused: ``REJECT_SCHEMA`` rows.
        figures: counts.
    """

    digest: str
    unused: pl.DataFrame
    figures: dict[str, Metric]

    def settle(self, prompts: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Metric]]:
        """What was found out, whatever has become of the prompts."""
        return self.unused, self.figures


#: What a measuring step needs of imported files.
Settled: TypeAlias = Imports | StoredImports


def read_imports(uris: Sequence[str]) -> Imports:
    """Read files of rollouts.

    Args:
        uris: files, folders or globs.

    Raises:
        SourceError: a file cannot be read, holds no rollout, or holds rollouts that one policy
            sampled in different ways.
    """
    parts = [_read(uri) for uri in uris]
    draws = pl.concat([part for part, _ in parts])
    # A ledger tells a rollout once more when it was judged again, and of rollouts in a ledger it is
    # known which are one. Elsewhere two equal responses are two rollouts, whatever their numbers.
    again = (
        pl.col("verifier_version").is_not_null() & ~pl.struct(*DRAW, "response").is_last_distinct()
    )
    twice, draws = draws.filter(again), draws.filter(~again)
    _check_sampling(draws)
    unusable = [*(bad for _, bad in parts), _unused(twice, "duplicate", "is there once more")]
    return Imports(draws, pl.concat(unusable))


def _read(uri: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    source = open_source(uri)
    told, bad = list[tuple[object, ...]](), list[tuple[object, ...]]()
    for name, row in source.rows():
        found = row.problem or told_rollouts(row.record)
        if isinstance(found, Problem):
            place = (None, source.name, f"{name}:{row.row}", "measure")
            bad.append((*place, *found, json_text(row.record)))
        else:
            told += [(f"{name}:{row.row}", *rollout) for rollout in found]
    unusable = pl.DataFrame(bad, schema=REJECT_SCHEMA, orient="row")
    if not told:
        first = unusable.row(0, named=True)
        raise SourceError(
            f"--import-rollouts {uri}: holds no rollout; {first['source_id']}: "
            f"{first['field'] or first['reason']}: {first['detail']}"
        )
    draws = pl.DataFrame(told, schema=_TOLD, orient="row", strict=False)
    texts = text_key(draws.with_columns(pl.lit(None, pl.String()).alias("system")), False)
    return draws.with_columns(
        texts.alias("text"),
        pl.lit(None, dtype=pl.Float64()).alias("seconds"),
        pl.lit("direct").alias("strategy"),
    ), unusable


def _unused(draws: pl.DataFrame, reason: str, detail: str) -> pl.DataFrame:
    about = pl.struct(name for name in draws.columns if name in _TOLD)
    told = {
        "id": pl.col("prompt_id"),
        "source": pl.col("source_id").str.replace(r":\d+$", ""),
        "source_id": pl.col("source_id"),
        "step": pl.lit("measure"),
        "reason": pl.lit(reason),
        "field": pl.lit(None, dtype=pl.String()),
        "detail": pl.format("rollout of {}: " + detail, "policy"),
        "record": about.struct.json_encode(),
    }
    return draws.select(value.alias(name) for name, value in told.items())


def _digest(frame: pl.DataFrame) -> str:
    digest = hashlib.sha256()
    for row in frame.iter_rows():
        digest.update(json_text(row).encode())
    return digest.hexdigest()[:16]


def _only(values: pl.Series) -> object:
    """The one value there is, or None when it is not the same everywhere."""
    return values[0] if values.n_unique() == 1 else None


def _check_sampling(draws: pl.DataFrame) -> None:
    """A pass rate is one of a policy and one way of sampling; only seeds may differ."""
    for (policy,), part in draws.group_by("policy", maintain_order=True):
        for name in ("revision", "template", "temperature", "top_p", "max_tokens"):
            firsts = part.unique(subset=name, keep="first", maintain_order=True)
            if len(firsts) > 1:
                values = zip(firsts[name], firsts["source_id"], strict=True)
                shown = " and ".join(
                    f"{'none' if value is None else value} ({place})" for value, place in values
                )
                raise SourceError(
                    f"--import-rollouts: rollouts of {policy} were made with {name} {shown}; keep "
                    "those of one policy and one way of sampling"
                )
