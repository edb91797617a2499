"""What the demo draws."""

from __future__ import annotations

import io

import pytest

from kshim.tools.demo.picture import draw, summary
from kshim.tools.demo.screen import LiveScreen, PlainLines
from kshim.tools.demo.story import Note
from kshim.tools.screen import Line, Span, is_live, render
from tests.tools.demo.builders import Telling


def drawn(told: Telling, now: int) -> list[str]:
    lines = draw(told.story, now, bootstrap="127.0.0.1:1", topic="orders", session_timeout_ms=6_000, end_ms=30_000)
    return [render(line, 79, is_coloured=False) for line in lines]


def a_story() -> Telling:
    """Two members; one crashes at 5 s and is expelled at 11 s."""
    told = Telling().starts("anna", 0).starts("ben", 0)
    told.rebalanced(500, 900, 1, "member-joined", "anna").assigned("anna", 1_000, 0, 1).assigned("ben", 1_000, 2, 3)
    told.crashes("ben", 5_000).rebalanced(11_000, 11_500, 2, "session-expired", "ben")
    return told.revoked("anna", 11_000, 0, 1).assigned("anna", 11_500, 0, 1, 2, 3)


def test_each_partition_has_a_strip_of_who_read_it() -> None:
    lines = drawn(a_story(), 12_500)
    assert "   0   ..aaaaaaaaaaaaaaaaaaaa.aaa" in lines
    assert "   2   ..bbbbbbbbxxxxxxxxxxxxxaaa" in lines


def test_each_rebalance_has_a_line_that_says_why() -> None:
    lines = drawn(a_story(), 12_500)
    assert "   0.5 s    0.40 s            1   anna joined" in lines
    assert "  11.0 s    0.50 s            2   the session of ben expired" in lines


def test_a_running_rebalance_counts_up() -> None:
    told = Telling().logged(1_000, "Empty", "PreparingRebalance", 0, "member-joined", "anna")
    assert "   1.0 s    1.50 s          ...   anna joined" in drawn(told, 2_500)


def test_a_crashed_member_shows_how_long_it_still_owns_its_partitions() -> None:
    told = Telling().starts("ben", 0).assigned("ben", 10, 2).crashes("ben", 5_000)
    assert any("crashed" in line and "owns 2" in line and "still owner for 4 s" in line for line in drawn(told, 7_000))


def test_the_newest_note_is_the_last_line() -> None:
    assert drawn(a_story(), 12_500)[-1] == " 11.5 s  anna reads partitions 0 1 2 3"


@pytest.mark.parametrize("width", [1, 20, 79])
def test_no_line_is_wider_than_the_terminal_and_colour_takes_no_room(width: int) -> None:
    for line in draw(a_story().story, 12_500, bootstrap="b", topic="t", session_timeout_ms=1, end_ms=30_000):
        plain = render(line, width, is_coloured=False)
        coloured = render(line, width, is_coloured=True)
        assert len(plain) <= width
        assert without_colour(coloured).rstrip(" ") == plain


def test_the_summary_compares_a_crash_with_a_clean_leave() -> None:
    told = a_story().starts("cleo", 12_000).assigned("anna", 14_000, 0, 1, 2).assigned("cleo", 14_000, 3)
    told.told("leaving", 20_000, member="cleo").revoked("cleo", 20_000, 3).assigned("anna", 20_400, 0, 1, 2, 3)
    told.told("produced", 20_000, total=7).told("read", 20_500, member="anna", partition=0, first=0, last=6)
    text = "\n".join(render(line, 200, is_coloured=False) for line in summary(told.story, 29_000, 6_000))
    assert "2 rebalances in 29 s" in text
    assert "ben crashed: its partitions had no reader for 6.5 s" in text
    assert "session.timeout.ms=6000" in text
    assert "cleo left cleanly: its partitions had a new reader after 0.4 s" in text
    assert "7 records were written, 7 read, 0 of them twice" in text


def test_plain_lines_write_each_note_once() -> None:
    stream = io.StringIO()
    screen = PlainLines(stream)
    screen.show([], [Note(10, "anna", "starts")])
    screen.show([], [Note(10, "anna", "starts"), Note(1_500, "ben", "starts")])
    assert stream.getvalue() == "  0.01 s  anna       starts\n  1.50 s  ben        starts\n"


def test_a_live_screen_draws_over_its_last_picture_and_gives_the_cursor_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    screen = LiveScreen(stream)
    picture: list[Line] = [[Span("one", "green")], [Span("two")]]
    screen.show(picture, [])
    first = stream.getvalue()
    screen.show(picture, [])
    screen.close()
    second = stream.getvalue()[len(first) :]
    assert "one" in first
    assert "\x1b[2A" not in first
    assert second.startswith("\x1b[2A")
    assert second.endswith("\x1b[?25h")
    assert "\x1b[32m" not in first + second


def test_a_picture_higher_than_the_terminal_loses_empty_lines_then_its_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    screen = LiveScreen(stream)
    screen.show([line for number in range(8) for line in ([Span(f"line {number}")], [])], [])
    assert stream.getvalue().count("\n") == 8
    screen.show([[Span(f"row {number}")] for number in range(10, 40)], [])
    assert "row 30" not in stream.getvalue()
    assert "row 31" in stream.getvalue()
    assert "row 39" in stream.getvalue()


def test_the_end_shows_the_whole_picture_and_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "10")
    stream = io.StringIO()
    LiveScreen(stream).end([[Span(f"row {number}")] for number in range(30)], [[Span("SUMMARY")]])
    assert all(text in stream.getvalue() for text in ("row 0", "row 29", "SUMMARY"))


def test_a_stream_that_is_no_terminal_gets_plain_lines() -> None:
    assert not is_live(io.StringIO())


def without_colour(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text)
