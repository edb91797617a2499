"""Where the demo is seen: a picture redrawn in place on a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

from kshim.tools.demo.picture import Line, render
from kshim.tools.demo.story import Note

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_CLEAR_LINE, _CLEAR_BELOW = "\x1b[K", "\x1b[J"


def is_live(stream: TextIO) -> bool:
    """Whether a picture can be redrawn on `stream`."""
    if not stream.isatty() or os.environ.get("TERM", "") == "dumb":
        return False
    if sys.platform == "win32":
        os.system("")  # Windows' consoles understand escape sequences from then on
    return True


class LiveScreen:
    """Redraws the picture in place; `close` leaves it there and gives the cursor back."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_coloured = not os.environ.get("NO_COLOR")
        self._drawn_lines = 0
        stream.write(_HIDE_CURSOR)

    def show(self, lines: Sequence[Line], notes: Sequence[Note]) -> None:
        """Draw `lines`; the notes are in them. What is too high loses its empty lines, then its top."""
        room = max(shutil.get_terminal_size().lines - 1, 1)  # writing into the last row would scroll
        if len(lines) > room:
            lines = [line for line in lines if line][-room:]
        self._draw(lines)

    def end(self, lines: Sequence[Line], summary: Sequence[Line]) -> None:
        """Leave the whole picture with the summary below it, however high."""
        self._draw([*lines, [], *summary])

    def _draw(self, lines: Sequence[Line]) -> None:
        columns = shutil.get_terminal_size().columns - 1
        parts = [f"\x1b[{self._drawn_lines}A\r" if self._drawn_lines else "\r"]
        parts += [render(line, columns, is_coloured=self._is_coloured) + _CLEAR_LINE + "\n" for line in lines]
        parts.append(_CLEAR_BELOW)
        self._drawn_lines = len(lines)
        self._stream.write("".join(parts))
        self._stream.flush()

    def close(self) -> None:
        self._stream.write(_SHOW_CURSOR)
        self._stream.flush()


class PlainLines:
    """Writes each note once, as it comes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._written = 0

    def show(self, lines: Sequence[Line], notes: Sequence[Note]) -> None:
        """Write the notes that are new; the picture is for terminals."""
        for note in notes[self._written :]:
            self._stream.write(f"{note.at_ms / 1000:6.2f} s  {note.who:<10} {note.text}\n")
        self._written = len(notes)
        self._stream.flush()

    def end(self, lines: Sequence[Line], summary: Sequence[Line]) -> None:
        """Write the summary."""
        self._stream.write("\n")
        self._stream.writelines(render(line, 1 << 16, is_coloured=False) + "\n" for line in summary)

    def close(self) -> None:
        self._stream.flush()
