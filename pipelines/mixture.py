"""Several sources as one: what is asked of each, opened together under one digest.

Weights are proportions among the *usable* prompts of the sources. No prompt is ever repeated to
reach one: the largest mixture that the scarcest source allows is kept, and what is over leaves as
``over_weight``.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import orjson
from pydantic import BaseModel, ConfigDict, Field

from curate.pipelines.errors import ConfigError
from curate.pipelines.hub import PREFIX, HubSource, open_hub
from curate.pipelines.sources import Source, open_source

AnySource: TypeAlias = Source | HubSource


class SourceSpec(BaseModel):
    """One source, as asked for on the command line or under ``sources:`` in a recipe.

    Args:
        uri: file, folder, glob, ``-``, or ``hf:owner/name[@revision][:config][:split]``.
        name: what its rows are called in ``source`` and ``source_id``; the file's or dataset's own
            name when None.
        question: column that holds the question; overrides the curator's setting.
        answer: column that holds the gold answer; overrides the curator's setting.
        kind: verifier, or the column that names it; overrides the curator's setting.
        system: system message for prompts that bring none; overrides the curator's setting.
        verifier_options: keyword options of ``verify`` for every row.
        domain: domain of rows that state none.
        language: language of rows that state none.
        license: licence of rows that state none.
        weight: share of the mixture, in any unit; all sources state one or none does.
        limit: read at most this many rows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str = Field(min_length=1)
    name: str | None = Field(default=None, pattern=r"^[^/:\s][^:\s]*$")
    question: str | None = None
    answer: str | None = None
    kind: str | None = None
    system: str | None = None
    verifier_options: dict[str, object] = Field(default_factory=dict)
    domain: str | None = None
    language: str | None = None
    license: str | None = None
    weight: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    limit: int | None = Field(default=None, ge=1)


@dataclass(frozen=True)
class Part:
    """One opened source of a mixture.

    Args:
        spec: what was asked.
        source: its rows.
        label: in front of ``source_id``: empty when there is only one source and it has no name.
    """

    spec: SourceSpec
    source: AnySource
    label: str

    @property
    def name(self) -> str:
        """What messages and the manifest call it."""
        return self.label or self.source.name

    @property
    def license(self) -> str | None:
        """Licence of rows that state none: the one given, else what the dataset's card says."""
        return self.spec.license or getattr(self.source, "license", None)


@dataclass(frozen=True)
class Mixture:
    """The sources of a build, in order.

    Args:
        parts: at least one.
    """

    parts: tuple[Part, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over contents, revisions and settings (not locations), 64 hex digits."""
        told = [
            [part.label, part.source.digest, part.license, part.spec.model_dump(exclude={"uri"})]
            for part in self.parts
        ]
        return hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS)).hexdigest()

    def records(self) -> list[dict[str, object]]:
        """What the manifest keeps of each source."""
        return [
            {
                "name": part.name,
                "uri": part.spec.uri,
                "digest": part.source.digest,
                "revision": getattr(part.source, "revision", None),
                "license": part.license,
                "weight": part.spec.weight,
                "limit": part.spec.limit,
            }
            for part in self.parts
        ]


def open_mixture(specs: Sequence[SourceSpec], limit: int | None = None) -> Mixture:
    """Open every source.

    Args:
        specs: at least one.
        limit: read at most this many rows of each; a spec's own limit may lower it.

    Raises:
        ConfigError: no source, a name twice, standard input twice, or weights on only some.
        SourceError: a source cannot be read.
    """
    if not specs:
        raise ConfigError("no source: give --source, or a recipe with sources")
    weighted = [spec.weight is not None for spec in specs]
    if any(weighted) and not all(weighted):
        bare = specs[weighted.index(False)].uri
        raise ConfigError(f"source {bare}: has no weight; give all sources one, or none")
    if sum(spec.uri == "-" for spec in specs) > 1:
        raise ConfigError("standard input (-) can be a source only once")
    sources = [_open(spec, limit) for spec in specs]
    labels = _labels(specs, sources)
    mixture = Mixture(tuple(Part(*each) for each in zip(specs, sources, labels, strict=True)))
    _ = mixture.digest  # what cannot be read is told now, before anything is made of the rest
    return mixture


def as_mixture(source: object) -> Mixture:
    """A mixture as it is, or a lone source as a mixture of one."""
    if isinstance(source, Mixture):
        return source
    if isinstance(source, Source | HubSource):
        return Mixture((Part(SourceSpec(uri=source.uri), source, ""),))
    raise TypeError(f"expected a Mixture or a Source, found {type(source).__name__}")


def _open(spec: SourceSpec, limit: int | None) -> AnySource:
    limits = [n for n in (spec.limit, limit) if n is not None]
    most = min(limits) if limits else None
    if spec.uri.startswith(PREFIX):
        return open_hub(spec.uri, limit=most)
    return open_source(spec.uri, limit=most)


def _labels(specs: Sequence[SourceSpec], sources: Sequence[AnySource]) -> list[str]:
    given = Counter(spec.name for spec in specs if spec.name)
    doubled = [name for name, count in given.items() if count > 1]
    if doubled:
        raise ConfigError(f"two sources are named {doubled[0]!r}")
    if len(specs) == 1:
        return [specs[0].name or ""]
    stems = [
        spec.name or Path(source.name).name.split(".")[0] or source.name
        for spec, source in zip(specs, sources, strict=True)
    ]
    clashing = {name for name, count in Counter(stems).items() if count > 1}
    return [
        f"{stem}-{place}" if stem in clashing and not spec.name else stem
        for place, (stem, spec) in enumerate(zip(stems, specs, strict=True), start=1)
    ]
