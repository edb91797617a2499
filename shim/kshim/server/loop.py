"""What the two loops share: the set of peers, the instant of a wake-up, and how a peer comes and goes."""

from __future__ import annotations

import contextlib
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable

import trio

from kshim.broker.connection import FrameRouter
from kshim.server.clock import GroupClock
from kshim.server.connection import GONE, ServerConnection, ServerLog
from kshim.server.limits import ServerLimits
from kshim.server.listener import Bound
from kshim.server.peer import Peer
from kshim.server.quotas import ConnectionQuotas
from kshim.server.request_memory import RequestMemory


class Loop(ABC):
    """Serves many peers. `after_turn` is called after each wake-up, once the requests of it are handled.

    `may_wait`: trio's other tasks, except those of the router's background tasks, may always start a millisecond later.
    """

    def __init__(
        self,
        router: FrameRouter,
        *,
        clock: GroupClock,
        limits: ServerLimits,
        log: ServerLog,
        after_turn: Callable[[], None],
        may_wait: bool = False,
    ) -> None:
        self.peers: dict[int, Peer] = {}
        """By file descriptor."""
        self.turns = 0
        """Wake-ups so far, to see whether something happened meanwhile."""
        self.accepted_count = 0
        """Connections so far."""
        self.request_memory = RequestMemory(limits.queued_max_request_bytes)
        self.quotas = ConnectionQuotas(limits)
        self.slow: dict[Peer, tuple[int, int]] = {}
        """Who has more unsent answers than one may have: since when on the clock, and how many bytes it was then,
        which only become fewer. The longest first."""
        self.slow_bytes = 0
        """Sum of those bytes."""
        self.newcomers: dict[Peer, int] = {}
        """Who had a handshake or authentication before it when it came, and since when, in this order."""
        self.on_slow: Callable[[], None] = lambda: None
        """Called when a peer is added to `slow`."""
        self.on_newcomer: Callable[[], None] = lambda: None
        """The same for `newcomers`."""
        self._router = router
        self._clock = clock
        self._limits = limits
        self._log = log
        self._after_turn = after_turn
        self._may_wait = may_wait
        self._departure: trio.Event | None = None

    @abstractmethod
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; then every peer is closed. `add` may be called once this has started."""

    @abstractmethod
    def wake(self, peer: Peer) -> None:
        """Serve `peer` soon, though nothing came from its socket. May be called from anywhere in trio's thread."""

    @abstractmethod
    def serve_ready(self) -> None:
        """Take what clients have sent by now, where that does not need waiting. Call it outside a turn, in trio's thread."""

    @abstractmethod
    def send_ready(self) -> None:
        """Send the responses there are to those who were woken, as far as sockets take them. Call it outside a turn."""

    @abstractmethod
    def _started(self, peer: Peer) -> None:
        """Begin to serve a new peer."""

    @abstractmethod
    def close(self, peer: Peer) -> None:
        """End a peer now, whatever it waits for. Idempotent."""

    def add(self, sock: socket.socket, client_host: str, client_port: int, bound: Bound) -> None:
        """Serve an accepted socket from now on. Raises OSError when the system has no room; the socket is the caller's."""
        listener = bound.listener
        router = bound.router or self._router
        sock.setblocking(False)
        with contextlib.suppress(OSError):  # the peer may have disconnected already; reading will show
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection = ServerConnection(
            router,
            client_host,
            client_port,
            limits=self._limits,
            request_memory=self.request_memory,
            log=self._log,
            wake=lambda: self.wake(peer),
            transport_layer=bound.make_transport_layer() if bound.make_transport_layer is not None else None,
            listener_name=listener.name,
            security_protocol=listener.security_protocol,
        )
        peer = Peer(sock, router, connection, self._clock.now().mono_ms, self._note_slow)
        self._started(peer)
        self.peers[sock.fileno()] = peer
        self.quotas.add(listener.name, client_host)
        self.turns += 1
        self.accepted_count += 1
        if not connection.is_ready:
            self.newcomers[peer] = peer.active_ms
            self.on_newcomer()

    def stop(self, router: FrameRouter | None = None) -> None:
        """Let every peer finish, or those of one router: no more reading, what is here whole is handled, answers go out,
        then it closes.
        """
        for peer in [peer for peer in self.peers.values() if router is None or peer.router is router]:
            peer.connection.stop()
            if peer.connection.interest() == GONE:
                self.close(peer)
            else:
                self.wake(peer)

    def close_all(self) -> None:
        """Close every peer now."""
        for peer in list(self.peers.values()):
            self.close(peer)

    async def departure(self) -> None:
        """Return when the next peer has gone."""
        if self._departure is None:
            self._departure = trio.Event()
        await self._departure.wait()

    def _note_slow(self, peer: Peer, since_ms: int | None) -> None:
        if since_ms is None:
            self._forget_slow(peer)
        else:
            unsent_bytes = peer.connection.unsent_bytes
            self.slow[peer] = (since_ms, unsent_bytes)
            self.slow_bytes += unsent_bytes
            self.on_slow()

    def _forget_slow(self, peer: Peer) -> None:
        _, unsent_bytes = self.slow.pop(peer, (0, 0))
        self.slow_bytes -= unsent_bytes

    def _forget(self, peer: Peer) -> None:
        del self.peers[peer.sock.fileno()]
        self._forget_slow(peer)
        self.newcomers.pop(peer, None)
        self.quotas.remove(peer.connection.listener_name, peer.connection.client_host)
        peer.close()
        if self._departure is not None:
            self._departure.set()
            self._departure = None
