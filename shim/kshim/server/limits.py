"""What one listener allows itself and its clients. Kafka's own keys are named where there is one."""

from __future__ import annotations

__all__ = ["QUEUE_BYTES", "READ_BYTES", "TURN_BYTES", "TURN_FRAMES", "ServerLimits"]

TURN_FRAMES = 64
"""Requests handled for one connection before the others get their turn."""
TURN_BYTES = 256 * 1024
"""The same in bytes. One frame is always handled whole."""
READ_BYTES = 64 * 1024
"""Asked of the kernel at once. Larger reads leave malloc's fast path (0.8 -> 8 us), so only large frames get them."""
QUEUE_BYTES = 64 * 1024
"""Reading pauses once this much waits behind a parked request of the same connection."""


class ServerLimits:
    """Limits of one listener; all sizes in bytes, all durations in ms.

    - `request_max_bytes`: largest frame, without its size (`socket.request.max.bytes`); a larger one closes.
    - `max_connections`: beyond it new connections stay in the backlog until one closes (`max.connections`).
    - `connections_max_idle_ms`: a connection that moves no byte for so long is closed, up to a sixteenth later; one
      that is owed an answer is not idle. Negative: never (`connections.max.idle.ms`).
    - `listen_backlog_size`: `socket.listen.backlog.size`.
    - `parked_max_bytes`: input of all connections that waits, for the rest of its frame (counted as announced) or
      behind a parked request. While it is used up, connections that need more are not read; one frame is always
      let in, so the bound may be passed by one frame (`queued.max.request.bytes`).
    - `unsent_max_bytes`: once more than this of one connection's answers are unsent, its further frames wait.
    - `shutdown_grace_ms`: how long a graceful stop waits for answers to be taken.
    """

    __slots__ = (
        "connections_max_idle_ms",
        "listen_backlog_size",
        "max_connections",
        "parked_max_bytes",
        "request_max_bytes",
        "shutdown_grace_ms",
        "unsent_max_bytes",
    )

    def __init__(
        self,
        *,
        request_max_bytes: int = 104_857_600,
        max_connections: int = 2_147_483_647,
        connections_max_idle_ms: int = 600_000,
        listen_backlog_size: int = 512,
        parked_max_bytes: int = 512 * 1024 * 1024,
        unsent_max_bytes: int = 1024 * 1024,
        shutdown_grace_ms: int = 2_000,
    ) -> None:
        self.request_max_bytes = request_max_bytes
        self.max_connections = max_connections
        self.connections_max_idle_ms = connections_max_idle_ms
        self.listen_backlog_size = listen_backlog_size
        self.parked_max_bytes = parked_max_bytes
        self.unsent_max_bytes = unsent_max_bytes
        self.shutdown_grace_ms = shutdown_grace_ms
