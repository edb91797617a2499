"""A server as a whole program: runs until a signal says otherwise."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import trio

from kshim.broker.connection import FrameRouter, NodeRouter
from kshim.config.listeners import Listener
from kshim.server.clock import GroupClock
from kshim.server.connection import ServerLog
from kshim.server.limits import ServerLimits
from kshim.server.listener import CannotBind
from kshim.server.server import Server, serve
from kshim.server.transport_layer import TransportLayer


class Beside(Protocol):
    """Something that runs in the loop of the server, from before the server listens until it has ended."""

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run until cancelled. Raises CannotBind before it has started."""

    def serving(self, server: Server) -> None:
        """The server accepts connections."""


def run_until_signalled(
    router: FrameRouter,
    *,
    listeners: Sequence[Listener],
    transport_layers: Mapping[str, Callable[[], TransportLayer]],
    others: Sequence[tuple[NodeRouter, Sequence[Listener]]] = (),
    limits: ServerLimits,
    log: ServerLog,
    on_listening: Callable[[Sequence[tuple[str, int]]], None],
    clock: GroupClock | None = None,
    beside: Beside | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT, end gracefully, and return the signal's number. A second signal ends it at once.

    Call it from the main thread; see `serve` for the arguments. Raises CannotBind. As a JVM does, it takes as many
    file descriptors as the process may have: a shell usually allows 1024 and lets a program ask for more.
    """
    _allow_many_connections()
    return trio.run(_run, router, listeners, transport_layers, others, limits, log, on_listening, clock, beside)


async def _run(
    router: FrameRouter,
    listeners: Sequence[Listener],
    transport_layers: Mapping[str, Callable[[], TransportLayer]],
    others: Sequence[tuple[NodeRouter, Sequence[Listener]]],
    limits: ServerLimits,
    log: ServerLog,
    on_listening: Callable[[Sequence[tuple[str, int]]], None],
    clock: GroupClock | None,
    beside: Beside | None,
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
                await serve(
                    router,
                    listeners=listeners,
                    transport_layers=transport_layers,
                    others=others,
                    limits=limits,
                    clock=clock,
                    log=log,
                    on_listening=on_listening,
                    task_status=running,
                )
            except CannotBind as error:
                failure = error  # raised outside, where no ExceptionGroup is put around it
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return running.signal_number


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
