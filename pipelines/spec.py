"""What a build is asked for."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from curate.engines.models import EngineName
from curate.pipelines.mixture import SourceSpec


class BuildSpec(BaseModel):
    """One build, as asked for: the flow's parameter.

    Args:
        source: what to read: URIs or ``SourceSpec``s; the recipe's own sources when empty.
        out: build directory.
        recipe: built-in name or path.
        settings: step → setting → value, laid over the recipe's.
        policy: model to measure with, or the name of a policy whose rollouts are imported; None
            for recipes that measure nothing, and for the only policy of ``imports``.
        revision: model revision.
        engine: what runs the policy, or None to choose.
        device: ``cpu``, ``cuda``, or None to choose.
        batch_size: sequences at once, or None to choose.
        cache: completion cache file, or None for no cache.
        seed: the build's seed.
        limit: read at most this many rows of each source.
        workers: verifier processes.
        concurrency: most requests to a server at once, or None for the default.
        generator: model for the steps that write prompts, or None.
        imports: files of rollouts made elsewhere (see ``imports``).
        replay: take every rollout from the build's ledger; no model is opened.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: tuple[SourceSpec, ...] = ()
    out: Path
    recipe: str = "frontier"
    settings: dict[str, dict[str, object]] = Field(default_factory=dict)
    policy: str | None = "tiny"
    revision: str | None = None
    engine: EngineName | None = None
    device: str | None = None
    batch_size: int | None = Field(default=None, ge=1)
    cache: Path | None = None
    seed: int = Field(default=0, ge=0, lt=2**63)
    limit: int | None = Field(default=None, ge=1)
    workers: int = Field(default=2, ge=1)
    concurrency: int | None = Field(default=None, ge=1)
    generator: str | None = None
    imports: tuple[str, ...] = ()
    replay: bool = False

    @field_validator("source", mode="before")
    @classmethod
    def _uris(cls, value: object) -> object:
        given = [value] if isinstance(value, str | SourceSpec) else value
        if not isinstance(given, list | tuple):
            return given
        return tuple({"uri": each} if isinstance(each, str) else each for each in given)
