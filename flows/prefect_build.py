"""The same build under Prefect: one flow run, one task run per step, artifacts of their figures.

Prefect's own caching and result persistence are off: its keys would have to be kept in step with
the store's, which already reuses every finished artifact.

An error of ours ends its task run and the flow run as Failed, with the error as the message and no
traceback in the logs; anything else goes through Prefect's own handling, with its type and
traceback. Interrupts and SIGTERM are Prefect's too: the runs end as Crashed.
"""

from typing import Any
from uuid import UUID

from prefect import flow, get_run_logger, tags
from prefect.artifacts import MarkdownArtifact
from prefect.client.schemas.objects import State
from prefect.exceptions import Abort
from prefect.runtime import flow_run

from curate.flows.artifacts import FLOW, artifact_key, build_markdown, failure_markdown
from curate.flows.build import build, what_happened
from curate.flows.labels import run_name, run_tags, shown
from curate.flows.prefect_server import (
    ServerErrors,
    check_server,
    lost,
    raise_if_cancelled,
)
from curate.flows.run_progress import RunProgress
from curate.flows.task_runs import TaskRuns, ended, publish
from curate.pipelines.errors import CurateError
from curate.pipelines.spec import BuildSpec
from curate.pipelines.step import Metric, Progress, SilentProgress


def build_under_prefect(
    spec: BuildSpec, progress: Progress | None = None, api_key: str | None = None
) -> dict[str, Metric]:
    """Run ``build`` as the flow ``curate-build`` against the configured Prefect API.

    Args:
        spec: what to build; shown as the flow run's parameters, without logins in addresses.
        progress: reporter.
        api_key: the model server's; not among the parameters.

    Returns:
        The finished build's manifest.

    Raises:
        CurateError: what stopped the build, or no Prefect server answers.
    """
    check_server()
    outcome: list[dict[str, Metric] | Exception] = []

    @flow(
        name=FLOW,
        description="Build a pool of verifiable prompts: one task for every step of the recipe.",
        flow_run_name=lambda: run_name(spec),
        persist_result=False,
        validate_parameters=False,
    )
    def curate_build(spec: dict[str, Metric]) -> State[Any] | None:
        return _run(outcome, *asked)

    asked = spec, progress or SilentProgress(), api_key
    try:
        with tags(*run_tags(spec)):
            state = curate_build(shown(spec), return_state=True)
    except (*ServerErrors, Abort) as error:
        if not any(isinstance(each, Exception) for each in outcome):
            raise CurateError(lost(error, spec.out if outcome else None)) from error
    else:
        if state.is_failed() and not any(isinstance(each, Exception) for each in outcome):
            state.result()  # raises what went wrong around the build
    (result,) = outcome
    if isinstance(result, Exception):
        raise result
    return result


def _run(
    outcome: list[dict[str, Metric] | Exception],
    spec: BuildSpec,
    progress: Progress,
    api_key: str | None,
) -> State[Any] | None:
    """The flow's body: build, leave manifest or error in ``outcome``, and an artifact of it."""
    run_id = UUID(flow_run.get_id())
    told_too = RunProgress(progress, look=lambda: raise_if_cancelled(run_id))
    steps = TaskRuns(told_too)
    try:
        manifest = build(spec, told_too, submit=steps, api_key=api_key)
    except Exception as error:
        outcome.append(error)
        markdown = failure_markdown(steps.where, what_happened(error), steps.finished, spec.out)
        publish(
            MarkdownArtifact(
                key=artifact_key(FLOW, "failure"),
                description="Where the build stopped, why, and how to go on.",
                markdown=markdown,
            )
        )
        if not isinstance(error, CurateError):
            raise
        state = ended(steps.where, error)
        get_run_logger().error(state.message)
        return state
    outcome.append(manifest)
    publish(
        MarkdownArtifact(
            key=FLOW,
            description="The build: steps, pass rates, cost, policy, files.",
            markdown=build_markdown(manifest, spec.out),
        )
    )
    return None
