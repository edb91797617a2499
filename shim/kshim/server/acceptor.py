"""The listeners of one router: bound together, closed and opened again while the server runs."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import trio

from kshim.broker.connection import FrameRouter
from kshim.config.listeners import Listener
from kshim.server.listener import Bound, bind, listening

if TYPE_CHECKING:
    from kshim.server.clock import GroupClock
    from kshim.server.limits import ServerLimits
    from kshim.server.loop import Loop
    from kshim.server.transport_layer import TransportLayer


Accept = Callable[[Bound], Awaitable[None]]
"""Takes connections of one listener until it is cancelled."""


class Acceptor:
    """`addresses` are those bound, (host, port) of each listener in their order. Used in trio's thread only.

    `sockets`, one a listener, listen already.
    """

    def __init__(
        self,
        router: FrameRouter,
        listeners: Sequence[Listener],
        transport_layers: Mapping[str, Callable[[], TransportLayer]],
        limits: ServerLimits,
        sockets: Sequence[socket.socket] = (),
    ) -> None:
        self.router = router
        self.addresses: list[tuple[str, int]] = []
        self._given = sockets
        self._listeners = listeners
        self._transport_layers = transport_layers
        self._limits = limits
        self._bounds: list[Bound] = []
        self._sockaddrs: list[tuple[int, Any]] = []
        self._accepting: trio.CancelScope | None = None

    async def bind(self) -> None:
        """Listen on each address, without accepting connections yet. Raises CannotBind, and then `close_sockets` has to be called."""
        for index, listener in enumerate(self._listeners):
            if self._given:
                sock = self._given[index]
            else:
                sock = await bind(listener.host, listener.port, backlog_size=self._limits.listen_backlog_size)
            self._add(listener, sock)
        self.addresses = [bound.sock.getsockname()[:2] for bound in self._bounds]

    def use(self, nursery: trio.Nursery, accept: Accept, peers: Loop, real_clock: GroupClock) -> None:
        """What `open` and `close` work with: `accept` runs in `nursery`, and so does the grace of a closing."""
        self._nursery = nursery
        self._accept = accept
        self._peers = peers
        self._real_clock = real_clock

    def open(self) -> None:
        """Accept connections; after `close` on the same addresses. Nothing, if it is open. Raises OSError."""
        if self._accepting is not None:
            return
        if not self._bounds:
            with ExitStack() as opened:
                opened.callback(self._bounds.clear)
                for listener, (family, sockaddr) in zip(self._listeners, self._sockaddrs, strict=True):
                    sock = listening(
                        socket.socket(family, socket.SOCK_STREAM), sockaddr, self._limits.listen_backlog_size
                    )
                    self._add(listener, opened.enter_context(sock))
                opened.pop_all()
        self._accepting = trio.CancelScope()
        self._nursery.start_soon(self._accept_all, self._accepting, tuple(self._bounds))

    def close(self) -> None:
        """Accept no more, and end the connections: what was read whole is answered, as at the end of a server.

        Peers have the grace time to take their answers. Nothing, if it is closed.
        """
        if self._refuse():
            self._peers.stop(self.router)
            self._nursery.start_soon(self._close_the_rest)

    def kill(self) -> None:
        """Accept no more, and reset the connections without a last answer, as the system does when a process dies.

        Nothing, if it is closed.
        """
        if self._refuse():
            for peer in [peer for peer in self._peers.peers.values() if peer.router is self.router]:
                peer.abandon()
                self._peers.close(peer)

    @property
    def sockets(self) -> list[socket.socket]:
        """Those that listen, in the order of the listeners; none while it is closed."""
        return [bound.sock for bound in self._bounds]

    def _refuse(self) -> bool:
        """Accept no more. False, if it is closed."""
        if self._accepting is None:
            return False
        self._accepting.cancel()  # which takes the sockets out of trio's hands at once
        self._accepting = None
        self.close_sockets()
        return True

    def close_sockets(self) -> None:
        """Listen no more."""
        self._sockaddrs = [(bound.sock.family, bound.sock.getsockname()) for bound in self._bounds]
        for bound in self._bounds:
            bound.sock.close()
        self._bounds.clear()

    async def _accept_all(self, scope: trio.CancelScope, bounds: Sequence[Bound]) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                for bound in bounds:
                    nursery.start_soon(self._accept_of, bound)

    async def _accept_of(self, bound: Bound) -> None:
        await trio.lowlevel.checkpoint()  # the socket may be closed already, and its number another's
        await self._accept(bound)

    async def _close_the_rest(self) -> None:
        """Those that have not gone by the end of the grace time; those that come meanwhile are not meant."""
        ending = [peer for peer in self._peers.peers.values() if peer.router is self.router]
        await self._real_clock.sleep_until(self._real_clock.now().mono_ms + self._limits.shutdown_grace_ms)
        for peer in ending:
            self._peers.close(peer)

    def _add(self, listener: Listener, sock: socket.socket) -> None:
        self._bounds.append(Bound(listener, sock, self._transport_layers.get(listener.name), self.router))
