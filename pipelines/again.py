"""A finished build taken up again from its manifest: judged anew, or measured further.

Both go by ``done``, what the manifest keeps of the last build in the folder that finished, with the
models and measuring steps it had. What is under way, or has failed, does not count.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import polars as pl
from pydantic import ValidationError

from curate.engines.api import EngineIdentity
from curate.engines.models import resolve_model
from curate.pipelines.errors import ConfigError, CurateError
from curate.pipelines.imports import BACKEND, StoredImports
from curate.pipelines.policies import Policies
from curate.pipelines.pool import PROMPT_SCHEMA, REJECT_SCHEMA, read_parquet
from curate.pipelines.recipe import merge
from curate.pipelines.replay import Replay, text_key
from curate.pipelines.spec import BuildSpec
from curate.pipelines.step import Metric
from curate.pipelines.store import Store, read_manifest, read_object
from curate.pipelines.summary import step_record

_Record = dict[str, Any]


def finished(build: Path) -> Metric:
    """What the last build in a folder that finished was, or None when none has."""
    try:
        return read_manifest(build).get("done")
    except CurateError:  # no manifest, or none that can be read: nothing is known of it
        return None


def judged_anew(build: Path, settings: Mapping[str, Mapping[str, object]]) -> BuildSpec:
    """The request of a finished build, answered from its ledger alone.

    Args:
        build: the build directory.
        settings: step → setting → value, laid over those it had.

    Raises:
        ConfigError: the folder holds no finished build, or its sources are not there.
    """
    done = _done(build)
    spec = done["spec"]
    return _request(build, {**spec, "settings": merge(spec["settings"], settings), "replay": True})


def further(build: Path, more: int, api_key: str | None = None) -> BuildSpec:
    """The request of a finished build with ``more`` rollouts a prompt.

    Asked for once more after it was killed, it goes on to the same number.

    Args:
        build: the build directory.
        more: rollouts to add to every prompt; where several steps measure, to the most of any.
        api_key: the model server's.

    Raises:
        ConfigError: the folder holds no finished build, or it measured nothing, or with a policy
            that is not there to draw from.
        EngineError: the policy is gone.
    """
    done = _done(build)
    policy, measured, spec = done["policy"], done["measured"], done["spec"]
    if not measured or policy is None:
        raise ConfigError(f"{build}: has no measured pool to add rollouts to")
    if policy["backend"] == BACKEND:
        raise ConfigError(
            f"{build}: the rollouts of {policy['name']} were imported, there is no model to draw "
            "more from; build again with a file that holds more"
        )
    model = resolve_model(spec["policy"], spec["revision"], api_key)
    if model.revision != policy["revision"]:
        raise ConfigError(
            f"{build}: {policy['name']} is not the policy it was (revision {policy['revision']}, "
            f"now {model.revision}): nothing can be added to its rollouts; build again to measure "
            "the new one"
        )
    k = max(int(step["settings"]["rollouts"]["per_prompt"]) for step in measured) + more
    settings = merge(spec["settings"], {"measure": {"rollouts": {"per_prompt": k}}})
    return _request(build, {**spec, "settings": settings})


def stored_policies(store: Store) -> Policies:
    """The models of a finished build, by what they left behind.

    Rollouts of the policy, and of those measured beside it, are found under the texts of every pool
    the build ever had. A generator is there in name only: what it wrote is in those pools.

    Raises:
        ConfigError: no build in the folder has finished, or it measured nothing.
        PoolError: a pool or the ledger cannot be read.
    """
    done = _done(store.root)
    if done["policy"] is None:
        raise ConfigError(f"{store.root}: has no rollouts: nothing was measured")
    pools = [
        read_parquet(path, PROMPT_SCHEMA, "pool").select("id", "system", "question")
        for path in sorted(store.root.glob("steps/*/part-00000.parquet"))
    ]
    if not pools:
        raise ConfigError(f"{store.root}: its steps/ are gone, so nobody knows what was asked")
    prompts = pl.concat(pools).unique(subset="id", keep="first", maintain_order=True)
    texts = prompts.select(
        pl.col("id").alias("prompt_id"), text_key(prompts, with_system=True).alias("text")
    )
    generator = done.get("generator")
    return Policies(
        _stored(store, done["policy"], texts),
        tuple(_stored(store, other, texts) for other in done.get("others", [])),
        _stored(store, generator, texts) if generator else None,
        _imported(store, done),
    )


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


def _done(build: Path) -> _Record:
    manifest = read_manifest(build)
    done = manifest.get("done")
    if not isinstance(done, dict):
        raise ConfigError(
            f"{build}: no build has finished here ({manifest.get('status')}); run its `curate "
            "build` once more, which goes on where it stopped"
        )
    return cast(_Record, done)


def _request(build: Path, fields: Mapping[str, object]) -> BuildSpec:
    try:
        spec = BuildSpec.model_validate({**fields, "out": build})
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise ConfigError(
            f"{build}: was asked for in another way than this version of curate knows ({where}: "
            f"{error.errors()[0]['msg']}); build it once more"
        ) from error
    recipe = [spec.recipe] if spec.recipe.endswith((".yaml", ".yml")) else []
    for name in (*(source.uri for source in spec.source), *recipe):
        if _is_missing(name):
            raise ConfigError(
                f"{name}: no such file; {build} was made from it, and a path in it is seen from "
                "the folder that build was started in: go there, or bring it back"
            )
    return spec


def _is_missing(name: str) -> bool:
    """Whether a source or recipe is a plain path to nothing."""
    plain = "://" not in name and not name.startswith("hf:") and not set(name) & set("*?[")
    return plain and name != "-" and not Path(name).expanduser().exists()


def _imported(store: Store, done: _Record) -> StoredImports | None:
    if "imports" not in done:
        return None
    artifact = store.root / "steps" / done["measured"][0]["artifact"]
    unused = read_parquet(artifact / "unused_rollouts.parquet", REJECT_SCHEMA, "unused rollouts")
    metrics = cast(_Record, read_object(artifact / "step.json")["metrics"])
    return StoredImports(done["imports"]["digest"], unused, metrics["imported"])


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
