"""Advancing the clock of a running server, on both loops."""

from __future__ import annotations

import socket

import pytest

from kshim.config.listeners import Listener
from kshim.coordinator.step import Now
from kshim.scheduling.background_tasks import BackgroundTask
from kshim.scheduling.clock_rate import MANUAL
from kshim.server.clock import SteerableClock
from kshim.server.clock_control import ClockControl
from kshim.server.limits import ServerLimits
from kshim.server.server import LoopName
from tests.server.harness import ObeyingRouter, Running, framed, serving

pytestmark = pytest.mark.trio

SASL = Listener("OUTER", "SASL_PLAINTEXT", "127.0.0.1", 0)


def control_of(running: Running) -> ClockControl:
    assert running.server.clock_control is not None
    return running.server.clock_control


async def test_timers_and_fetches_fire_in_the_order_of_time_and_each_at_its_own(loop: LoopName) -> None:
    clock = SteerableClock(MANUAL)
    began_ms = clock.now().mono_ms
    seen: list[tuple[bytes, int]] = []

    class Watched(ObeyingRouter):
        def answer(self, frame: bytes) -> None:
            seen.append((frame.partition(b" ")[0], clock.now().mono_ms - began_ms))
            super().answer(frame)

    async with (
        serving(router := Watched(), loop=loop, steerable=clock) as running,
        running.client() as one,
        running.client() as two,
        running.client() as three,
    ):
        for client, frame in ((one, b"timer %d"), (two, b"fetch %d"), (three, b"timer %d")):
            client.send(framed(frame % (began_ms + {one: 3_000, two: 2_000, three: 500}[client])))
        await router.until(lambda: len(router.parked) == 3)
        control_of(running).advance(2.5)
        assert seen == [(b"timer", 500), (b"fetch", 2_000)]
        for client in (three, two):
            # It is in the socket's buffer already: nothing of the server has to run for that.
            with socket.socket(fileno=socket.dup(client.sock.fileno())) as plain:
                plain.setblocking(False)
                assert plain.recv(1_000, socket.MSG_PEEK)
            await client.receive_frame()
        control_of(running).advance(0.5)
        assert seen[-1] == (b"timer", 3_000)
        assert await one.receive_frame() == b"timer %d" % (began_ms + 3_000)
        assert control_of(running).now.mono_ms == began_ms + 3_000


async def test_a_background_task_is_done_before_the_clock_moves_on(loop: LoopName) -> None:
    clock = SteerableClock(MANUAL)
    began_ms = clock.now().mono_ms
    done: list[int] = []

    class Working(ObeyingRouter):
        def advance(self, now: Now) -> None:
            self.background_tasks.add(self.work())
            super().advance(now)

        def work(self) -> BackgroundTask:
            yield None
            done.append((yield lambda: clock.now().mono_ms - began_ms))

    async with serving(router := Working(), loop=loop, steerable=clock) as running, running.client() as client:
        client.send(framed(b"timer %d" % (began_ms + 1_000)))
        await router.until(lambda: len(router.parked) == 1)
        control_of(running).advance(60)
        assert done == [1_000]


async def test_limits_of_connections_run_on_it(loop: LoopName) -> None:
    limits = ServerLimits(connections_max_idle_ms=16_000, authentication_max_ms=5_000)
    clock = SteerableClock(MANUAL)
    fired = []
    async with (
        serving(router := ObeyingRouter(), loop=loop, limits=limits, listeners=(SASL,), steerable=clock) as running,
        running.client() as known,
        running.client() as unknown,
    ):
        for client in (known, unknown):
            assert await client.ask(b"echo") == b"echo"
        known.send(framed(b"park"))
        await router.until(lambda: b"park" in router.parked)
        router.parked[b"park"].is_authenticated = True
        router.answer(b"park")
        assert await known.receive_frame() == b"park"
        fired += control_of(running).advance(5)
        assert await unknown.receive_end() == b""
        fired += control_of(running).advance(12)
        assert await known.receive_end() == b""
        assert [each[:2] for each in fired] == [
            ("authentication", ("/127.0.0.1",)),
            ("idle_connection", ("/127.0.0.1",)),
        ]


async def test_a_timer_that_fails_is_logged_and_tried_a_few_times(loop: LoopName) -> None:
    clock = SteerableClock(MANUAL)

    class Faulty(ObeyingRouter):
        is_faulty = True

        def advance(self, now: Now) -> None:
            if self.is_faulty:
                raise RuntimeError("cannot advance")
            super().advance(now)

    async with serving(router := Faulty(), loop=loop, steerable=clock) as running, running.client() as client:
        frame = b"timer %d" % (clock.now().mono_ms + 1_000)
        client.send(framed(frame))
        await router.until(lambda: frame in router.parked)
        with pytest.raises(RuntimeError, match="again and again at one instant"):
            control_of(running).advance(60)
        assert 2 <= len(running.log.failures) <= 5
        router.is_faulty = False
        control_of(running).advance(59)
        assert await client.receive_frame() == frame


async def test_the_clock_that_runs_wakes_its_timers_and_so_does_an_advance(loop: LoopName) -> None:
    clock = SteerableClock()
    async with serving(router := ObeyingRouter(), loop=loop, steerable=clock) as running, running.client() as client:
        soon = b"timer %d" % (clock.now().mono_ms + 5)
        assert await client.ask(soon) == soon
        later = b"timer %d" % (clock.now().mono_ms + 3_600_000)
        client.send(framed(later))
        await router.until(lambda: later in router.parked)
        control_of(running).advance(3_000)
        soon = b"fetch %d" % (clock.now().mono_ms + 5)
        async with running.client() as other:
            assert await other.ask(soon) == soon
        control_of(running).advance(600)
        assert await client.receive_frame() == later


async def test_a_clock_that_cannot_be_steered_has_no_control(loop: LoopName) -> None:
    async with serving(ObeyingRouter(), loop=loop) as running:
        assert running.server.clock_control is None
