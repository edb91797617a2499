"""Listeners: accepts their connections, serves them with one loop, runs the router's timers, ends gracefully."""

from __future__ import annotations

import contextlib
import errno
import logging
import select
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal, cast

import trio

from kshim.broker.connection import FrameRouter, NodeRouter
from kshim.config.listeners import Listener, plain_listener
from kshim.server.acceptor import Acceptor
from kshim.server.background_tasks import BackgroundTaskRunner
from kshim.server.clock import GroupClock, RealClock, SteerableClock
from kshim.server.clock_control import ClockControl
from kshim.server.connection import ServerLog
from kshim.server.connection_timeouts import ConnectionTimeouts
from kshim.server.limits import ServerLimits
from kshim.server.listener import Bound, java_client_host
from kshim.server.loop import Loop
from kshim.server.timers import Schedule, Timers
from kshim.server.transport_layer import TransportLayer

LoopName = Literal["auto", "epoll", "tasks"]

_ACCEPT_BATCH: Final = 64
_ACCEPT_RETRY_MS: Final = 100
_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ENOSPC)
_WARM_PAUSE_MS: Final = 2


class Server:
    """A running server, as `serve` hands it out.

    `addresses` are those bound, (host, port) of each listener in their order, the ports also where 0 was asked for, those
    of other nodes behind those of the first; `host` and `port` are the first. `acceptors`: one a node. `peers` are the
    connections. `clock_control` moves its clock, if that is a `SteerableClock`.
    """

    def __init__(
        self,
        acceptors: Sequence[Acceptor],
        rearm: Callable[[], None],
        peers: Loop,
        clock_control: ClockControl | None = None,
    ) -> None:
        self.acceptors = acceptors
        self.peers = peers
        self.addresses = tuple(address for acceptor in acceptors for address in acceptor.addresses)
        self.rearm = rearm
        """Call it in trio's thread after anything outside of requests that may have set an earlier timer."""
        self.host, self.port = self.addresses[0]
        self.clock_control = clock_control
        self._is_stopping = trio.Event()

    def stop(self) -> None:
        """Begin a graceful end: `serve` returns soon. Call it from trio's thread; twice is once."""
        self._is_stopping.set()


async def serve(
    router: FrameRouter,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    listeners: Sequence[Listener] = (),
    transport_layers: Mapping[str, Callable[[], TransportLayer]] | None = None,
    others: Sequence[tuple[NodeRouter, Sequence[Listener]]] = (),
    sockets: Sequence[Sequence[socket.socket]] = (),
    limits: ServerLimits | None = None,
    clock: GroupClock | None = None,
    real_clock: GroupClock | None = None,
    loop: LoopName = "auto",
    may_wait: bool = False,
    log: ServerLog | None = None,
    on_listening: Callable[[Sequence[tuple[str, int]]], None] | None = None,
    task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Listen on `listeners`, or in plain text on `host` and `port`, and let `router` answer, until `Server.stop`.

    `transport_layers` makes, by a listener's name, what lies under each of its connections: TLS. `others` are further nodes of
    the cluster that `router` is a node of, each with its listeners; they share the loop, and the timers and background tasks of
    `router`, and all can be stopped and started. `sockets` holds those of each node that listen already, in the order of its
    listeners, if they do; they are closed at the end like others. `clock` drives whatever clients or logs can notice: all
    timers of the router, and the limits of idle, silent and slow connections. `real_clock` is for the server's own pauses: the
    grace time of a shutdown, the retry of accepting, rests after defects and between background tasks. Both are the
    machine's by default. `may_wait`: nothing else runs in this trio that a millisecond more would hurt, so the loop may wait for
    the next request by itself, which is cheaper. `on_listening(addresses)` is called, and `task_status.started`, once
    connections are accepted. A graceful end stops accepting and reading, handles what was read whole, and gives the peers
    `limits.shutdown_grace_ms` to take their answers; parked requests are not waited for. Then urgent background tasks end, others
    are closed. Cancelled, all closes at once.

    Raises CannotBind; ValueError for a loop this platform lacks.
    """
    limits, log, real_clock = limits or ServerLimits(), log or _StandardLog(), real_clock or RealClock()
    clock = clock or real_clock
    schedules = (
        Schedule(router.next_deadline, router.advance),
        Schedule(router.next_real_deadline, lambda now: router.advance_real(now.mono_ms)),
    )
    timers = Timers(schedules, clock=clock, real_clock=real_clock, log=log)
    peers = _loop_class(loop)(router, clock=clock, limits=limits, log=log, after_turn=timers.rearm, may_wait=may_wait)
    timeouts = ConnectionTimeouts(peers, limits, clock, log, router.pace)
    connection_timers = Timers(
        (Schedule(timeouts.next_deadline, timeouts.fire),), clock=clock, real_clock=real_clock, log=log
    )
    timeouts.on_earlier = connection_timers.rearm
    background_tasks = BackgroundTaskRunner(
        router.background_tasks, peers, after_slice=timers.rearm, real_clock=real_clock, log=log
    )
    with contextlib.ExitStack() as opened:
        nodes: list[tuple[FrameRouter, Sequence[Listener]]] = [
            (router, listeners or (plain_listener(host, port),)),
            *others,
        ]
        acceptors = [
            await _bound(Acceptor(*node, transport_layers or {}, limits, given), opened)
            for node, given in zip(nodes, sockets or [()] * len(nodes), strict=True)
        ]
        clock_control = None
        if isinstance(clock, SteerableClock):
            clock_control = ClockControl(clock, router, peers, (timers, connection_timers), log)
            timeouts.on_fired = clock_control.note
        server = Server(acceptors, timers.rearm, peers, clock_control)
        async with trio.open_nursery() as nursery:
            await nursery.start(peers.run)
            nursery.start_soon(timers.run)
            nursery.start_soon(connection_timers.run)
            async with trio.open_nursery() as working:
                await working.start(background_tasks.run)
                async with trio.open_nursery() as accepting:
                    for acceptor in acceptors:
                        acceptor.use(accepting, partial(_accept, peers, real_clock, log), peers, real_clock)
                        acceptor.open()
                    _hand_over(acceptors if others else ())
                    if on_listening is not None:
                        on_listening(server.addresses)
                    task_status.started(server)
                    accepting.start_soon(_warm, [acceptor.router for acceptor in acceptors], peers, real_clock, log)
                    await server._is_stopping.wait()
                    accepting.cancel_scope.cancel()
                opened.close()
                await _finish(peers, limits, real_clock)
                background_tasks.stop()
            nursery.cancel_scope.cancel()


async def _bound(acceptor: Acceptor, opened: contextlib.ExitStack) -> Acceptor:
    """The acceptor, bound; `opened` closes it. Raises CannotBind."""
    opened.callback(acceptor.close_sockets)
    await acceptor.bind()
    return acceptor


def _hand_over(acceptors: Sequence[Acceptor]) -> None:
    """Let each node stop and start accepting connections."""
    for acceptor in acceptors:
        node = cast("NodeRouter", acceptor.router)
        node.on_stop, node.on_kill, node.on_start = acceptor.close, acceptor.kill, acceptor.open


def _loop_class(name: LoopName) -> type[Loop]:
    has_epoll = sys.platform == "linux" and hasattr(select, "epoll")
    if name == "epoll" and not has_epoll:
        raise ValueError("this platform has no epoll; use loop='tasks'")
    if name != "tasks" and has_epoll:
        from kshim.server.epoll_loop import EpollLoop

        return EpollLoop
    from kshim.server.task_loop import TaskLoop

    return TaskLoop


async def _accept(peers: Loop, real_clock: GroupClock, log: ServerLog, bound: Bound) -> None:
    """Take connections off the backlog while there is room for more, until cancelled."""
    listener, quotas, name = bound.sock, peers.quotas, bound.listener.name
    while True:
        while not quotas.room(name):
            await peers.departure()
        if listener.fileno() < 0:
            return  # closed when this task was about to go on
        await trio.lowlevel.wait_readable(listener.fileno())
        try:
            for _ in range(min(_ACCEPT_BATCH, quotas.room(name))):
                sock, address = listener.accept()
                client_host = java_client_host(address)
                if (refusal := quotas.refusal(client_host)) is not None:
                    sock.close()
                    log.closing(client_host, refusal)
                    continue
                try:
                    peers.add(sock, client_host, address[1], bound)
                except OSError:
                    sock.close()
                    raise
        except BlockingIOError:
            continue
        except OSError as error:
            # A peer that disconnected before it was accepted is not an error (ECONNABORTED and similar).
            if error.errno in _OUT_OF_RESOURCES:
                log.failed("accepting a connection", error)
                await real_clock.sleep_until(real_clock.now().mono_ms + _ACCEPT_RETRY_MS)


async def _warm(routers: Sequence[FrameRouter], peers: Loop, real_clock: GroupClock, log: ServerLog) -> None:
    """Let the routers prepare themselves, one by one, a slice at a time, while no request comes."""
    waiting = list(routers)
    try:
        while waiting:
            turns = peers.turns
            await trio.lowlevel.checkpoint()  # whatever is ready runs now
            while turns != peers.turns:
                turns = peers.turns
                await real_clock.sleep_until(real_clock.now().mono_ms + _WARM_PAUSE_MS)
            if not waiting[0].warm_up():
                del waiting[0]
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

    def turn_begins(self) -> None:
        pass

    def turn_ends(self) -> None:
        pass
