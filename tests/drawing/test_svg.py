"""Swim lanes as SVG: what is where, for any names."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from kshim.drawing import Band, Bar, BarKind, Lane, Mark, MarkKind, Picture, legend, svg
from kshim.drawing.vocabulary import CSS

SLOW = Lane("slow@10.0.0.2", (Bar(BarKind.MEMBER, 0, None), Bar(BarKind.LATE, 1_000, 41_000)), is_culprit=True)
FAST = Lane("fast@10.0.0.1", (Bar(BarKind.WAITING, 1_500, 41_000),), (Mark(MarkKind.JOINED, 0),))
ORDERS = Lane("orders-0", (Bar(BarKind.UNOWNED, 1_000, 41_000),), note="lag 7")
BANDS = (Band(1, 1_000, 41_000, "Rebalance 1: somebody joined", "/page?group=g&amp;rebalance=1", is_chosen=True),)


def a_picture(*members: Lane, partitions: tuple[Lane, ...] = (ORDERS,), bands: tuple[Band, ...] = BANDS) -> Picture:
    return Picture(0, 50_000, members, partitions, bands)


def drawn(picture: Picture) -> ET.Element:
    return ET.fromstring(svg(picture, "Members and partitions"))


def test_each_lane_has_its_bars_and_marks_with_words() -> None:
    drawing = drawn(a_picture(SLOW, FAST))
    titles = [title.text or "" for title in drawing.iter("title")]
    assert "slow@10.0.0.2 the others wait for it: 00:00:01 to 00:00:41 UTC (40.0 s)" in titles
    assert "fast@10.0.0.1: joined, 00:00:00 UTC" in titles
    assert "lag 7" in [text.text for text in drawing.iter("text")]
    assert drawing.get("aria-label") == "Members and partitions"


def test_a_culprit_differs_by_colour_place_and_words() -> None:
    lanes = [group for group in drawn(a_picture(SLOW, FAST)).iter("g") if group.get("class") in ("culprit", "lane")]
    assert [group.get("class") for group in lanes] == ["culprit", "lane", "lane"]
    assert next(lanes[0].iter("text")).text == "\u2691 slow@10.0.0.2"


def test_a_rebalance_is_a_link_that_says_what_it_was() -> None:
    (link,) = drawn(a_picture(SLOW)).iter("a")
    assert link.get("href") == "/page?group=g&rebalance=1"
    assert link.get("aria-label") == "Rebalance 1: somebody joined"
    assert next(link.iter("text")).text == "#1"


def test_a_bar_that_goes_on_ends_now() -> None:
    (bar,) = (
        bar for bar in drawn(a_picture(Lane("m", (Bar(BarKind.WAITING, 1_000, None),)), partitions=())).iter("rect") if "waiting" in (bar.get("class") or "")
    )  # fmt: skip
    (axis,) = drawn(a_picture(SLOW)).iter("line")
    assert float(bar.get("x") or 0) + float(bar.get("width") or 0) == float(axis.get("x2") or 0)


def test_the_legend_says_what_is_drawn_and_nothing_else() -> None:
    shown = legend(a_picture(SLOW, FAST))
    assert "the others wait for it" in shown
    assert "no living owner" in shown
    assert "injected fault" not in shown


def test_the_legend_has_the_band_of_a_rebalance_and_the_flag_of_a_culprit_where_they_are_drawn() -> None:
    shown = legend(a_picture(SLOW))
    assert "a rebalance, with its number" in shown
    assert "who is responsible" in shown
    shown = legend(a_picture(FAST, bands=()))
    assert "a rebalance" not in shown
    assert "who is responsible" not in shown


def test_the_owner_of_a_partition_stands_beside_its_name() -> None:
    lane = ORDERS._replace(owner="fast@10.0.0.1")
    texts = {each.get("class"): each for each in drawn(a_picture(partitions=(lane,))).iter("text")}
    assert texts["name"].text == "orders-0"
    assert texts["owner"].text == "fast@10.0.0.1"


def test_names_that_do_not_fit_are_visibly_cut_and_whole_in_their_title() -> None:
    topic, owner = "orders-of-the-whole-continent-17", "W" * 40
    lane = ORDERS._replace(name=topic, owner=owner)
    texts = {each.get("class"): each for each in drawn(a_picture(partitions=(lane,))).iter("text")}
    for kind, whole in (("name", topic), ("owner", owner)):
        assert "\u2026" in (texts[kind].text or "")
        assert next(texts[kind].iter("title")).text == whole
    assert len(texts["owner"].text or "") < len(texts["name"].text or "")


def test_every_kind_has_a_colour() -> None:
    for kind in (*BarKind, *MarkKind):
        is_plain = kind in (BarKind.MEMBER, BarKind.OWNED, MarkKind.JOINED, MarkKind.LEFT, MarkKind.REPLACED)
        assert is_plain or f".{kind.keyword}" in CSS


def test_kinds_of_bars_that_mean_trouble_differ_from_calm_ones_by_height() -> None:
    assert {kind.height for kind in (BarKind.LATE, BarKind.SILENT)} == {14}
    assert BarKind.UNOWNED.height == 10
    assert {kind.height for kind in (BarKind.MEMBER, BarKind.OWNED)} == {4}


@given(st.text(min_size=1, max_size=200))
def test_no_name_makes_an_element(name: str) -> None:
    lane = Lane(name, SLOW.bars, FAST.marks, name, is_culprit=True)
    bands = (BANDS[0]._replace(label=name),)
    drawing = drawn(a_picture(lane, bands=bands))
    assert [each.tag for each in drawing.iter()] == [
        each.tag for each in drawn(a_picture(SLOW._replace(marks=FAST.marks, note="n"))).iter()
    ]


def test_a_name_of_32_kilobytes_is_shortened_and_both_ends_can_be_seen() -> None:
    text = svg(a_picture(Lane("a" * 16_000 + "z" * 16_000, SLOW.bars)), "x")
    assert len(text) < 8_000
    assert "aaaa\u2026zzzz" in text


def test_nothing_at_all_can_be_drawn() -> None:
    assert drawn(Picture(5, 5)).tag == "svg"


def test_trouble_at_other_times_than_the_incident_is_paler_and_the_legend_says_so() -> None:
    slow = SLOW._replace(
        bars=(*SLOW.bars, Bar(BarKind.SILENT, 45_000, None)), marks=(Mark(MarkKind.GONE, 500), Mark(MarkKind.JOINED, 0))
    )
    picture = a_picture(slow, FAST)._replace(focus=(43_000, 48_000))
    shapes = [each.get("class") or "" for kind in ("rect", "path") for each in drawn(picture).iter(kind)]
    assert sorted(each for each in shapes if "aside" in each) == [
        "bar late aside",
        "bar unowned aside",
        "mark gone aside",
    ]
    assert "bar silent" in shapes
    assert "bar waiting" in shapes
    assert "of another incident" in legend(picture)
    assert "aside" not in svg(a_picture(slow, FAST), "no incident")
    assert "of another incident" not in legend(a_picture(slow, FAST))


def test_a_note_may_end_with_a_time_that_programs_can_read() -> None:
    lane = FAST._replace(note="removed", note_ms=45_000)
    (time,) = drawn(a_picture(lane, partitions=())).iter("tspan")
    assert (time.text, time.get("data-ms")) == ("00:00:45", "45000")


def test_the_legend_explains_columns_of_quiet_time_where_there_are_some() -> None:
    later = FAST._replace(marks=(Mark(MarkKind.JOINED, 3_000_000),))
    assert "quiet time" in legend(a_picture(SLOW, later)._replace(to_ms=3_600_000))
    assert "quiet time" not in legend(a_picture(SLOW)._replace(from_ms=1_000, to_ms=41_000))
