"""What an examination found, line by line, and how a person is shown it."""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from curate.pipelines.errors import CurateError

State: TypeAlias = Literal["ok", "optional", "warning", "missing", "failed"]

_STYLES: dict[State, str] = {
    "ok": "green",
    "optional": "yellow",
    "warning": "yellow",
    "missing": "red",
    "failed": "red",
}
#: Paths, column names and server replies may hold escape sequences; a terminal must not obey them.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_NAME_WIDTH = 20


class Finding(NamedTuple):
    """One line of an examination.

    Args:
        name: what was looked at.
        state: ``ok``; ``optional``, not there and not needed; ``warning``, a build would run but
            something deserves a look; ``missing`` and ``failed``, a build would stop.
        detail: one readable line: what was found, or what is wrong and what to do.
        exit_code: what a command ends with for it: 0, 1 failed, 2 bad usage or input.
    """

    name: str
    state: State
    detail: str
    exit_code: int = 0


def refusal(name: str, error: CurateError, state: State = "failed") -> Finding:
    """The finding that an expected error makes."""
    return Finding(name, state, str(error), error.exit_code)


def exit_code(findings: Iterable[Finding]) -> int:
    """0 when nothing stops a build, else 2 if any of it is bad usage or input, else 1."""
    return max((finding.exit_code for finding in findings), default=0)


def show(findings: list[Finding], console: Console) -> None:
    """Print findings as a table that 80 columns hold."""
    table = Table(show_header=False)
    table.add_column("name", overflow="fold", max_width=_NAME_WIDTH)
    table.add_column("state", no_wrap=True)
    table.add_column("detail", overflow="fold", ratio=1)
    for finding in findings:
        state = Text(finding.state, style=_STYLES[finding.state])
        table.add_row(_plain(finding.name), state, _plain(finding.detail))
    console.print(table)


def _plain(text: str) -> Text:
    """Text that is neither markup nor an order to the terminal."""
    spaced = " ".join(text.split("\n"))
    return Text(_CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", spaced))
