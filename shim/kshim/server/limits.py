"""What a server allows itself and its clients. Kafka's own keys are named where there is one."""

from __future__ import annotations

from collections.abc import Mapping

from kshim.coordinator.value_object import ValueObject

TURN_FRAMES = 64
"""Requests handled for one connection before the others get their turn."""
TURN_BYTES = 256 * 1024
"""The same in bytes. One frame is always handled whole."""
READ_BYTES = 64 * 1024
"""Asked of the kernel at once. Larger reads leave malloc's fast path (0.8 -> 8 us), so only large frames get them."""
QUEUE_BYTES = 64 * 1024
"""Reading pauses once this much waits behind a parked request of the same connection."""


class ServerLimits(ValueObject, frozen=False):
    """Limits of one server, over all its listeners; all sizes in bytes, all durations in ms.

    - `request_max_bytes`: largest frame, without its size (`socket.request.max.bytes`); a larger one closes.
    - `unauthenticated_max_bytes`: the same before a client has authenticated (`sasl.server.max.receive.size`).
    - `max_connections`: beyond it new connections stay in the backlog until one closes (`max.connections`);
      `listener_max_connections` the same for single listeners by name (`listener.name.<name>.max.connections`).
    - `max_connections_per_ip`: further ones of an address are closed at once; `max_connections_per_ip_overrides` holds
      other numbers for single addresses, in the form of `Connection.client_host` (`max.connections.per.ip` and
      `max.connections.per.ip.overrides`).
    - `authentication_max_ms`: a client that has not done its TLS handshake and SASL by then is cut off.
    - `connections_max_idle_ms`: a connection that moves no byte for so long is closed, up to a sixteenth later; one
      that is owed an answer is not idle, unless the client has ended its side, or 64 KiB and more wait behind the
      request. Negative: never (`connections.max.idle.ms`).
    - `listen_backlog_size`: `socket.listen.backlog.size`.
    - `queued_max_request_bytes`: input of all connections that waits, for the rest of its frame or behind a parked request;
      parked requests of 4 KiB and more count too. While it is used up, connections that need more are not read, but
      for one, which may finish its frame (`queued.max.request.bytes`). Who keeps room for one request for
      `slow_sender_ms` while others wait for some is cut off.
    - `unsent_max_bytes`: once more than this of one connection's answers are unsent, its further frames wait;
      after `slow_reader_ms` of that it is cut off. While all connections together hold more than
      `unsent_total_max_bytes` of such answers, who has held them longest is cut off within a second; of twice as much,
      at once.
    - `shutdown_grace_ms`: how long a graceful stop waits for answers to be taken.
    """

    request_max_bytes: int = 104_857_600
    unauthenticated_max_bytes: int = 524_288
    max_connections: int = 2_147_483_647
    listener_max_connections: Mapping[str, int] = {}
    max_connections_per_ip: int = 2_147_483_647
    max_connections_per_ip_overrides: Mapping[str, int] = {}
    authentication_max_ms: int = 30_000
    connections_max_idle_ms: int = 600_000
    listen_backlog_size: int = 512
    queued_max_request_bytes: int = 512 * 1024 * 1024
    unsent_max_bytes: int = 1024 * 1024
    unsent_total_max_bytes: int = 512 * 1024 * 1024
    slow_reader_ms: int = 60_000
    slow_sender_ms: int = 30_000
    shutdown_grace_ms: int = 2_000

    def take_connections_of(self, other: ServerLimits) -> None:
        """Allow as many connections as `other` from now on; those that are there stay."""
        self.max_connections = other.max_connections
        self.listener_max_connections = other.listener_max_connections
        self.max_connections_per_ip = other.max_connections_per_ip
        self.max_connections_per_ip_overrides = other.max_connections_per_ip_overrides
