"""The input of all connections that waits: one sum, one bound, and who stands in line for room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["Parked", "ParkedBytes"]


class Parked(Protocol):
    """A connection, as the sum sees it."""

    parked_bytes: int

    def resume_reading(self) -> None:
        """There is room now; `parked_bytes` is what was asked for."""


def _nothing() -> None:
    pass


class ParkedBytes:
    """Sum of the input that waits on all connections of a listener, bounded by `limit_bytes`.

    A frame is counted as announced when its first bytes are in, so that a frame once let in can always be finished
    and no two half frames wait for each other. Asking succeeds while anything is free, whatever is asked for: a frame
    larger than the whole bound still passes, alone. Kafka does the same (SimpleMemoryPool, not strict).
    `on_line` is called when somebody begins to stand in line.
    """

    __slots__ = ("_limit_bytes", "_line", "on_line", "total_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._line: dict[Parked, int] = {}  # in order of asking: connection -> bytes it wants to hold
        self.total_bytes = 0
        self.on_line: Callable[[], None] = _nothing

    @property
    def has_line(self) -> bool:
        """Whether somebody waits for room."""
        return bool(self._line)

    def charge(self, connection: Parked, wanted_bytes: int) -> bool:
        """Let `connection` hold `wanted_bytes` instead of what it held. False: no room, it stands in line now."""
        growth = wanted_bytes - connection.parked_bytes
        if growth > 0 and self.total_bytes >= self._limit_bytes:
            self._line[connection] = wanted_bytes
            self.on_line()
            return False
        self._line.pop(connection, None)
        self.total_bytes += growth
        connection.parked_bytes = wanted_bytes
        if growth < 0:
            self._let_in()
        return True

    def _let_in(self) -> None:
        while self._line and self.total_bytes < self._limit_bytes:
            connection, wanted_bytes = next(iter(self._line.items()))
            del self._line[connection]
            self.total_bytes += wanted_bytes - connection.parked_bytes
            connection.parked_bytes = wanted_bytes
            connection.resume_reading()
