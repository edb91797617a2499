"""One listener: accepts connections, serves them with a loop, runs the router's timers, ends gracefully."""

from __future__ import annotations

import errno
import logging
import select
import socket
import sys
from collections.abc import Callable
from typing import Final, Literal

import trio

from kshim.broker.connection import FrameRouter
from kshim.server.chores import ChoreRunner
from kshim.server.clock import GroupClock, RealClock
from kshim.server.connection import ByteTransform, ServerLog
from kshim.server.limits import ServerLimits
from kshim.server.listener import CannotBind, bind, java_client_host
from kshim.server.loop import Loop
from kshim.server.timers import Timers

__all__ = ["CannotBind", "LoopName", "Server", "serve"]

LoopName = Literal["auto", "epoll", "tasks"]

_ACCEPT_BATCH: Final = 64
_ACCEPT_RETRY_MS: Final = 100
_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ENOSPC)
_IDLE_SLICES: Final = 16
_IDLE_SLICE_PEERS: Final = 512
_WARM_PAUSE_MS: Final = 2


class Server:
    """A running listener, as `serve` hands it out."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        """The port bound, also when 0 was asked for."""
        self._is_stopping = trio.Event()

    def stop(self) -> None:
        """Begin a graceful end: `serve` returns soon. Call it from trio's thread; twice is once."""
        self._is_stopping.set()


async def serve(
    router: FrameRouter,
    *,
    host: str,
    port: int,
    limits: ServerLimits | None = None,
    clock: GroupClock | None = None,
    real_clock: GroupClock | None = None,
    loop: LoopName = "auto",
    log: ServerLog | None = None,
    make_transform: Callable[[], ByteTransform] | None = None,
    on_listening: Callable[[str, int], None] | None = None,
    task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Listen on `host` and `port` and let `router` answer, until `Server.stop` or cancellation.

    `clock` drives group timers, `real_clock` fetch waits, idle limits and pauses; both are the machine's by default.
    `on_listening(host, port)` is called, and `task_status` told, once connections are accepted. A graceful end stops
    accepting and reading, handles what was read whole, and gives the peers `limits.shutdown_grace_ms` to take their
    answers; parked requests are not waited for. Then urgent chores end, others are closed. Cancelled, all closes at once.

    Raises CannotBind; ValueError for a loop this platform lacks.
    """
    limits = limits or ServerLimits()
    real_clock = real_clock or RealClock()
    clock = clock or real_clock
    log = log or _StandardLog()
    timers = Timers(router, clock=clock, real_clock=real_clock, log=log)
    peers = _loop_class(loop)(
        router,
        clock=clock,
        real_clock=real_clock,
        limits=limits,
        log=log,
        after_turn=timers.rearm,
        make_transform=make_transform,
    )
    chores = ChoreRunner(router.chores, peers, after_slice=timers.rearm, real_clock=real_clock, log=log)
    listener = await bind(host, port, backlog_size=limits.listen_backlog_size)
    with listener:
        bound_host, bound_port = listener.getsockname()[:2]
        server = Server(bound_host, bound_port)
        async with trio.open_nursery() as nursery:
            await nursery.start(peers.run)
            nursery.start_soon(timers.run)
            nursery.start_soon(_close_idle, peers, limits, real_clock, log)
            async with trio.open_nursery() as working:
                await working.start(chores.run)
                async with trio.open_nursery() as accepting:
                    accepting.start_soon(_accept, listener, peers, limits, real_clock, log)
                    if on_listening is not None:
                        on_listening(bound_host, bound_port)
                    task_status.started(server)
                    accepting.start_soon(_warm, router, peers, real_clock, log)
                    await server._is_stopping.wait()
                    accepting.cancel_scope.cancel()
                listener.close()
                await _finish(peers, limits, real_clock)
                chores.stop()
            nursery.cancel_scope.cancel()


def _loop_class(name: LoopName) -> type[Loop]:
    has_epoll = sys.platform == "linux" and hasattr(select, "epoll")
    if name == "epoll" and not has_epoll:
        raise ValueError("this platform has no epoll; use loop='tasks'")
    if name != "tasks" and has_epoll:
        from kshim.server.epoll_loop import EpollLoop

        return EpollLoop
    from kshim.server.task_loop import TaskLoop

    return TaskLoop


async def _accept(
    listener: socket.socket, peers: Loop, limits: ServerLimits, real_clock: GroupClock, log: ServerLog
) -> None:
    """Take connections off the backlog while there is room for more."""
    while True:
        while len(peers.peers) >= limits.max_connections:
            await peers.departure()
        await trio.lowlevel.wait_readable(listener.fileno())
        try:
            for _ in range(min(_ACCEPT_BATCH, limits.max_connections - len(peers.peers))):
                sock, address = listener.accept()
                try:
                    peers.add(sock, java_client_host(address))
                except OSError:
                    sock.close()
                    raise
        except BlockingIOError:
            continue
        except OSError as error:
            # A peer that is gone before it was accepted is nobody's trouble (ECONNABORTED and its like).
            if error.errno in _OUT_OF_RESOURCES:
                log.failed("accepting a connection", error)
                await real_clock.sleep_until(real_clock.now().mono_ms + _ACCEPT_RETRY_MS)


async def _close_idle(peers: Loop, limits: ServerLimits, real_clock: GroupClock, log: ServerLog) -> None:
    """Look over all peers every sixteenth of the limit, some hundred at a time."""
    idle_ms = limits.connections_max_idle_ms
    if idle_ms < 0:
        return
    while True:
        real_ms = real_clock.now().mono_ms
        await real_clock.sleep_until(real_ms + max(idle_ms // _IDLE_SLICES, 1))
        for count, peer in enumerate(list(peers.peers.values()), start=1):
            if count % _IDLE_SLICE_PEERS == 0:
                await trio.lowlevel.checkpoint()
            connection = peer.connection
            is_silent = real_clock.now().mono_ms - peer.active_ms >= idle_ms
            if is_silent and not connection.is_parked and not connection.is_closed:
                log.closing(connection.client_host, f"idle for more than {idle_ms} ms")
                peers.close(peer)


async def _warm(router: FrameRouter, peers: Loop, real_clock: GroupClock, log: ServerLog) -> None:
    """Let the router prepare itself, a slice at a time, while no request comes."""
    try:
        has_more = True
        while has_more:
            turns = peers.turns
            await trio.lowlevel.checkpoint()  # whatever is ready runs now
            while turns != peers.turns:
                turns = peers.turns
                await real_clock.sleep_until(real_clock.now().mono_ms + _WARM_PAUSE_MS)
            has_more = router.warm()
    except Exception as error:
        log.failed("preparing in an idle turn", error)


async def _finish(peers: Loop, limits: ServerLimits, real_clock: GroupClock) -> None:
    """Let the peers take their answers, up to the grace time; then close the rest."""
    deadline_ms = real_clock.now().mono_ms + limits.shutdown_grace_ms

    async def force() -> None:
        await real_clock.sleep_until(deadline_ms)
        peers.close_all()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(force)
        peers.stop()
        while peers.peers:
            await peers.departure()
        nursery.cancel_scope.cancel()


class _StandardLog:
    """The default `ServerLog`: the `kshim.server` logger of the standard library."""

    _logger = logging.getLogger("kshim.server")

    def closing(self, client_host: str, reason: str) -> None:
        self._logger.info("Closing the connection of %s: %s", client_host, reason)

    def failed(self, what: str, error: Exception) -> None:
        self._logger.error("Failed while %s", what, exc_info=error)
