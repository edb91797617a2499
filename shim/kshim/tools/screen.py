"""Lines of coloured text, and a terminal on which they are redrawn in place."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from kshim.wording import columns, escaped

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_CLEAR_LINE, _CLEAR_BELOW = "\x1b[K", "\x1b[J"
_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
    "cyan": "36",
    "on red": "97;41",
    "on green": "30;42",
    "on yellow": "30;43",
    "on magenta": "30;45",
    "on cyan": "30;46",
}


class Span(NamedTuple):
    """Text in one colour (a key of the palette, or ``)."""

    text: str
    colour: str = ""


Line = list[Span]


def render(line: Line, width: int, *, is_coloured: bool) -> str:
    """The line as text of at most `width` columns. What is not printable is escaped."""
    parts: list[str] = []
    left = width
    for text, colour in line:
        text, taken = _cut(escaped(text), left)
        left -= taken
        if text:
            parts.append(f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if colour and is_coloured else text)
    return "".join(parts).rstrip(" ")


def fit(text: str, width: int) -> str:
    """`text`, escaped, in exactly so many columns: filled with spaces, or cut, with an ellipsis.

    >>> fit("orders", 8), fit("orders", 4), fit("日本", 3)
    ('orders  ', 'ord…', '日…')
    """
    text = escaped(text)
    cut, taken = _cut(text, width)
    if cut != text:
        cut, taken = _cut(text, width - 1)
        cut, taken = cut + "…", taken + 1
    return cut + " " * (width - taken)


def _cut(text: str, most: int) -> tuple[str, int]:
    """As much of the beginning as has room, and the columns that it takes."""
    if text.isascii():
        return text[:most], min(len(text), most)
    taken = 0
    for place, character in enumerate(text):
        taken += columns(character)
        if taken > most:
            return text[:place], taken - columns(character)
    return text, taken


def is_live(stream: TextIO) -> bool:
    """Whether a picture can be redrawn on `stream`."""
    if not stream.isatty() or os.environ.get("TERM", "") == "dumb":
        return False
    if sys.platform == "win32":
        os.system("")  # Windows' consoles understand escape sequences from then on
    return True


class Screen:
    """Draws lines in place of those it drew before; `close` leaves them there and gives the cursor back."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_coloured = not os.environ.get("NO_COLOR")
        self._drawn_lines = 0
        stream.write(_HIDE_CURSOR)

    @property
    def room(self) -> int:
        """How many lines fit: writing into the last row would scroll."""
        return max(shutil.get_terminal_size().lines - 1, 1)

    def draw(self, lines: Sequence[Line]) -> None:
        """Draw all of them, each cut to the width of the terminal. More than `room` scroll."""
        width = shutil.get_terminal_size().columns - 1
        parts = [f"\x1b[{self._drawn_lines}A\r" if self._drawn_lines else "\r"]
        parts += [render(line, width, is_coloured=self._is_coloured) + _CLEAR_LINE + "\n" for line in lines]
        parts.append(_CLEAR_BELOW)
        self._drawn_lines = len(lines)
        self._stream.write("".join(parts))
        self._stream.flush()

    def close(self) -> None:
        self._stream.write(_SHOW_CURSOR)
        self._stream.flush()
