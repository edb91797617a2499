"""Progress in one line on stderr that is overwritten; where stderr is no terminal, occasional plain lines."""

from __future__ import annotations

import sys
import time
from typing import Final, TextIO

_TERMINAL_EVERY_S: Final = 0.2
_PLAIN_EVERY_S: Final = 10.0


class Progress:
    """A status line. `say` may be called at any rate."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._every_s = _TERMINAL_EVERY_S if self._is_terminal else _PLAIN_EVERY_S
        self._last_at = 0.0
        self._last_text = ""
        self._width = 0

    def say(self, text: str) -> None:
        """Show `text`, unless a text was shown just now or it is the same."""
        now = time.monotonic()
        if text == self._last_text or (self._last_at and now - self._last_at < self._every_s):
            return
        self._last_at, self._last_text = now, text
        if self._is_terminal:
            self._stream.write(f"\r{text:<{self._width}}")
            self._width = len(text)
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def done(self) -> None:
        """Clear the line."""
        if self._is_terminal and self._width:
            self._stream.write(f"\r{'':<{self._width}}\r")
            self._stream.flush()
        self._width = 0
