"""Findings: their exit code, and a table that shows what data says without obeying it."""

from io import StringIO

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from curate.pipelines.errors import EngineError, SourceError
from curate.pipelines.findings import Finding, exit_code, refusal, show


def shown(*findings: Finding, colour: bool = False) -> str:
    file = StringIO()
    show(list(findings), Console(file=file, width=80, force_terminal=colour))
    return file.getvalue()


def test_bad_input_outweighs_a_failure() -> None:
    fine, warned = Finding("a", "ok", ""), Finding("b", "warning", "")
    failed, wrong = refusal("c", EngineError("down")), refusal("d", SourceError("no file"))
    assert exit_code([]) == exit_code([fine, warned]) == 0
    assert exit_code([fine, failed]) == 1
    assert exit_code([wrong, fine, failed]) == exit_code([failed, wrong]) == 2
    assert (wrong.state, wrong.detail) == ("failed", "no file")


def test_what_data_says_is_shown_and_not_obeyed() -> None:
    text = shown(Finding("source [bold]x[/]", "failed", "\x1b[2J\x9b31m [red]no[/] [/nope]\u202e"))
    assert "source [bold]x[/]" in text
    assert "\\x1b[2J\\x9b31m [red]no[/] [/nope]\\x202e" in text


@given(name=st.text(max_size=60), detail=st.text(max_size=300))
def test_a_table_is_80_columns_wide_whatever_the_data(name: str, detail: str) -> None:
    text = shown(Finding(name, "ok", detail), Finding("cost", "warning", "x" * 200))
    lines = text.splitlines()
    assert {Console(width=80).measure(line).maximum for line in lines if line} <= {80}
    assert not {"\x1b", "\x07", "\r", "\x9b"} & set(text)


def test_states_have_colours_on_a_terminal() -> None:
    text = shown(Finding("a", "ok", "x"), Finding("b", "failed", "y"), colour=True)
    assert "\x1b[32mok" in text
    assert "\x1b[31mfailed" in text
