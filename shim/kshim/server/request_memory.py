"""The input of all connections that waits: one sum, one bound, and who stands in line for room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kshim.server.limits import READ_BYTES


class WaitingConnection(Protocol):
    """A connection, as the sum sees it."""

    request_memory_bytes: int

    def resume_reading(self) -> None:
        """It may read on."""


class RequestMemory:
    """Sum of the input that waits on all connections of a server, bounded by `limit_bytes`.

    Received bytes count, not announced ones, so that announcing costs others nothing (Kafka's
    SimpleMemoryPool counts that). Once the sum is reached, who needs more of a request stands in line. One of them may
    go on over the bound until his request is whole, so that half requests never wait for each other; the bound may be
    passed by that one, and by one read of each connection. `on_line` is called when a connection begins to wait.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._line: dict[WaitingConnection, None] = {}  # in order of asking
        self._ahead: WaitingConnection | None = None  # who may go on over the bound
        self.total_bytes = 0
        self.on_line: Callable[[], None] = lambda: None

    @property
    def has_line(self) -> bool:
        """Whether a connection waits for memory."""
        return bool(self._line)

    def hold(self, connection: WaitingConnection, held_bytes: int) -> None:
        """`connection` holds this much now, whether there is room or not."""
        growth = held_bytes - connection.request_memory_bytes
        self.total_bytes += growth
        connection.request_memory_bytes = held_bytes
        if not held_bytes:
            self._line.pop(connection, None)
        if growth < 0:
            if connection is self._ahead:
                self._ahead = None
            self._let_in()

    def may_grow(self, connection: WaitingConnection) -> bool:
        """Whether `connection` may read on; else it stands in line now, and `resume_reading` will be called."""
        if self.total_bytes >= self._limit_bytes and connection is not self._ahead:
            if self._ahead is not None:
                self._line.setdefault(connection)
                self.on_line()
                return False
            self._ahead = connection
        self._line.pop(connection, None)
        return True

    def _let_in(self) -> None:
        room = self._limit_bytes - self.total_bytes
        while self._line and (room > 0 or self._ahead is None):
            connection = next(iter(self._line))
            del self._line[connection]
            if room <= 0:
                self._ahead = connection
            room -= READ_BYTES
            connection.resume_reading()
