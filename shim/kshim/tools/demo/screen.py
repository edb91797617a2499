"""Where the demo is seen: a picture redrawn in place on a terminal, plain lines anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from kshim.tools.demo.story import Note
from kshim.tools.screen import Line, Screen, render


class LiveScreen(Screen):
    """Redraws the picture in place."""

    def show(self, lines: Sequence[Line], notes: Sequence[Note]) -> None:
        """Draw `lines`; the notes are in them. What is too high loses its empty lines, then its top."""
        if len(lines) > self.room:
            lines = [line for line in lines if line][-self.room :]
        self.draw(lines)

    def end(self, lines: Sequence[Line], summary: Sequence[Line]) -> None:
        """Leave the whole picture with the summary below it, however high."""
        self.draw([*lines, [], *summary])


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
