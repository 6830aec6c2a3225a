"""Progress under Prefect: shown as ever, told to the run's log, and a cancelled run stops.

Prefect cancels runs by ending their process, which only its own runners and workers can do. A build
started by hand is under neither, so it looks for itself whether its run was cancelled.
"""

from collections.abc import Callable
from io import StringIO
from logging import Logger, LoggerAdapter
from time import monotonic
from typing import Any, TypeAlias

from curate.pipelines.progress import PlainProgress
from curate.pipelines.step import Progress

RunLogger: TypeAlias = Logger | LoggerAdapter[Any]
LOG_EVERY_S = 60.0
LOOK_EVERY_S = 10.0


class RunProgress:
    """A reporter that is told everything, beside the one a person sees.

    Args:
        shown: that one.
        look: raises when the work is to stop.
        log_every_s: seconds between two lines of one phase in the run's log.
        look_every_s: least seconds between two looks while work goes on.
    """

    def __init__(
        self,
        shown: Progress,
        look: Callable[[], None],
        log_every_s: float = LOG_EVERY_S,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._shown, self._look, self._look_every_s = shown, look, look_every_s
        self._lines = _LogLines()
        self._told = PlainProgress(self._lines, log_every_s)
        self._looked = monotonic()

    def log_to(self, logger: RunLogger) -> None:
        """Tell this log from here on."""
        self._lines.logger = logger

    def look(self) -> None:
        """Look now, and raise what there is to raise."""
        self._look()
        self._looked = monotonic()

    def start(self, label: str, total: int | None, unit: str) -> None:
        """A phase begins."""
        self._told.start(label, total, unit)
        self._shown.start(label, total, unit)

    def advance(self, n: int, **extra: float) -> None:
        """Count, and look when it is time."""
        self._told.advance(n, **extra)
        self._shown.advance(n, **extra)
        if monotonic() - self._looked >= self._look_every_s:
            self.look()

    def done(self) -> None:
        """The phase is over."""
        self._told.done()
        self._shown.done()


class _LogLines(StringIO):
    """A text file whose lines are log lines."""

    logger: RunLogger | None = None

    def write(self, text: str) -> int:
        if self.logger is not None and text.strip():
            self.logger.info(text.strip())
        return len(text)
