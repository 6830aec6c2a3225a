"""The Step contract: what a recipe can name, what it takes, and what it must leave behind."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeAlias

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from curate.engines.api import Engine
from curate.pipelines.errors import ConfigError
from curate.pipelines.ledger import Ledger
from curate.pipelines.pool import Pool, no_rejects
from curate.pipelines.replay import Replay

if TYPE_CHECKING:
    from curate.pipelines.imports import Settled

Metric: TypeAlias = str | int | float | bool | list["Metric"] | dict[str, "Metric"] | None
Need: TypeAlias = Literal["source", "engine", "generator", "verifiers"]

#: Recipe word → "module:Class". Loaded on use, so that ``curate --help`` imports none of them.
STEPS: dict[str, str] = {
    "qa": "curate.curators.qa:QuestionAnswer",
    "check": "curate.pipelines.check:Check",
    "dedup": "curate.pipelines.dedup:Dedup",
    "decontaminate": "curate.pipelines.decontaminate:Decontaminate",
    "measure": "curate.pipelines.measure:Measure",
    "select": "curate.pipelines.select:Select",
    "order": "curate.pipelines.order:Order",
    "shard": "curate.pipelines.shard:Shard",
}


class Progress(Protocol):
    """Where a step tells how far it is. Implementations draw; steps only count."""

    def start(self, label: str, total: int | None, unit: str) -> None:
        """A phase of ``total`` units begins."""
        ...

    def advance(self, n: int, **extra: float) -> None:
        """``n`` more units are done; ``extra`` are running figures worth showing."""
        ...

    def done(self) -> None:
        """The phase is over."""
        ...


class SilentProgress:
    """Draws nothing."""

    def start(self, label: str, total: int | None, unit: str) -> None:
        """Ignore."""

    def advance(self, n: int, **extra: float) -> None:
        """Ignore."""

    def done(self) -> None:
        """Ignore."""


@dataclass(frozen=True)
class Context:
    """What a step may use besides its input. No globals, no environment reads.

    Args:
        seed: the build's seed; take randomness from ``rng(seed, step, prompt_id)`` only.
        ledger: the build's rollouts.
        artifact: folder of the artifact being made; files a step writes there stay with it.
        engine: the policy (or its stored rollouts), or None when the build has none.
        others: stored rollouts of further policies, measured beside it.
        generator: a stronger model that writes prompts, or None.
        imports: the files of rollouts that some of these policies are known by, or None.
        workers: verifier processes.
        progress: reporter.
        source: what ``--source`` named, for curators.
    """

    seed: int
    ledger: Ledger
    artifact: Path
    engine: Engine | Replay | None = None
    others: tuple[Replay, ...] = ()
    generator: Engine | None = None
    imports: "Settled | None" = None
    workers: int = 2
    progress: Progress = field(default_factory=SilentProgress)
    source: object = None


@dataclass(frozen=True)
class StepResult:
    """What a step leaves behind.

    The law of conservation, checked on every step: ``rows in + made = kept + rejected``. For a
    curator, rows in are the source's rows, told in ``read``.

    Args:
        kept: the pool that goes on.
        rejected: ``REJECT_SCHEMA`` rows, one for every record that leaves the line here.
        made: rows the step added.
        read: rows a curator took from its source; None for every other step.
        metrics: JSON-able figures for the manifest, card and report.
    """

    kept: Pool
    rejected: pl.DataFrame = field(default_factory=no_rejects)
    made: int = 0
    read: int | None = None
    metrics: dict[str, Metric] = field(default_factory=dict)


class Step(BaseModel):
    """One configured piece of work; its fields are its settings.

    Class attributes:
        name: the word used in recipes and on the command line.
        version: raised whenever the same input and settings would give something else.
        needs: what enters the digest besides settings and input: the source's content, the
            policy's and the generator's identity, the verifiers' version.
        gives: groups of columns it fills: "pass_rate" (attempts … p_high), "rank" (rank, stage).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    version: ClassVar[int] = 1
    needs: ClassVar[frozenset[Need]] = frozenset()
    gives: ClassVar[frozenset[str]] = frozenset()

    def required_columns(self) -> frozenset[str]:
        """Groups of columns that a step before this one must have filled."""
        return frozenset()

    def inputs(self) -> Mapping[str, str]:
        """Outside files the step reads → digest of their content; a change reruns the step.

        Raises:
            CurateError: a file is missing or cannot be read.
        """
        return {}

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        """Do the work on ``pool``."""
        raise TypeError(f"{type(self).__name__} has no run method")


def step_names() -> list[str]:
    """Every word a recipe may use: built-in steps and those of the ``curate.steps`` group."""
    return sorted({*STEPS, *(point.name for point in entry_points(group="curate.steps"))})


def step_class(name: str) -> type[Step]:
    """The class behind a recipe word.

    Raises:
        ConfigError: no step has this name.
    """
    if name in STEPS:
        module, _, attribute = STEPS[name].partition(":")
        found = getattr(import_module(module), attribute)
    else:
        points = entry_points(group="curate.steps", name=name)
        if not points:
            raise ConfigError(f"unknown step {name!r}; known: {', '.join(step_names())}")
        found = next(iter(points)).load()
    if not (isinstance(found, type) and issubclass(found, Step)):
        raise ConfigError(f"step {name!r} is registered as {found!r}, which is no Step")
    return found


def rng(seed: int, step: str, prompt_id: str = "") -> np.random.Generator:
    """The only source of randomness: depends on no neighbour, shard or worker count."""
    digest = hashlib.sha256(f"{seed}\x1f{step}\x1f{prompt_id}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


@contextmanager
def phase(progress: Progress, label: str, total: int | None, unit: str) -> Iterator[Progress]:
    """Bracket a phase, so that its bar closes on errors too."""
    progress.start(label, total, unit)
    try:
        yield progress
    finally:
        progress.done()
