"""The build flow: steps in order, and nothing else.

``build`` is the flow's body. Called as it is, it is plain Python and costs nothing; under Prefect
the same function runs as a flow and each step as a task (``flows/prefect_build.py``). Either way
steps exchange ``PoolRef``s, never rows, and what is cached is decided by the store alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from curate.pipelines.errors import CurateError
from curate.pipelines.session import Session, open_session
from curate.pipelines.spec import BuildSpec
from curate.pipelines.step import Metric, Progress, Step
from curate.pipelines.store import PoolRef

#: Runs one step: the open build, the step's number from 1, the step, the pool it starts from.
Submit: TypeAlias = Callable[[Session, int, Step, PoolRef | None], PoolRef]


def call(session: Session, index: int, step: Step, ref: PoolRef | None) -> PoolRef:
    """Run a step right here."""
    return session.run(index, step, ref)


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
            with _noted(session, step.name):
                ref = submit(session, index, step, ref)
        with _noted(session, "publishing"):
            return session.finish()


def what_happened(error: BaseException) -> str:
    """An error in one line: ours as they are, all others with their type.

    >>> what_happened(CurateError("rows.jsonl:3: no answer")), what_happened(KeyError("x"))
    ('rows.jsonl:3: no answer', "KeyError: 'x'")
    """
    text = " ".join(str(error).split())
    if isinstance(error, CurateError) and text:
        return text
    if not isinstance(error, Exception | SystemExit):  # Ctrl-C, or a signal made an exception
        return "interrupted"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def _noted(session: Session, where: str) -> Iterator[None]:
    """Whatever ends a build early stands in its manifest."""
    try:
        yield
    except BaseException as error:
        # Where not even this can be written, what came first is what to tell.
        with suppress(CurateError):
            session.fail(where, what_happened(error))
        raise
