"""A build taken up again from its manifest: judged anew, or measured further."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import polars as pl

from curate.engines.api import EngineIdentity
from curate.engines.models import resolve_model
from curate.pipelines.errors import ConfigError
from curate.pipelines.imports import BACKEND
from curate.pipelines.pool import PROMPT_SCHEMA, read_parquet
from curate.pipelines.recipe import merge
from curate.pipelines.replay import Replay, text_key
from curate.pipelines.step import Metric
from curate.pipelines.store import Store, read_manifest
from curate.pipelines.summary import step_record


def stored_spec(build: Path) -> dict[str, Any]:
    """What a build was asked for, as fields of ``BuildSpec``.

    Raises:
        ConfigError: the folder is no build, or one made before its request was kept.
    """
    spec = read_manifest(build).get("spec")
    if not isinstance(spec, dict):
        raise ConfigError(f"{build}: its manifest does not say how it was made; build it once more")
    return {**spec, "out": build}


class StoredModels(NamedTuple):
    """The models of a finished build, by what they left behind."""

    policy: Replay
    others: tuple[Replay, ...]
    generator: Replay | None


def stored_models(store: Store) -> StoredModels:
    """The rollouts of a build's policy, and of those measured beside it.

    They are found under the texts of every pool the build ever had. A generator is there in name
    only: what it wrote is in those pools.

    Raises:
        ConfigError: the build measured nothing.
    """
    manifest = read_manifest(store.root)
    policy = manifest.get("policy")
    if not isinstance(policy, dict):
        raise ConfigError(f"{store.root}: has no rollouts: nothing was measured")
    pools = [
        read_parquet(path, PROMPT_SCHEMA, "pool").select("id", "system", "question")
        for path in sorted(store.root.glob("steps/*/part-00000.parquet"))
    ]
    prompts = pl.concat(pools).unique(subset="id", keep="first", maintain_order=True)
    texts = prompts.select(
        pl.col("id").alias("prompt_id"), text_key(prompts, with_system=True).alias("text")
    )
    others = cast("list[dict[str, Any]]", manifest.get("others", []))
    generator = cast("dict[str, Any] | None", manifest.get("generator"))
    return StoredModels(
        _stored(store, policy, texts),
        tuple(_stored(store, other, texts) for other in others),
        _stored(store, generator, texts) if generator else None,
    )


def _stored(store: Store, record: Mapping[str, Any], texts: pl.DataFrame) -> Replay:
    identity = EngineIdentity(
        record["backend"], record["name"], record["revision"], record["template"], record["dtype"]
    )
    mine = [
        pl.col(name) == pl.lit(value)
        for name, value in (
            ("policy", identity.model),
            ("revision", identity.revision),
            ("template", identity.template),
        )
    ]
    draws = store.ledger.scan().filter(*mine).join(texts.lazy(), on="prompt_id", how="left")
    return Replay(identity, draws.collect(), record.get("settings"))


def further(build: Path, more: int, api_key: str | None = None) -> dict[str, Any]:
    """The request of a build with ``more`` rollouts a prompt.

    Args:
        build: the build directory.
        more: rollouts to add to every prompt.
        api_key: the model server's.

    Raises:
        ConfigError: the build measured nothing, or with a policy that is not there to draw from.
        EngineError: the policy is gone.
    """
    fields = stored_spec(build)
    manifest = read_manifest(build)
    measured, policy = step_record(manifest, "measure"), manifest.get("policy")
    if measured is None or not isinstance(policy, dict):
        raise ConfigError(f"{build}: has no measured pool to add rollouts to")
    if policy["backend"] == BACKEND:
        raise ConfigError(
            f"{build}: the rollouts of {policy['name']} were imported, there is no model to draw "
            "more from; build again with a file that holds more"
        )
    model = resolve_model(fields["policy"], fields["revision"], api_key)
    if model.revision != policy["revision"]:
        raise ConfigError(
            f"{build}: {policy['name']} is not the policy it was (revision {policy['revision']}, "
            f"now {model.revision}): nothing can be added to its rollouts; build again to measure "
            "the new one"
        )
    k = int(measured["settings"]["rollouts"]["per_prompt"]) + more
    return {
        **fields,
        "settings": merge(fields["settings"], {"measure": {"rollouts": {"per_prompt": k}}}),
    }


def verdict_figures(manifest: dict[str, Metric]) -> dict[str, Metric]:
    """What judging again changed, out of a finished build's manifest."""
    measured = step_record(manifest, "measure")
    metrics: dict[str, Any] = dict(measured["metrics"]) if measured else {}
    if measured and measured["reused"]:  # its figures are those of the run that made it
        metrics |= {"generated": 0, "rejudged": 0, "changed_verdicts": {}}
    summary = cast(dict[str, Any], manifest["summary"])
    return {
        "verifiers": manifest["verifiers"],
        "rollouts": metrics.get("rollouts", 0),
        "generated": metrics.get("generated", 0),
        "rejudged": metrics.get("rejudged", 0),
        "changed_verdicts": metrics.get("changed_verdicts", {}),
        "without_rollouts": metrics.get("without_rollouts", 0),
        "rows_out": summary["rows_out"],
    }
