"""A build in progress: what was asked for, the resources it holds, and how one step is run."""

import platform
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import cast

from curate import __version__
from curate.pipelines.again import finished, stored_policies
from curate.pipelines.card import write_card
from curate.pipelines.errors import PoolError
from curate.pipelines.mixture import Mixture, open_mixture
from curate.pipelines.policies import Policies, choose_policies, open_policies
from curate.pipelines.pool import Pool
from curate.pipelines.recipe import Recipe, load_recipe
from curate.pipelines.report import write_report
from curate.pipelines.spec import BuildSpec
from curate.pipelines.step import (
    Context,
    Metric,
    Progress,
    SilentProgress,
    Step,
    StepResult,
)
from curate.pipelines.store import PoolRef, Store, digest_of
from curate.pipelines.summary import summarise
from curate.verifiers.api import VERIFIER_VERSION


@dataclass
class Session:
    """An open build directory with its recipe, source and engine.

    Args:
        spec: what was asked for.
        recipe: its steps.
        store: the build directory.
        source: what is read.
        policies: its models.
        progress: reporter.
        refs: artifacts of the steps so far.
        records: their manifest entries.
        done: what the folder's last finished build was (see ``again``). It stays in the manifest
            while another is under way, so that one that fails is not taken for it.
        started: when, in seconds of the performance counter.
    """

    spec: BuildSpec
    recipe: Recipe
    store: Store
    source: Mixture
    policies: Policies
    progress: Progress
    refs: list[PoolRef] = field(default_factory=list)
    records: list[dict[str, Metric]] = field(default_factory=list)
    done: Metric = None
    started: float = field(default_factory=perf_counter)

    def run(self, index: int, step: Step, ref: PoolRef | None) -> PoolRef:
        """Run one step, or take its artifact when it is there.

        Raises:
            PoolError: rows in + made ≠ kept + rejected.
            CurateError: whatever the step raises.
        """
        digest = self._digest(step, ref)
        found = self.store.find(index, step.name, digest)
        made = found or self._make(index, step, ref, digest)
        self.refs.append(made)
        self.records.append({**made.record(), "reused": found is not None})
        self._manifest("running" if made.rows else "empty")
        return made

    def finish(self) -> dict[str, Metric]:
        """Lay out shards, rejects and manifest; returns the manifest."""
        self.store.publish(self.refs)
        self.done = {
            "spec": self._asked(),
            **self.policies.records(),
            "measured": [
                {"artifact": record["artifact"], "settings": record["settings"]}
                for record in self.records
                if record["name"] == "measure"
            ],
        }
        manifest = self._manifest("complete")
        write_card(self.spec.out, manifest)
        write_report(self.spec.out, manifest)
        return manifest

    def fail(self, step: str, error: str) -> None:
        """Note in the manifest where the build stopped."""
        self._manifest(f"failed at {step}: {error}")

    def _make(self, index: int, step: Step, ref: PoolRef | None, digest: str) -> PoolRef:
        started = perf_counter()
        pool = ref.load() if ref else Pool.empty()
        with self.store.scratch(index, step.name, digest) as scratch:
            result = step.run(pool, self._context(scratch))
            rows_in = len(pool) if result.read is None else result.read
            check_conservation(step.name, rows_in, result)
            target = self.store.artifact(index, step.name, digest)
            reasons = result.rejected["reason"].value_counts().sort("reason")
            record: dict[str, Metric] = {
                "name": step.name,
                "version": step.version,
                "settings": step.model_dump(mode="json"),
                "digest": digest,
                "input": ref.digest if ref else None,
                "artifact": target.name,
                "rows_in": rows_in,
                "made": result.made,
                "rows_out": len(result.kept),
                "rejected": len(result.rejected),
                "rejected_by_reason": dict(zip(reasons["reason"], reasons["count"], strict=True)),
                "seconds": round(perf_counter() - started, 3),
                "metrics": result.metrics,
            }
            return self.store.commit(scratch, target, result, record)

    def _context(self, artifact: Path) -> Context:
        return Context(
            seed=self.spec.seed,
            ledger=self.store.ledger,
            artifact=artifact,
            engine=self.policies.policy,
            others=self.policies.others,
            generator=self.policies.generator,
            imports=self.policies.imports,
            workers=self.spec.workers,
            progress=self.progress,
            source=self.source,
        )

    def _digest(self, step: Step, ref: PoolRef | None) -> str:
        needs: dict[str, Metric] = {}
        if "source" in step.needs:
            needs["source"] = self.source.digest
            needs["limit"] = self.spec.limit
        needs |= self.policies.needs(step.needs)
        if "verifiers" in step.needs:
            needs["verifiers"] = VERIFIER_VERSION
        if inputs := step.inputs():
            needs["inputs"] = dict(inputs)
        return digest_of(
            {
                "name": step.name,
                "version": step.version,
                "settings": step.model_dump(mode="json"),
                "seed": self.spec.seed,
                "needs": needs,
                "input": ref.digest if ref else None,
            }
        )

    def _asked(self) -> dict[str, Metric]:
        return self.spec.model_dump(mode="json", exclude={"replay", "out"})

    def _manifest(self, status: str) -> dict[str, Metric]:
        manifest: dict[str, Metric] = {
            "curate": __version__,
            "python": platform.python_version(),
            "verifiers": VERIFIER_VERSION,
            "status": status,
            "seed": self.spec.seed,
            "source": {
                "uri": ", ".join(part.spec.uri for part in self.source.parts),
                "digest": self.source.digest,
            },
            "sources": cast(Metric, self.source.records()),
            "limit": self.spec.limit,
            "spec": self._asked(),
            "done": self.done,
            **self.policies.records(),
            "recipe": cast(Metric, self.recipe.plain()),
            "steps": cast(Metric, self.records),
            "summary": summarise(self.refs, self.records, perf_counter() - self.started),
        }
        self.store.write_manifest(manifest)
        return manifest


def check_conservation(step: str, rows_in: int, result: StepResult) -> None:
    """Rows in + rows made = rows kept + rows rejected.

    Raises:
        PoolError: it does not add up.
    """
    entered, left = rows_in + result.made, len(result.kept) + len(result.rejected)
    if entered != left:
        raise PoolError(
            f"{step}: {rows_in} rows in + {result.made} made ≠ "
            f"{len(result.kept)} kept + {len(result.rejected)} rejected"
        )


@contextmanager
def open_session(
    spec: BuildSpec, progress: Progress | None = None, api_key: str | None = None
) -> Iterator[Session]:
    """Check everything that can be checked before work, take the lock, open what is needed.

    Args:
        spec: what to build.
        progress: reporter.
        api_key: the model server's; no part of the spec, which is stored and shown.

    Raises:
        ConfigError: recipe, settings, columns or folder are wrong.
        SourceError: the source cannot be read.
        EngineError: the policy does not exist.
    """
    recipe = load_recipe(spec.recipe, spec.settings)
    chosen = choose_policies(spec, recipe, api_key)
    source = open_mixture(spec.source or recipe.sources, spec.limit)
    # Models come first: one that cannot run must leave no build directory behind.
    with closing(open_policies(chosen, spec, api_key)) as policies:
        store = Store(spec.out)
        with store.lock():
            if spec.replay:
                policies = stored_policies(store)
            yield Session(
                spec,
                recipe,
                store,
                source,
                policies,
                progress or SilentProgress(),
                done=finished(store.root),
            )
