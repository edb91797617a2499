"""Standard error for the log: a pipe that is not read must not block the broker."""

from __future__ import annotations

import contextlib
import os
import select
import stat
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from kshim.cli.options import LogFormat


class UnreadPipe:
    """Writes lines to a pipe, and drops them, counted, while it is full.

    A harness that starts kshim with a pipe and never reads it would otherwise stop it after some 64 KiB of log.
    """

    def __init__(self, descriptor: int, log_format: LogFormat) -> None:
        self._descriptor = descriptor
        self._is_json = log_format == "json"
        self._dropped = 0
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def write(self, text: str) -> int:
        """Write `text` if the pipe has room. Raises OSError when the reader has gone."""
        if self._dropped and self._has_room():
            os.write(self._descriptor, self._dropped_line().encode())
            self._dropped = 0
        # Ready means that PIPE_BUF bytes fit; each such piece is written whole, without waiting.
        data = text.encode("utf-8", "backslashreplace")
        at = 0
        while at < len(data):
            if not self._has_room():
                self._dropped += data.count(b"\n", at)
                break
            end = at + select.PIPE_BUF
            if end < len(data):
                end = data.rfind(b"\n", at, end) + 1 or end  # of several lines none is cut but a very long one
            os.write(self._descriptor, data[at:end])
            at = end
        return len(text)

    def flush(self) -> None:
        """Nothing is buffered."""

    def _dropped_line(self) -> str:
        if self._is_json:
            return f'{{"level": "WARN", "event": "lines_dropped", "count": {self._dropped}}}\n'
        return f"(dropped {self._dropped} lines: this pipe is not being read)\n"

    def _has_room(self) -> bool:
        return bool(self._poll.poll(0))


def log_stream(stream: TextIO, log_format: LogFormat) -> TextIO | UnreadPipe:
    """`stream`, or what writes to the same descriptor without ever waiting, if that is a pipe (not on Windows)."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = stream.fileno()
        if hasattr(select, "poll") and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            stream.flush()
            return UnreadPipe(descriptor, log_format)
    return stream
