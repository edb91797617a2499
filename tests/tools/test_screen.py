"""Lines of text for a terminal: as wide as they are asked to be, whatever the names in them are."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kshim.tools.screen import Span, fit, render


def columns(text: str) -> int:
    """On a terminal; of printable text."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.category(character) in ("Mn", "Me") for character in text)


@given(st.lists(st.tuples(st.text(), st.sampled_from(["", "red"]))), st.integers(1, 100))
@example([("0\U0001193d", "")], 1)
def test_a_line_of_any_text_is_printable_and_fits(parts: list[tuple[str, str]], width: int) -> None:
    line = render([Span(*part) for part in parts], width, is_coloured=False)
    assert line.isprintable()
    assert columns(line) <= width


@given(st.text(), st.integers(1, 40))
def test_a_cell_of_any_text_is_as_wide_as_its_column(text: str, width: int) -> None:
    cell = fit(text, width)
    assert cell.isprintable()
    assert columns(cell) == width


@pytest.mark.parametrize(
    ("text", "cell"), [("a\x1b[2Jb", "a\\x1b[2Jb "), ("x\ny", "x\\ny      "), ("日本語日本語", "日本語日… ")]
)
def test_what_would_move_the_cursor_is_escaped(text: str, cell: str) -> None:
    assert fit(text, 10)[: len(cell)] == cell[:10]
