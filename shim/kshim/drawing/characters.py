"""A picture as lines of characters, for terminals: the same bars and marks as in `kshim.drawing.svg`. Names in it may be anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from kshim.drawing.lanes import Band, Lane, Picture
from kshim.drawing.scale import Scale
from kshim.drawing.svg import clock, shortened, span_text
from kshim.drawing.vocabulary import BarKind, MarkKind
from kshim.wording import columns, escaped

LEAST_WIDTH = 60
_NAME_SHARE, _NOTE_SHARE = 0.4, 0.25
"""Of the width, at most, where names and notes are that long."""
_CUT = "┊"
_CUT_WIDTH = 1.0
_TONES: dict[BarKind | MarkKind, str] = {
    BarKind.WAITING: "waiting",
    BarKind.REVOKING: "waiting",
    BarKind.PAUSED: "waiting",
    BarKind.SYNCING: "syncing",
    BarKind.LATE: "culprit",
    BarKind.SILENT: "culprit",
    BarKind.UNOWNED: "culprit",
    MarkKind.GONE: "culprit",
    MarkKind.FAULT: "waiting",
    BarKind.MEMBER: "calm",
    BarKind.OWNED: "calm",
}


class Cell(NamedTuple):
    """Text in one tone: `calm`, `quiet`, `waiting`, `syncing`, `culprit`, `head`, or `` for that of ordinary text."""

    text: str
    tone: str = ""


def characters(picture: Picture, width: int) -> list[list[Cell]]:
    """The whole drawing, in lines of at most `width` columns (of `LEAST_WIDTH` at least), with its legend at the end."""
    width = max(width, LEAST_WIDTH)
    drawn = (*picture.members, *picture.partitions)
    name_width = min(max((columns(escaped(_name(lane))) for lane in drawn), default=0), int(width * _NAME_SHARE))
    note_width = min(max((columns(escaped(_note(lane))) for lane in drawn), default=0), int(width * _NOTE_SHARE))
    plot = width - name_width - note_width - 2
    scale = Scale(picture.active(), picture.from_ms, picture.to_ms, left=0, width=plot, most_cut=_CUT_WIDTH)
    edge = " " * (name_width + 1)
    lines = [[Cell(edge), Cell(_numbers(picture.bands, scale, plot), "head")]] if picture.bands else []
    for title, lanes, omitted in (
        ("Members", picture.members, picture.members_omitted),
        ("Partitions", picture.partitions, picture.partitions_omitted),
    ):
        if lanes:
            lines.append([Cell(title, "head")])
        lines += [_lane(lane, scale, plot, name_width, note_width, picture.to_ms) for lane in lanes]
        if omitted:
            lines.append([Cell(f"and {omitted} more in which nothing stands out", "quiet")])
    begin, end = clock(picture.from_ms), f"{clock(picture.to_ms)} UTC"
    lines.append([Cell(f"{edge}{begin}{end.rjust(max(plot - len(begin), len(end) + 1))}", "quiet")])
    cut = [f"{_CUT} {span_text(piece.to_ms - piece.from_ms)} left out" for piece in scale.pieces if piece.is_cut]
    if cut:
        lines.append([Cell(shortened(f"{edge}{', '.join(cut)}", width), "quiet")])
    return [*lines, [], *_legend(picture, width)]


def _numbers(bands: Sequence[Band], scale: Scale, plot: int) -> str:
    """The numbers of rebalances where they began, as far as there is room."""
    text = ""
    for band in sorted(bands, key=lambda each: each.from_ms):
        place, number = _place(scale, band.from_ms, plot), str(band.number)
        if place >= len(text) + (1 if text else 0) and place + len(number) <= plot:
            text = text.ljust(place) + number
    return text


def _place(scale: Scale, at_ms: int, plot: int) -> int:
    return min(int(scale.x(at_ms)), plot - 1)


def _lane(lane: Lane, scale: Scale, plot: int, name_width: int, note_width: int, now_ms: int) -> list[Cell]:
    drawn: list[tuple[str, str]] = [(" ", "")] * plot
    for piece in scale.pieces:
        if piece.is_cut:
            drawn[min(int(piece.left), plot - 1)] = _CUT, "quiet"
    for bar in lane.bars:
        begin, end = _place(scale, bar.from_ms, plot), _place(scale, now_ms if bar.to_ms is None else bar.to_ms, plot)
        for place in range(begin, max(end, begin + 1)):
            if drawn[place][0] != _CUT or bar.kind not in (BarKind.MEMBER, BarKind.OWNED):
                drawn[place] = bar.kind.character, _TONES[bar.kind]
    for mark in lane.marks:
        if mark.kind is not MarkKind.COMMITTED:
            drawn[_place(scale, mark.at_ms, plot)] = mark.kind.character, _TONES.get(mark.kind, "")
    cells = [Cell("".join(text for text, _ in part), tone) for tone, part in groupby(drawn, key=lambda each: each[1])]
    note = _fitted(_note(lane), note_width).rstrip(" ")
    return [
        Cell(f"{_fitted(_name(lane), name_width)} ", "culprit" if lane.is_culprit else ""),
        *cells,
        Cell(f" {note}", "quiet"),
    ]


def _name(lane: Lane) -> str:
    return f"⚑ {lane.name}" if lane.is_culprit else lane.name


def _note(lane: Lane) -> str:
    time = "" if lane.note_ms is None else clock(lane.note_ms)
    return " ".join(each for each in (lane.owner, lane.note, time) if each)


def _fitted(text: str, width: int) -> str:
    """In exactly so many columns."""
    short = shortened(text, width)
    while columns(short) > width:
        short = shortened(short, len(short) - 1)
    return short + " " * (width - columns(short))


def _legend(picture: Picture, width: int) -> Iterator[list[Cell]]:
    """What the characters of a picture mean, in as few lines as have room for them."""
    lanes = (*picture.members, *picture.partitions)
    bars = {bar.kind for lane in lanes for bar in lane.bars}
    marks = {mark.kind for lane in lanes for mark in lane.marks} - {MarkKind.COMMITTED}
    shown = [(kind.character * 2, kind.words, _TONES[kind]) for kind in BarKind if kind in bars]
    shown += [(kind.character, kind.words, _TONES.get(kind, "")) for kind in MarkKind if kind in marks]
    if any(lane.is_culprit for lane in lanes):
        shown.append(("⚑", "who is responsible", "culprit"))
    line: list[Cell] = []
    taken = 0
    for character, words, tone in shown:
        length = len(character) + 1 + len(words)
        if line and taken + 3 + length > width:
            yield line
            line, taken = [], 0
        if line:
            line.append(Cell("   "))
            taken += 3
        line += [Cell(character, tone), Cell(f" {words}", "quiet")]
        taken += length
    if line:
        yield line
