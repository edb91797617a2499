"""What the broker sees of a client's connection, and what the server sees of the broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kshim.coordinator.step import Now
from kshim.scheduling.background_tasks import BackgroundTasks
from kshim.scheduling.pace import Pace

if TYPE_CHECKING:
    from kshim.broker.client_activity import ConnectedClient
    from kshim.config.listeners import SecurityProtocol

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that has not authenticated (KafkaPrincipal.ANONYMOUS)."""


class ConnectionClosing(Exception):
    """The peer's bytes cannot be answered: close the connection. `str(error)` says why, for the log."""


class Connection(Protocol):
    """One client connection, as the broker sees it."""

    client_host: str
    """Peer address in Java's text form with the slash, e.g. `/127.0.0.1`."""
    client_port: int
    """The peer's port, for the log."""
    listener_name: str
    """Kafka's name of the listener it came by, upper case; clients get the addresses of this listener only."""
    security_protocol: SecurityProtocol
    """That of its listener."""
    principal: str
    """The principal, e.g. `User:alice`; ANONYMOUS until TLS or SASL has authenticated the client."""
    is_authenticated: bool
    """False while a client of a SASL listener has not yet authenticated: then larger requests are refused, and time is
    short. The broker sets it, together with `principal`."""
    is_closed: bool
    """True once the peer is gone; a reply is then dropped."""
    client: ConnectedClient
    """What is known of its client. A new one with the connection, whose end the server notes in it."""

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        """End the request being handled: send `frame` (with its 4-byte size), or nothing when None (acks=0).

        `rest` are further pieces of a large frame, which follow the first.
        """

    def hang_up(self, reason: str) -> None:
        """Close once the answers made so far are out; what else came is not handled. `reason` is for the log.

        Not to be called inside `FrameRouter.route`, where ConnectionClosing does it.
        """


class FrameRouter(Protocol):
    """What `kshim.server` drives. `kshim.broker.router.Router` implements it; every call is synchronous and brief."""

    background_tasks: BackgroundTasks
    """What is to be done besides answering. The server sets its `on_task`, and takes from it whenever that is called."""
    pace: Pace
    """How often what is checked regularly is checked: the server says when it moves the clock."""
    on_fired: Callable[[tuple[str, ...]], None]
    """The server sets it: called with each timer that fires, by its kind and what it is for, such as
    ("session", group id, member id)."""

    def route(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> None:
        """Handle one request frame (without its size). `connection.reply` is called once, now or later.

        `now` is the injectable clock; `real_ms` is the same instant in ms, for whatever is not of a group (fetch waits).
        Raises ConnectionClosing when the bytes deserve no answer.
        """

    def closed(self, connection: Connection) -> None:
        """The connection is gone: its waiting Fetch is dropped. No input to the coordinator (as in Kafka)."""

    def next_deadline(self) -> int | None:
        """When `advance` is next due: ms on the clock (`Now.mono_ms`), or None."""

    def advance(self, now: Now) -> None:
        """Fire group, retention and transaction timers that are due."""

    def next_real_deadline(self) -> int | None:
        """When `advance_real` is next due: ms on the same clock, or None."""

    def advance_real(self, real_ms: int) -> None:
        """Answer waiting Fetches whose time is over, and do what the broker does by itself after a while."""

    def finish_loading(self) -> None:
        """Read now what coordinators have still to read of their logs, as they do in the background after a start."""

    def warm_up(self) -> bool:
        """Do one small piece of work that makes later answers faster (compile a codec, load a shard).

        Returns True while there is more; the server calls it in idle turns after the listener is open.
        """


class NodeRouter(FrameRouter, Protocol):
    """One of several nodes, which may be stopped and started while the server runs."""

    on_stop: Callable[[], None]
    """The server sets it: accepts no more connections, and ends those there are."""
    on_kill: Callable[[], None]
    """The server sets it: the same without answering anything first; connections are reset."""
    on_start: Callable[[], None]
    """The server sets it: accepts connections again. Raises OSError when the port is taken."""
