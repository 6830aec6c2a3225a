"""The models of a build: the policy, policies known by their rollouts alone, the generator."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import cast

from curate.engines.api import Engine
from curate.engines.models import ModelRef, open_engine, resolve_model
from curate.engines.server import ServerRef
from curate.pipelines.errors import ConfigError
from curate.pipelines.imports import Imports, Settled, read_imports
from curate.pipelines.recipe import Recipe
from curate.pipelines.replay import Replay
from curate.pipelines.spec import BuildSpec
from curate.pipelines.step import Metric, Need


@dataclass(frozen=True)
class Chosen:
    """Models that were asked for and are there, none of them loaded.

    Args:
        policy: the model to measure with, or None.
        imports: rollouts made elsewhere, or None.
        measured: the imported policy that stands in for a model, or None.
        generator: the model that writes prompts, or None.
    """

    policy: ModelRef | ServerRef | None = None
    imports: Imports | None = None
    measured: str | None = None
    generator: ModelRef | ServerRef | None = None


@dataclass(frozen=True)
class Policies:
    """Open models.

    Args:
        policy: what pass rates are measured with, or None.
        others: further policies, measured beside it by their rollouts.
        generator: what writes prompts, or None.
        imports: where imported rollouts came from, or None.
    """

    policy: Engine | Replay | None = None
    others: tuple[Replay, ...] = ()
    generator: Engine | Replay | None = None
    imports: Settled | None = None

    def needs(self, needs: AbstractSet[Need]) -> dict[str, Metric]:
        """What of these models enters the digest of a step that needs them."""
        found = dict[str, Metric]()
        if "engine" in needs and self.policy is not None:
            found["engine"] = self.policy.identity.key
            if self.others:
                found["others"] = [other.identity.key for other in self.others]
            if self.imports:
                found["imports"] = self.imports.digest
        if "generator" in needs and self.generator is not None:
            found["generator"] = self.generator.identity.key
        return found

    def records(self) -> dict[str, Metric]:
        """The models as the manifest keeps them."""
        records: dict[str, Metric] = {"policy": _record(self.policy)}
        if self.others:
            records["others"] = [_record(other) for other in self.others]
        if self.generator:
            records["generator"] = _record(self.generator)
        if self.imports:
            records["imports"] = {"digest": self.imports.digest}
        return records

    def close(self) -> None:
        """Free what the models hold."""
        for engine in (self.policy, self.generator):
            if engine:
                engine.close()


def choose_policies(spec: BuildSpec, recipe: Recipe, api_key: str | None) -> Chosen:
    """Find every model of a build, without loading one or writing anything.

    Raises:
        ConfigError: the recipe needs a model that is not named, or has no use for one that is.
        SourceError: imported rollouts cannot be read.
        EngineError: a model is not there.
    """
    if spec.replay:  # what a build has used is in its ledger, imported or not
        return Chosen()
    needs = {need for step in recipe.steps for need in step.needs}
    generator = None
    if spec.generator is not None:
        if "generator" not in needs:
            raise ConfigError(f"recipe {recipe.name!r} writes no prompts: --generator has no use")
        generator = resolve_model(spec.generator, api_key=api_key)
    if "engine" not in needs:
        if spec.imports:
            raise ConfigError(
                f"recipe {recipe.name!r} measures nothing: --import-rollouts has no use"
            )
        return Chosen(generator=generator)
    imports = read_imports(spec.imports) if spec.imports else None
    measured = _measured(spec.policy, imports, recipe)
    policy = None if measured else resolve_model(str(spec.policy), spec.revision, api_key)
    return Chosen(policy, imports, measured, generator)


def open_policies(chosen: Chosen, spec: BuildSpec, api_key: str | None) -> Policies:
    """Open what was chosen; weights load on the first completion that no cache holds."""
    generator = _open(chosen.generator, spec, api_key) if chosen.generator else None
    imports = chosen.imports
    names = imports.policies if imports else []
    others = tuple(cast(Imports, imports).replay(name) for name in names if name != chosen.measured)
    if imports and chosen.measured:
        return Policies(imports.replay(chosen.measured), others, generator, imports)
    engine = _open(chosen.policy, spec, api_key) if chosen.policy else None
    return Policies(engine, others, generator, imports)


def _measured(policy: str | None, imports: Imports | None, recipe: Recipe) -> str | None:
    """The imported policy that is measured, if one is."""
    names = imports.policies if imports else []
    if policy is None:
        if not names:
            raise ConfigError(f"recipe {recipe.name!r} measures prompts: give --policy")
        if len(names) > 1:
            raise ConfigError(
                f"--import-rollouts: rollouts of {len(names)} policies ({', '.join(names)}): "
                "name the one to measure with --policy (or a model; they come beside it)"
            )
        return names[0]
    return policy if policy in names else None


def _open(model: ModelRef | ServerRef, spec: BuildSpec, api_key: str | None) -> Engine:
    return open_engine(
        model,
        cache=spec.cache,
        engine=spec.engine,
        device=spec.device,
        batch_size=spec.batch_size,
        api_key=api_key,
        concurrency=spec.concurrency,
    )


def _record(engine: Engine | Replay | None) -> Metric:
    if engine is None:
        return None
    identity = engine.identity
    record: dict[str, Metric] = {
        "name": identity.model,
        "revision": identity.revision,
        "template": identity.template,
        "backend": identity.backend,
        "dtype": identity.dtype,
    }
    if isinstance(engine, Replay) and engine.settings is not None:
        record["settings"] = cast(Metric, dict(engine.settings))
    return record
