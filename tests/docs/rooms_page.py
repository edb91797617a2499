"""Write the picture and the map of the rooms from the imports: `python -m tests.docs.rooms_page --write`."""

from __future__ import annotations

import sys
from html import escape
from importlib import import_module

from tests.docs.blocks import DOCS
from tests.repository.rooms import Imports, reduced, room_imports

PAGE = DOCS / "design" / "architecture.md"
PICTURE = DOCS / "design" / "rooms.svg"
BEGIN = "<!-- rooms: written by `python -m tests.docs.rooms_page --write` -->"
END = "<!-- end of rooms -->"

_BOX_HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 40.0, 28.0, 64.0, 20.0
_CHARACTER_WIDTH = 7.6
_BLANK = 30
_LONG = 2
"""A room with an arrow over more rows than this stands aside."""


def with_map(page: str) -> str:
    """The page with the map as it should be."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{PAGE.name} has no place for the map"
    assert end, f"{PAGE.name} has no end of the map"
    return "".join((before, BEGIN, "\n", folder_map(), END, after))


def folder_map() -> str:
    """Each room: what it is for, which rooms it imports."""
    lines = ["| Room | Contents | Imports |", "| --- | --- | --- |"]
    for room in (room for row in rows_of(room_imports()) for room in row):
        others = ", ".join(f"`{_short(other)}`" for other in sorted(room_imports()[room]) if other in room_imports())
        lines.append(f"| `{_short(room)}` | {_contents(room)} | {others} |")
    return "\n".join(lines) + "\n"


def rows_of(imports: Imports) -> list[list[str]]:
    """The rooms from the top down, each one row below the lowest room that imports it."""
    depths: dict[str, int] = {}

    def depth(room: str) -> int:
        if room not in depths:
            depths[room] = 1 + max((depth(other) for other in imports if room in imports[other]), default=-1)
        return depths[room]

    bottom = max(map(depth, imports))
    return [sorted(room for room in imports if depths[room] == number) for number in range(bottom + 1)]


def picture() -> str:
    """The rooms, each above those that it imports, as SVG. Imports that follow from others have no arrow."""
    imports = reduced(room_imports())
    rows = rows_of(room_imports())
    depths = {room: number for number, row in enumerate(rows) for room in row}
    aside = [room for room in depths if any(depths[other] - depths[room] > _LONG for other in imports[room])]
    sides = (aside[::2], aside[1::2])
    far = {room for room in depths if any(depths[other] - depths[room] > 1 for other in imports[room])}
    inner = [_outwards([room for room in row if room not in aside], far) for row in rows]
    left, right = (max((_width(room) + _GAP_X for room in side), default=0) for side in sides)
    inner_width = max(map(_row_width, inner))
    width = left + inner_width + right + 2 * _MARGIN
    height = len(rows) * (_BOX_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    x = {room: float(_MARGIN) for room in sides[0]}
    x.update((room, width - _MARGIN - _width(room)) for room in sides[1])
    for row in inner:
        at = _MARGIN + left + (inner_width - _row_width(row)) / 2
        for room in row:
            x[room] = at
            at += _width(room) + _GAP_X
    places = {room: (x[room], _MARGIN + depths[room] * (_BOX_HEIGHT + _GAP_Y)) for room in depths}
    arrows = [_arrow(places, room, other) for room, others in imports.items() for other in others]
    boxes = [_box(places[room], room) for row in rows for room in row]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" '
            'font-size="13" role="img">',
            "<title>The rooms of kshim, each above those that it imports</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 8 4 0 8z" fill="#5b6b7c"/></marker></defs>',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *arrows,
            *boxes,
            "</svg>\n",
        )
    )


def _box(place: tuple[float, float], room: str) -> str:
    left, top = place
    width = _width(room)
    return (
        f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BOX_HEIGHT}" rx="6" fill="#eef3f8" '
        f'stroke="#2f4a66"/><text x="{left + width / 2:.1f}" y="{top + 25}" text-anchor="middle" fill="#1b2b3a">'
        f"{escape(_short(room))}</text>"
    )


def _arrow(places: dict[str, tuple[float, float]], room: str, other: str) -> str:
    """From a room down to one that it imports; a long one goes straight down first."""
    (left, top), (other_left, other_top) = places[room], places[other]
    x, y, to_x = left + _width(room) / 2, top + _BOX_HEIGHT, other_left + _width(other) / 2
    bend_y = max(y, other_top - _GAP_Y)
    return (
        f'<path d="M{x:.1f} {y}V{bend_y}L{to_x:.1f} {other_top}" fill="none" stroke="#5b6b7c" marker-end="url(#tip)"/>'
    )


def _outwards(row: list[str], far: set[str]) -> list[str]:
    """A row with those at its ends whose arrows pass other rows."""
    outer = [room for room in row if room in far]
    return [*outer[::2], *(room for room in row if room not in far), *outer[1::2]]


def _row_width(row: list[str]) -> float:
    return sum(_width(room) + _GAP_X for room in row) - _GAP_X


def _width(room: str) -> float:
    return len(_short(room)) * _CHARACTER_WIDTH + _BLANK


def _short(room: str) -> str:
    return room.removeprefix("kshim.")


def _contents(room: str) -> str:
    """The first paragraph of the package's docstring."""
    text = import_module(room).__doc__
    assert text, f"{room} does not say what it is for"
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__" and "--write" in sys.argv:
    PAGE.write_text(with_map(PAGE.read_text()))
    PICTURE.write_text(picture())
