"""Steps as Prefect task runs, with their figures as artifacts and their ends as states."""

from dataclasses import dataclass, field
from typing import Any

from prefect import get_run_logger, task
from prefect.artifacts import Artifact, TableArtifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Failed

from curate.flows.artifacts import FLOW, artifact_key, step_line, step_table
from curate.flows.build import what_happened
from curate.flows.prefect_server import BuildCancelled, ServerErrors, lost, told
from curate.flows.run_progress import RunProgress
from curate.pipelines.errors import CurateError
from curate.pipelines.session import Session
from curate.pipelines.step import Step
from curate.pipelines.store import PoolRef


@dataclass
class TaskRuns:
    """Runs steps as tasks, and remembers where the build is.

    Args:
        progress: told which run is at work.
        where: the step at work, or what comes before the first and after the last.
        finished: names of the steps that are done.
    """

    progress: RunProgress
    where: str = "opening"
    finished: list[str] = field(default_factory=list)

    def __call__(self, session: Session, index: int, step: Step, ref: PoolRef | None) -> PoolRef:
        """Run a step as a task of its name.

        Raises:
            CurateError: whatever the step raises, or the server failed.
            BuildCancelled: the flow run was cancelled on its server.
        """
        self.where = step.name
        outcome: list[PoolRef | Exception] = []

        def run(pool: PoolRef | None) -> PoolRef | State[Any]:
            try:
                made = self._work(session, index, step, pool)
            except Exception as error:
                outcome.append(error)
                if isinstance(error, CurateError):
                    return ended(step.name, error)  # Prefect logs it
                raise
            outcome.append(made)
            return made

        as_task = task(
            name=step.name,
            task_run_name=lambda: step.name,
            cache_policy=NO_CACHE,
            persist_result=False,
        )
        try:
            as_task(run)(ref)
        except Exception as error:
            if error not in outcome:  # none of the step's, but of running it as a task
                raise CurateError(lost(error)) from error
        (result,) = outcome
        if isinstance(result, Exception):
            raise result
        self.finished.append(step.name)
        self.where = "publishing"
        return result

    def _work(self, session: Session, index: int, step: Step, pool: PoolRef | None) -> PoolRef:
        logger = get_run_logger()
        self.progress.log_to(logger)
        self.progress.look()
        logger.info(f"{step.name}: starts on {f'{pool.rows:,} rows' if pool else 'the source'}")
        made = session.run(index, step, pool)
        record = session.records[-1]
        logger.info(step_line(record))
        publish(
            TableArtifact(
                key=artifact_key(FLOW, step.name),
                description=f"Step {index}, {step.name}: its figures.",
                table=step_table(record),
            )
        )
        return made


def ended(where: str, error: CurateError) -> State[Any]:
    """The state of a run that ended with an error of ours: what and where, in one line."""
    text = what_happened(error)
    message = text if text.startswith(f"{where}:") else f"{where}: {text}"
    make = Cancelled if isinstance(error, BuildCancelled) else Failed
    return make(message=message)


def publish(artifact: Artifact) -> None:
    """Store an artifact. A view that cannot be stored does not stop the work it shows."""
    try:
        artifact.create()
    except ServerErrors as error:
        get_run_logger().warning(f"artifact {artifact.key} could not be stored: {told(error)}")
