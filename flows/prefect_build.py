"""The same build under Prefect: one flow run, one task run per step.

Prefect's own caching and result persistence are off: its keys would have to be kept in step with
the store's, which already reuses every finished artifact.
"""

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from curate.flows.build import Work, build
from curate.pipelines.session import BuildSpec
from curate.pipelines.step import Metric, Progress
from curate.pipelines.store import PoolRef


def as_task(name: str, work: Work, ref: PoolRef | None) -> PoolRef:
    """Run a step as a task of this name."""

    def run(pool: PoolRef | None) -> PoolRef:
        return work(pool)

    configured = task(name=name, task_run_name=name, cache_policy=NO_CACHE, persist_result=False)
    return configured(run)(ref)


def build_under_prefect(
    spec: BuildSpec, progress: Progress | None = None, api_key: str | None = None
) -> dict[str, Metric]:
    """Run ``build`` as the flow ``curate-build`` against the configured Prefect API.

    Args:
        spec: what to build; shown as the flow run's parameters.
        progress: reporter.
        api_key: the model server's; not among the parameters that the server shows.
    """

    @flow(
        name="curate-build",
        flow_run_name=f"{spec.recipe}-{spec.out.name}",
        persist_result=False,
        validate_parameters=False,
    )
    def curate_build(spec: BuildSpec) -> dict[str, Metric]:
        return build(spec, progress, submit=as_task, api_key=api_key)

    return curate_build(spec)
