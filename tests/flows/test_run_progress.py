"""Progress reaches the person and the run's log, and a look can stop the work."""

import logging

import pytest

from curate.flows.run_progress import RunProgress
from curate.pipelines.errors import CurateError
from curate.pipelines.step import phase


class Heard:
    """A reporter that writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def start(self, label: str, total: int | None, unit: str) -> None:
        self.calls.append((label, total, unit))

    def advance(self, n: int, **extra: float) -> None:
        self.calls.append((n, extra))

    def done(self) -> None:
        self.calls.append("done")


def nothing() -> None:
    """See nothing."""


def test_a_phase_is_shown_as_ever_and_is_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard = Heard()
    progress = RunProgress(heard, nothing)
    with phase(progress, "before any run", 1, "rows"):
        progress.advance(1)
    progress.log_to(logging.getLogger("run"))
    with caplog.at_level(logging.INFO), phase(progress, "reading", 4, "rows"):
        progress.advance(3, tokens=6)
    assert heard.calls[3:] == [("reading", 4, "rows"), (3, {"tokens": 6}), "done"]
    (line,) = caplog.messages
    assert line.startswith("reading: 3 of 4 rows in ")


def test_a_long_phase_is_told_on_the_way(caplog: pytest.LogCaptureFixture) -> None:
    progress = RunProgress(Heard(), nothing, log_every_s=0)
    progress.log_to(logging.getLogger("run"))
    with caplog.at_level(logging.INFO), phase(progress, "reading", 4, "rows"):
        progress.advance(1)
        progress.advance(1)
    assert [line.split(" in ")[0] for line in caplog.messages] == [
        "reading: 1 of 4 rows", "reading: 2 of 4 rows", "reading: 2 of 4 rows",
    ]  # fmt: skip


def test_a_look_stops_the_work_while_it_goes_on() -> None:
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise CurateError("enough")

    heard = Heard()
    progress = RunProgress(heard, look, look_every_s=0)
    with pytest.raises(CurateError, match="enough"), phase(progress, "reading", None, "rows"):
        for _ in range(9):
            progress.advance(1)
    assert heard.calls[1:] == [(1, {})] * 3 + ["done"]
    rarely = RunProgress(Heard(), look, look_every_s=3600)
    rarely.advance(1)
    assert len(looks) == 3
