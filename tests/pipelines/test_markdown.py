"""Whatever text is put into Markdown, a reader sees that text and nothing else."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from curate.pipelines.markdown import cell, inline, table

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
#: Text made of what Markdown and HTML are made of, far likelier to break than random letters.
MARKED = st.text(alphabet="ab1 \n\t|`*_~[]()<>&;#!\\$:/.-=+'\"@{}x\x07\u202e", max_size=40)


def spans(tokens: list[Token]) -> list[Token]:
    return [span for token in tokens for span in token.children or ()]


def seen(source: str) -> str:
    """What the paragraph, heading, item or cell that holds ``«…»`` shows; markup is an error."""
    inside = spans(READER.parse(source))
    strange = {span.type for span in inside} - {"text", "text_special"}
    assert not strange, (source, strange)
    shown = "".join(span.content for span in inside)
    return shown[shown.index("«") + 1 : shown.rindex("»")]


@pytest.mark.parametrize(
    "frame", ["«{}»", "# «{}»", "- «{}»", "| a | b |\n| --- | --- |\n| «{}» | 1 |"]
)
@given(text=MARKED | st.text(max_size=40))
@example(text="\\|\\")
@example(text="`|`<b>&amp;[x](y)")
def test_text_is_shown_as_it_is(frame: str, text: str) -> None:
    words = " ".join(text.split())
    if all(c.isprintable() and ord(c) < 0xD800 for c in words):
        assert seen(frame.format(inline(text))) == words
    else:
        assert seen(frame.format(inline(text))).count("\n") == 0


@given(text=st.text())
def test_a_line_stays_one_line_of_at_most_the_limit_and_holds_no_control_character(
    text: str,
) -> None:
    shown = inline(text, limit=20)
    assert len(shown.splitlines()) <= 1
    assert not [c for c in shown if ord(c) < 32 or "\u202a" <= c <= "\u202e"]
    plain = inline("a" * 30, limit=20)
    assert plain == "a" * 19 + "…"


@given(rows=st.lists(st.tuples(MARKED, st.integers() | st.floats() | st.none(), MARKED)))
def test_a_table_keeps_its_shape_whatever_is_in_it(rows: list[tuple[object, ...]]) -> None:
    tokens = READER.parse(table(("name", "n", "why"), rows, text=("why",)))
    assert [token.type for token in tokens].count("tr_open") == len(rows) + 1
    assert [token.type for token in tokens].count("td_open") == 3 * len(rows)
    assert not {span.type for span in spans(tokens)} - {"text", "text_special"}


def test_figures_are_aligned_to_the_right_and_text_to_the_left() -> None:
    assert table(("a", "n", "why"), [("x", 1234, "y")], text=("why",)) == (
        "| a | n | why |\n| --- | ---: | --- |\n| x | 1,234 | y |"
    )
    assert (cell(True), cell(0.5), cell(None), cell("a|b")) == ("True", "0.500", "–", r"a\|b")
