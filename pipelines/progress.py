"""Progress reporters: a Rich bar with rate and remaining time, or plain lines elsewhere."""

from time import monotonic
from typing import IO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from curate.pipelines.step import Progress as ProgressProtocol


class RichProgress:
    """Bars on a terminal."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._meter = _Meter("", None, "")
        self._task: TaskID | None = None

    def start(self, label: str, total: int | None, unit: str) -> None:
        """Open a bar."""
        self._meter = _Meter(label, total, unit)
        self._bars.start()
        self._task = self._bars.add_task(label, total=total, rate="")

    def advance(self, n: int, **extra: float) -> None:
        """Move the bar."""
        self._meter.add(n, extra)
        if self._task is not None:
            self._bars.update(self._task, advance=n, rate=self._meter.rate())

    def done(self) -> None:
        """Close the bar and leave one line behind."""
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None
        self._bars.stop()
        self._bars.console.out(f"  {self._meter.line()}", highlight=False)


class PlainProgress:
    """Lines for logs: when a phase ends, and at most every ``every_s`` seconds within it."""

    def __init__(self, out: IO[str], every_s: float = 15.0) -> None:
        self._out, self._every_s = out, every_s
        self._meter, self._last = _Meter("", None, ""), 0.0

    def start(self, label: str, total: int | None, unit: str) -> None:
        """Begin counting."""
        self._meter, self._last = _Meter(label, total, unit), monotonic()

    def advance(self, n: int, **extra: float) -> None:
        """Count, and say so when it is time."""
        self._meter.add(n, extra)
        if monotonic() - self._last >= self._every_s:
            self._last = monotonic()
            self._out.write(f"  {self._meter.line()}\n")
            self._out.flush()

    def done(self) -> None:
        """Say what it came to."""
        self._out.write(f"  {self._meter.line()}\n")
        self._out.flush()


class _Meter:
    """Counts of one phase."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.n, self.extra, self.started = 0, dict[str, float](), monotonic()

    def add(self, n: int, extra: dict[str, float]) -> None:
        self.n += n
        for name, value in extra.items():
            self.extra[name] = self.extra.get(name, 0.0) + value

    def rate(self) -> str:
        seconds = max(1e-3, monotonic() - self.started)
        parts = [f"{self.n / seconds:,.0f} {self.unit}/s"]
        parts += [f"{value / seconds:,.0f} {name}/s" for name, value in self.extra.items()]
        return ", ".join(parts)

    def line(self) -> str:
        of = f" of {self.total:,}" if self.total is not None else ""
        seconds = monotonic() - self.started
        return f"{self.label}: {self.n:,}{of} {self.unit} in {seconds:.1f} s ({self.rate()})"


def reporter(console: Console) -> ProgressProtocol:
    """Bars on a terminal, lines elsewhere."""
    return RichProgress(console) if console.is_terminal else PlainProgress(console.file)
