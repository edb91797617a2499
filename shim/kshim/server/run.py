"""A server as a whole program: runs until a signal says otherwise."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import trio

from kshim.broker.connection import FrameRouter, NodeRouter
from kshim.config.listeners import Listener
from kshim.server.clock import GroupClock
from kshim.server.connection import ServerLog
from kshim.server.limits import ServerLimits
from kshim.server.listener import CannotBind
from kshim.server.server import Server, serve
from kshim.server.transport_layer import TransportLayer


class Place(NamedTuple):
    """Where a node listened, one of each a listener: the ports, and the sockets if they are open."""

    ports: Sequence[int]
    sockets: Sequence[socket.socket]


class Served(NamedTuple):
    """What is served: see `serve`. `sockets` are those of each node that listen already."""

    router: FrameRouter
    listeners: Sequence[Listener]
    others: Sequence[tuple[NodeRouter, Sequence[Listener]]]
    on_listening: Callable[[Sequence[tuple[str, int]]], None]
    clock: GroupClock | None = None
    sockets: Sequence[Sequence[socket.socket]] = ()


class Beside(Protocol):
    """Something that runs in the loop of the server, from before the server listens until it has ended."""

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run until cancelled. Raises CannotBind before it has started."""

    def serving(self, server: Server) -> None:
        """The server accepts connections."""

    async def reset_wanted(self) -> None:
        """Return when something else is to be served in place of what is."""


def run_until_signalled(
    served: Served,
    *,
    transport_layers: Mapping[str, Callable[[], TransportLayer]],
    limits: ServerLimits,
    log: ServerLog,
    beside: Beside | None = None,
    again: Callable[[Sequence[Place]], Served] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT, end gracefully, and return the signal's number. A second signal ends it at once.

    Call it from the main thread; see `serve` for the arguments. When `beside` wants a reset, all connections are closed,
    and what `again` returns is served in those places. Raises CannotBind. As a JVM does, it takes as many
    file descriptors as the process may have: a shell usually allows 1024 and lets a program ask for more.
    """
    _allow_many_connections()
    return trio.run(_run, served, transport_layers, limits, log, beside, again)


async def _run(
    served: Served,
    transport_layers: Mapping[str, Callable[[], TransportLayer]],
    limits: ServerLimits,
    log: ServerLog,
    beside: Beside | None,
    again: Callable[[Sequence[Place]], Served] | None,
) -> int:
    running = _Running(beside)
    failure: CannotBind | None = None
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:

        async def obey() -> None:
            async for number in signals:
                if running.signal_number or running.server is None:
                    nursery.cancel_scope.cancel()
                else:
                    running.server.stop()
                running.signal_number = number

        async with trio.open_nursery() as nursery:
            nursery.start_soon(obey)
            try:
                if beside is not None:
                    await nursery.start(beside.run)
                while True:
                    places: list[Place] = []
                    with trio.CancelScope() as life:
                        if beside is not None and again is not None:
                            nursery.start_soon(_end_for_reset, beside, running, life, places)
                        await serve(
                            served.router,
                            listeners=served.listeners,
                            transport_layers=transport_layers,
                            others=served.others,
                            sockets=served.sockets,
                            limits=limits,
                            clock=served.clock,
                            may_wait=True,
                            log=log,
                            on_listening=served.on_listening,
                            task_status=running,
                        )
                    if not places or again is None:
                        break
                    running.server = None
                    served = again(places)
            except CannotBind as error:
                failure = error  # raised outside, where no ExceptionGroup is put around it
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return running.signal_number


async def _end_for_reset(beside: Beside, running: _Running, life: trio.CancelScope, places: list[Place]) -> None:
    """End `life` when a reset is wanted, with its places in `places`."""
    await beside.reset_wanted()
    if running.server is not None and not running.signal_number:
        places += [
            Place([port for _, port in acceptor.addresses], [sock.dup() for sock in acceptor.sockets])
            for acceptor in running.server.acceptors
        ]
        life.cancel()


def _allow_many_connections() -> None:
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # where the system allows less than it says, as macOS does
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Running:
    """The server once it listens, and the last signal that came (0: none yet)."""

    def __init__(self, beside: Beside | None) -> None:
        self.server: Server | None = None
        self.signal_number = 0
        self._beside = beside

    def started(self, value: Server | None = None) -> None:
        self.server = value
        if self._beside is not None and value is not None:
            self._beside.serving(value)
