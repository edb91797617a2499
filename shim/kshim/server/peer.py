"""A connection and its socket: one step of non-blocking I/O, the same for every loop."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Callable
from struct import pack
from typing import TYPE_CHECKING, Final

from kshim.coordinator.step import Now
from kshim.server.connection import GONE, READ, ServerConnection

if TYPE_CHECKING:
    import trio

    from kshim.broker.connection import FrameRouter


_RESET: Final = pack("hh" if sys.platform == "win32" else "ii", 1, 0)
"""SO_LINGER: on, for no time."""


class Peer:
    """Moves bytes between a non-blocking socket and its `ServerConnection`. Loops decide when.

    `note_slow(peer, since_ms)` is called when more of its answers than allowed begin to wait, and with None when no more.

    All steps return the connection's interest; GONE means that the loop has to close the peer.
    """

    __slots__ = (  # as in ServerConnection
        "_is_abandoned",
        "_is_slow",
        "_note_slow",
        "_receive",
        "_send",
        "active_ms",
        "connection",
        "interest",
        "is_scheduled",
        "router",
        "sleep",
        "sock",
    )

    def __init__(
        self,
        sock: socket.socket,
        router: FrameRouter,
        connection: ServerConnection,
        real_ms: int,
        note_slow: Callable[[Peer, int | None], None],
    ) -> None:
        self.sock = sock
        self.router = router
        self.connection = connection
        self.active_ms = real_ms
        """When bytes last moved, on the real clock."""
        self.interest = READ
        """What the loop waits for on this socket."""
        self.is_scheduled = False
        """In the epoll loop's list of peers to serve without waiting for the socket."""
        self.sleep: trio.CancelScope | None = None
        """Where the task of this peer can be woken, with a task a connection."""
        self._is_slow = False
        self._is_abandoned = False
        self._note_slow = note_slow
        self._receive = sock.recv
        self._send = sock.send

    def on_readable(self, now: Now, real_ms: int) -> int:
        """Read once, handle what became whole, send the answers."""
        connection = self.connection
        try:
            data = self._receive(connection.read_bytes)
        except (BlockingIOError, InterruptedError):
            return connection.interest()
        except OSError:
            connection.client.closed("reset", now)
            return GONE
        self.active_ms = real_ms
        if data:
            connection.receive(data)
            connection.handle(now, real_ms)
        else:
            connection.client.closed("client", now)
            connection.receive_eof()
        return self.flush(real_ms)

    def resume(self, now: Now, real_ms: int) -> int:
        """Send what is left, handle what is at hand, send the answers."""
        if self.flush(real_ms) == GONE:
            return GONE
        self.connection.handle(now, real_ms)
        return self.flush(real_ms)

    def abandon(self) -> None:
        """Have the socket reset when it is closed, with nothing more sent: not even what TLS says at the end."""
        self._is_abandoned = True
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def close(self) -> None:
        """Close both. The loop forgets the peer itself."""
        if not self._is_abandoned and (farewell := self.connection.farewell()):
            with contextlib.suppress(OSError):  # who has gone needs none
                self._send(farewell)
        self.connection.close()
        self.sock.close()

    def flush(self, real_ms: int) -> int:
        """Send the answers, as far as the socket takes them."""
        connection = self.connection
        data = connection.next_to_send()
        while data:
            try:
                if isinstance(data, list):
                    size_bytes = sum(map(len, data))
                    sent_bytes = self._send_pieces(data)
                else:
                    size_bytes = len(data)
                    sent_bytes = self._send(data)
            except (BlockingIOError, InterruptedError):
                sent_bytes = 0
            except OSError:
                return GONE
            if sent_bytes:
                self.active_ms = real_ms
            if sent_bytes < size_bytes:
                connection.keep_unsent(data, sent_bytes)
                if connection.is_over_bound != self._is_slow:
                    self._mark(real_ms)
                break
            data = connection.next_to_send()
        else:
            if self._is_slow:
                self._mark(real_ms)
        return connection.interest()

    def _send_pieces(self, pieces: list[bytes | memoryview]) -> int:
        """Send them in one go. Raises OSError."""
        if sys.platform == "win32":  # which has no sendmsg
            return self._send(b"".join(pieces))
        return self.sock.sendmsg(pieces)

    def _mark(self, real_ms: int) -> None:
        self._is_slow = not self._is_slow
        self._note_slow(self, real_ms if self._is_slow else None)
