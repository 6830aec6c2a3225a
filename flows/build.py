"""The build flow: steps in order, and nothing else.

``build`` is the flow's body. Called as it is, it is plain Python and costs nothing; under Prefect
the same function runs as a flow and each step as a task (``flows/prefect_build.py``). Either way
steps exchange ``PoolRef``s, never rows, and what is cached is decided by the store alone.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from curate.pipelines.errors import CurateError
from curate.pipelines.session import BuildSpec, open_session
from curate.pipelines.step import Metric, Progress
from curate.pipelines.store import PoolRef

Work: TypeAlias = Callable[[PoolRef | None], PoolRef]
#: Runs one step: its name, the work, the pool it starts from.
Submit: TypeAlias = Callable[[str, Work, PoolRef | None], PoolRef]


def call(name: str, work: Work, ref: PoolRef | None) -> PoolRef:
    """Run a step right here."""
    return work(ref)


def build(
    spec: BuildSpec,
    progress: Progress | None = None,
    submit: Submit = call,
    api_key: str | None = None,
) -> dict[str, Metric]:
    """Build a pool.

    Args:
        spec: what to build.
        progress: reporter.
        submit: how a step is run.
        api_key: the model server's.

    Returns:
        The finished build's manifest.

    Raises:
        CurateError: what stopped the build; what was finished stays and is reused by a rerun.
    """
    with open_session(spec, progress, api_key) as session:
        ref: PoolRef | None = None
        for index, step in enumerate(session.recipe.steps, start=1):
            try:
                ref = submit(step.name, partial(session.run, index, step), ref)
            except CurateError as error:
                session.fail(step.name, str(error))
                raise
        return session.finish()
