"""Swim lanes in characters: what is where, for any names and widths."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshim.drawing import Band, Bar, BarKind, Cell, Lane, Mark, MarkKind, Picture, characters
from kshim.drawing.characters import LEAST_WIDTH
from kshim.wording import columns

SLOW = Lane("slow@10.0.0.2", (Bar(BarKind.MEMBER, 0, None), Bar(BarKind.LATE, 1_000, 41_000)), is_culprit=True)
FAST = Lane("fast@10.0.0.1", (Bar(BarKind.WAITING, 1_500, 41_000),), (Mark(MarkKind.JOINED, 0),))
ORDERS = Lane("orders-0", (Bar(BarKind.UNOWNED, 1_000, 41_000),), note="lag 7", owner="no owner")
BANDS = (Band(12, 1_000, 41_000, "Rebalance 12: somebody joined", ""),)
HOUR = 3_600_000


def texts(lines: list[list[Cell]]) -> list[str]:
    return ["".join(cell.text for cell in line) for line in lines]


def test_a_lane_has_its_name_its_bars_and_its_note() -> None:
    lines = texts(characters(Picture(0, 50_000, (SLOW, FAST), (ORDERS,), BANDS), 80))
    slow = next(line for line in lines if "slow" in line)
    assert slow.startswith("⚑ slow@10.0.0.2 ")
    plot = slow.removeprefix("⚑ slow@10.0.0.2 ").rstrip()
    assert plot.strip("─█") == ""
    assert 0.75 < plot.count("█") / len(plot) < 0.85  # 40 of 50 seconds
    assert next(line for line in lines if line.startswith("orders-0")).endswith(" no owner lag 7")


def test_the_number_of_a_rebalance_stands_where_it_began() -> None:
    head, _, slow, *_ = texts(characters(Picture(0, 50_000, (SLOW,), (), BANDS), 80))
    assert head.index("12") == slow.index("█")


def test_a_mark_lies_over_bars_and_commits_are_left_out() -> None:
    marks = (Mark(MarkKind.COMMITTED, 10_000), Mark(MarkKind.GONE, 49_000))
    lines = texts(characters(Picture(0, 50_000, (SLOW._replace(marks=marks),)), 80))
    assert "─✕" in lines[1]
    assert not any(MarkKind.COMMITTED.character in line for line in lines)


def test_a_culprit_is_red_and_the_rest_is_not() -> None:
    lines = characters(Picture(0, 50_000, (SLOW, FAST)), 80)
    tones = {line[0].text.strip(): line[0].tone for line in lines if line}
    assert (tones["⚑ slow@10.0.0.2"], tones["fast@10.0.0.1"]) == ("culprit", "")


def test_the_legend_says_what_is_drawn_and_nothing_else() -> None:
    shown = "\n".join(texts(characters(Picture(0, 50_000, (SLOW, FAST), (ORDERS,)), 80)))
    for words in ("██ the others wait for it", "▇▇ has no living owner", "▲ joined", "⚑ who is responsible"):
        assert words in shown
    assert "SYNC" not in shown


def test_quiet_time_is_cut_out_and_said() -> None:
    marks = (Mark(MarkKind.JOINED, 0), Mark(MarkKind.LEFT, HOUR))
    lines = texts(characters(Picture(0, HOUR, (Lane("a", (Bar(BarKind.MEMBER, 0, None),), marks),)), 80))
    assert "┊" in lines[1]
    assert any("59m 59s left out" in line for line in lines)


def test_what_is_left_out_is_counted() -> None:
    lines = texts(characters(Picture(0, 50_000, (FAST,), members_omitted=3), 80))
    assert "and 3 more in which nothing stands out" in lines


@given(st.lists(st.text(max_size=80), max_size=4), st.integers(1, 300), st.integers(0, 10**13), st.integers(0, 10**9))
def test_names_times_and_widths_of_any_kind_fit(names: list[str], width: int, begin_ms: int, length_ms: int) -> None:
    end_ms = begin_ms + length_ms
    bars = (Bar(BarKind.MEMBER, begin_ms, None), Bar(BarKind.LATE, begin_ms + length_ms // 2, end_ms))
    lanes = tuple(Lane(name, bars, (Mark(MarkKind.LEFT, end_ms),), note=name, owner=name) for name in names)
    bands = tuple(Band(number, begin_ms + number, None, "", "") for number in range(3))
    lines = texts(characters(Picture(begin_ms, end_ms, lanes, lanes, bands), width))
    assert all(columns(line) <= max(width, LEAST_WIDTH) and line.isprintable() for line in lines)
