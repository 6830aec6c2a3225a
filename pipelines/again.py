"""A build taken up again from its manifest: judged anew, or measured further."""

from pathlib import Path
from typing import Any, cast

import polars as pl

from curate.engines.api import EngineIdentity
from curate.pipelines.errors import ConfigError
from curate.pipelines.pool import PROMPT_SCHEMA, read_parquet
from curate.pipelines.replay import Replay, text_key
from curate.pipelines.step import Metric
from curate.pipelines.store import Store, read_manifest


def stored_spec(build: Path) -> dict[str, Any]:
    """What a build was asked for, as fields of ``BuildSpec``.

    Raises:
        ConfigError: the folder is no build, or one made before its request was kept.
    """
    spec = read_manifest(build).get("spec")
    if not isinstance(spec, dict):
        raise ConfigError(f"{build}: its manifest does not say how it was made; build it once more")
    return {**spec, "out": build}


def stored_rollouts(store: Store) -> Replay:
    """The rollouts of a build's policy, under the texts of every pool it ever had.

    Raises:
        ConfigError: the build measured nothing.
    """
    policy = read_manifest(store.root).get("policy")
    if not isinstance(policy, dict):
        raise ConfigError(f"{store.root}: has no rollouts: nothing was measured")
    named = cast(dict[str, str], policy)
    identity = EngineIdentity(
        named["backend"], named["name"], named["revision"], named["template"], named["dtype"]
    )
    pools = [
        read_parquet(path, PROMPT_SCHEMA, "pool").select("id", "system", "question")
        for path in sorted(store.root.glob("steps/*/part-00000.parquet"))
    ]
    prompts = pl.concat(pools).unique(subset="id", keep="first", maintain_order=True)
    texts = prompts.select(
        pl.col("id").alias("prompt_id"), text_key(prompts, with_system=True).alias("text")
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
    return Replay(identity, draws.collect())


def further(build: Path, more: int) -> dict[str, Any]:
    """The request of a build with ``more`` rollouts a prompt.

    Raises:
        ConfigError: the build measured nothing.
    """
    fields = stored_spec(build)
    steps = cast("list[dict[str, Any]]", read_manifest(build)["steps"])
    measured = next((step for step in steps if step["name"] == "measure"), None)
    if measured is None:
        raise ConfigError(f"{build}: has no measured pool to add rollouts to")
    k = int(measured["settings"]["rollouts"]["per_prompt"]) + more
    settings = {name: dict(values) for name, values in fields["settings"].items()}
    settings.setdefault("measure", {})["rollouts"] = {"per_prompt": k}
    return {**fields, "settings": settings}


def verdict_figures(manifest: dict[str, Metric]) -> dict[str, Metric]:
    """What judging again changed, out of a finished build's manifest."""
    steps = cast("list[dict[str, Any]]", manifest["steps"])
    measured = next((step for step in steps if step["name"] == "measure"), None)
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
