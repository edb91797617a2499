"""A server on a real socket, with both loops; time moves only when a test says so."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys

import pytest
import trio
import trio.testing

from kshim.coordinator.step import Now
from kshim.server.limits import ServerLimits
from kshim.server.listener import CannotBind
from kshim.server.server import LoopName, serve
from tests.server.harness import PATIENCE_S, Client, ObeyingRouter, framed, serving

pytestmark = pytest.mark.trio


async def test_a_request_is_answered(loop: LoopName) -> None:
    async with serving(router := ObeyingRouter(), loop=loop) as running, running.client() as client:
        assert await client.ask(b"echo a") == b"echo a"
        assert await client.ask(b"echo b") == b"echo b"
        assert [connection.client_host for connection in router.closed_connections] == []
    ((host, _),) = {(connection.client_host, connection.is_closed) for connection in router.closed_connections}
    assert host == "/127.0.0.1"


async def test_frames_may_come_byte_by_byte(loop: LoopName) -> None:
    async with serving(ObeyingRouter(), loop=loop) as running, running.client() as client:
        for byte in framed(b"echo slowly"):
            client.send(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
        assert await client.receive_frame() == b"echo slowly"


async def test_many_requests_in_one_send_are_answered_in_order(loop: LoopName) -> None:
    async with serving(ObeyingRouter(), loop=loop) as running, running.client() as client:
        bodies = [b"echo %d" % i for i in range(1_000)]
        client.send(b"".join(map(framed, bodies)))
        assert await client.receive_frames(1_000) == bodies


async def test_requests_behind_a_parked_one_are_answered_after_it(loop: LoopName) -> None:
    async with serving(router := ObeyingRouter(), loop=loop) as running, running.client() as client:
        client.send(framed(b"echo 1") + framed(b"park") + framed(b"echo 2"))
        assert await client.receive_frame() == b"echo 1"
        await router.until(lambda: b"park" in router.parked)
        client.send(framed(b"echo 3"))
        async with running.client() as other:
            for _ in range(10):
                await other.ask(b"echo other")
        assert b"echo 2" not in router.frames
        router.answer(b"park")
        assert await client.receive_frames(3) == [b"park", b"echo 2", b"echo 3"]


async def test_a_request_of_one_connection_may_answer_that_of_another(loop: LoopName) -> None:
    async with (
        serving(router := ObeyingRouter(), loop=loop) as running,
        running.client() as waiting,
        running.client() as waking,
    ):
        waiting.send(framed(b"park me"))
        await router.until(lambda: b"park me" in router.parked)
        assert await waking.ask(b"wake park me") == b"wake park me"
        assert await waiting.receive_frame() == b"park me"


async def test_one_connection_with_much_to_do_does_not_hold_up_another(loop: LoopName) -> None:
    async with (
        serving(router := ObeyingRouter(), loop=loop) as running,
        running.client() as busy,
        running.client() as other,
    ):
        await busy.ask(b"echo")
        await other.ask(b"echo")
        router.routed.clear()
        # Both are in the kernel before the server runs again.
        busy.send(framed(b"echo busy") * 1_000)
        other.send(framed(b"echo other"))
        await other.receive_frame()
        await busy.receive_frames(1_000)
        assert router.frames.index(b"echo other") <= 64


async def test_one_instant_a_wake_up(loop: LoopName) -> None:
    async with serving(router := ObeyingRouter(), loop=loop) as running, running.client() as client:
        client.send(framed(b"echo") * 10)
        await client.receive_frames(10)
        running.clock.advance(7)
        await client.ask(b"echo")
        instants = [(now, real_ms) for _, now, real_ms in router.routed]
        before, after = instants[0], instants[-1]
        assert instants == [before] * 10 + [after]
        assert all(now is before[0] for now, _ in instants[:10])
        assert (after[0].mono_ms - before[0].mono_ms, after[1] - before[1]) == (7, 7)


@pytest.mark.parametrize("size", [-1, 0, 1_001])
async def test_an_invalid_size_closes_only_its_connection(loop: LoopName, size: int) -> None:
    limits = ServerLimits(request_max_bytes=1_000)
    async with (
        serving(router := ObeyingRouter(), loop=loop, limits=limits) as running,
        running.client() as bad,
        running.client() as good,
    ):
        await good.ask(b"echo")
        bad.send(framed(b"echo before") + size.to_bytes(4, "big", signed=True))
        assert await bad.receive_end() == framed(b"echo before")
        assert await good.ask(b"echo after") == b"echo after"
        assert len(router.closed_connections) == 1


@pytest.mark.parametrize("word", [b"refuse", b"crash"])
async def test_a_request_that_fails_closes_only_its_connection(loop: LoopName, word: bytes) -> None:
    async with serving(ObeyingRouter(), loop=loop) as running:
        async with running.client() as bad, running.client() as good:
            await good.ask(b"echo")
            bad.send(framed(b"echo before") + framed(word) + framed(b"echo late"))
            assert await bad.receive_end() == framed(b"echo before")
            assert await good.ask(b"echo after") == b"echo after"
        assert len(running.log.closings) == 1
        assert len(running.log.failures) == (word == b"crash")


async def test_closing_in_the_middle_of_a_frame_disturbs_nobody(loop: LoopName) -> None:
    async with serving(router := ObeyingRouter(), loop=loop) as running, running.client() as good:
        for cut in range(1, 9):
            async with running.client() as bad:
                bad.send(framed(b"echo!")[:cut])
            await router.until(lambda cut=cut: len(router.closed_connections) == cut)  # type: ignore[misc]
            assert await good.ask(b"echo") == b"echo"
        assert running.log.failures == []


async def test_a_reply_to_a_connection_that_is_gone_is_dropped(loop: LoopName) -> None:
    async with serving(router := ObeyingRouter(), loop=loop) as running, running.client() as good:
        async with running.client() as gone:
            gone.send(framed(b"park"))
            await router.until(lambda: b"park" in router.parked)
        await router.until(lambda: len(router.closed_connections) == 1)
        router.answer(b"park")
        assert await good.ask(b"echo") == b"echo"


async def test_requests_sent_just_before_closing_are_handled(loop: LoopName) -> None:
    async with serving(router := ObeyingRouter(), loop=loop) as running:
        async with running.client() as client:
            client.send(framed(b"silent") * 200)
        await router.until(lambda: len(router.closed_connections) == 1)
        assert len(router.frames) == 200


async def test_a_slow_reader_gets_every_byte_and_delays_nobody(loop: LoopName) -> None:
    limits = ServerLimits(unsent_max_bytes=100_000)
    async with (
        serving(router := ObeyingRouter(), loop=loop, limits=limits) as running,
        running.client(receive_buffer_bytes=4_096) as slow,
        running.client() as quick,
    ):
        slow.send(framed(b"big 5000000") * 3 + framed(b"echo last"))
        await router.until(lambda: len(router.frames) == 1)
        for _ in range(20):
            assert await quick.ask(b"echo") == b"echo"
        assert router.frames.count(b"big 5000000") == 1
        bodies = await slow.receive_frames(4)
        assert [len(body) for body in bodies] == [5_000_000] * 3 + [9]


async def test_a_peer_that_resets_the_connection_disturbs_nobody(loop: LoopName) -> None:
    async with serving(router := ObeyingRouter(), loop=loop) as running, running.client() as good:
        async with running.client(receive_buffer_bytes=4_096) as bad:
            bad.send(framed(b"big 20000000"))
            await router.until(lambda: len(router.frames) == 1)
            # Closing with unread bytes sends a reset.
        await router.until(lambda: len(router.closed_connections) == 1)
        assert await good.ask(b"echo") == b"echo"


async def test_connections_beyond_the_limit_wait_for_one_to_close(loop: LoopName) -> None:
    limits = ServerLimits(max_connections=2)
    async with (
        serving(router := ObeyingRouter(), loop=loop, limits=limits) as running,
        running.client() as first,
        running.client() as second,
        running.client() as third,
    ):
        await first.ask(b"echo")
        await second.ask(b"echo")
        third.send(framed(b"echo third"))
        for _ in range(10):
            await first.ask(b"echo")
        await trio.testing.wait_all_tasks_blocked()
        assert b"echo third" not in router.frames
        second.close()
        assert await third.receive_frame() == b"echo third"


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_NOFILE")
async def test_running_out_of_descriptors_is_survived(loop: LoopName) -> None:
    import resource

    async with serving(ObeyingRouter(), loop=loop) as running, running.client() as client:
        await client.ask(b"echo")
        late = Client(running.server.port)
        await trio.testing.wait_all_tasks_blocked()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        fillers = [os.dup(0)]
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/dev/fd"))) + 1, hard))
            with contextlib.suppress(OSError):
                while True:
                    fillers.append(os.dup(0))
            await late.connect()
            while not running.log.failures:
                await trio.testing.wait_all_tasks_blocked()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for fd in fillers:
                os.close(fd)
        assert await client.ask(b"echo") == b"echo"
        late.send(framed(b"echo late"))
        await trio.testing.wait_all_tasks_blocked()
        running.real_clock.advance(100)
        assert await late.receive_frame() == b"echo late"
        late.close()
        assert running.log.failures[0][0] == "accepting a connection"


async def test_group_timers_run_on_the_injected_clock(loop: LoopName) -> None:
    async with (
        serving(router := ObeyingRouter(), loop=loop) as running,
        running.client() as late,
        running.client() as early,
        running.client() as later,
    ):
        for client, frame in ((late, b"timer 5000"), (early, b"timer 1000"), (later, b"timer 9000")):
            client.send(framed(frame))
            await router.until(lambda frame=frame: frame in router.parked)  # type: ignore[misc]
        await trio.testing.wait_all_tasks_blocked()
        running.clock.advance(999)
        await trio.testing.wait_all_tasks_blocked()
        assert router.advanced == []
        running.clock.advance(1)
        assert await early.receive_frame() == b"timer 1000"
        assert [now.mono_ms for now in router.advanced] == [1_000]
        running.clock.advance(10_000)
        assert await late.receive_frame() == b"timer 5000"
        assert await later.receive_frame() == b"timer 9000"


async def test_waiting_fetches_run_on_the_same_clock(loop: LoopName) -> None:
    async with serving(router := ObeyingRouter(), loop=loop) as running, running.client() as client:
        start_ms = running.clock.now().mono_ms
        frame = b"fetch %d" % (start_ms + 500)
        client.send(framed(frame))
        await router.until(lambda: frame in router.parked)
        running.real_clock.advance(1_000_000)
        await trio.testing.wait_all_tasks_blocked()
        assert frame in router.parked
        running.clock.advance(500)
        assert await client.receive_frame() == frame


async def test_a_silent_connection_is_closed_and_a_parked_or_busy_one_is_not(loop: LoopName) -> None:
    limits = ServerLimits(connections_max_idle_ms=16_000)
    async with (
        serving(router := ObeyingRouter(), loop=loop, limits=limits) as running,
        running.client() as silent,
        running.client() as parked,
        running.client() as busy,
    ):
        await silent.ask(b"echo")
        parked.send(framed(b"park"))
        for _ in range(17):
            busy.send(framed(b"silent"))
            await trio.testing.wait_all_tasks_blocked()
            running.clock.advance(1_000)
        assert await silent.receive_end() == b""
        assert await busy.ask(b"echo") == b"echo"
        router.answer(b"park")
        assert await parked.receive_frame() == b"park"
        assert running.log.closings == [("/127.0.0.1", "idle for more than 16000 ms")]


async def test_a_parked_connection_that_could_not_tell_of_its_end_is_idle_too(loop: LoopName) -> None:
    limits = ServerLimits(connections_max_idle_ms=16_000)
    async with (
        serving(router := ObeyingRouter(), loop=loop, limits=limits) as running,
        running.client() as ended,
        running.client() as full,
        running.client() as parked,
    ):
        ended.send(framed(b"park 1") + framed(b"echo"))
        ended.sock.shutdown(socket.SHUT_WR)
        full.send(framed(b"park 2") + framed(bytes(80_000)))
        parked.send(framed(b"park 3") + framed(b"echo"))
        await router.until(lambda: len(router.parked) == 3)
        for _ in range(17):
            await trio.testing.wait_all_tasks_blocked()
            running.clock.advance(1_000)
        assert await ended.receive_end() == b""
        assert await full.receive_end() == b""
        router.answer(b"park 3")
        assert await parked.receive_frames(2) == [b"park 3", b"echo"]


async def test_half_a_frame_is_waited_for_only_as_long_as_a_connection_may_idle(loop: LoopName) -> None:
    async with serving(ObeyingRouter(), loop=loop) as running, running.client() as client:
        client.send(framed(b"echo")[:5])
        await trio.testing.wait_all_tasks_blocked()
        running.clock.advance(599_999)
        await trio.testing.wait_all_tasks_blocked()
        assert running.log.closings == []
        running.clock.advance(37_501)
        assert await client.receive_end() == b""


async def test_preparation_happens_while_requests_are_answered(loop: LoopName) -> None:
    router = ObeyingRouter()
    router.slices = 50
    async with serving(router, loop=loop) as running, running.client() as client:
        assert await client.ask(b"echo") == b"echo"
        while router.slices > 0:
            await trio.testing.wait_all_tasks_blocked()
            running.real_clock.advance(10)
        assert await client.ask(b"echo") == b"echo"
    assert router.slices == 0


async def test_a_failing_preparation_or_timer_ends_nothing(loop: LoopName) -> None:
    class Faulty(ObeyingRouter):
        def warm_up(self) -> bool:
            raise RuntimeError("cannot prepare")

        def advance(self, now: Now) -> None:
            self.timers.clear()
            raise RuntimeError("cannot advance")

    async with serving(router := Faulty(), loop=loop) as running, running.client() as client:
        client.send(framed(b"timer 10"))
        await router.until(lambda: b"timer 10" in router.parked)
        await trio.testing.wait_all_tasks_blocked()
        running.clock.advance(10)
        await trio.testing.wait_all_tasks_blocked()
        running.real_clock.advance(100)
        async with running.client() as other:
            other.send(framed(b"fetch %d" % (running.clock.now().mono_ms + 10)))
            await trio.testing.wait_all_tasks_blocked()
            running.clock.advance(10)
            await other.receive_frame()
        while len(running.log.failures) < 2:
            await trio.testing.wait_all_tasks_blocked()
            running.real_clock.advance(10)
        assert {str(error) for _, error in running.log.failures} == {"cannot prepare", "cannot advance"}


async def test_a_graceful_end_answers_what_is_in_flight_and_closes_the_rest(loop: LoopName) -> None:
    async with serving(router := ObeyingRouter(), loop=loop) as running:
        async with (
            running.client(receive_buffer_bytes=4_096) as reading,
            running.client() as parked,
            running.client() as idle,
        ):
            await idle.ask(b"echo")
            parked.send(framed(b"park"))
            reading.send(framed(b"big 5000000") + framed(b"echo last"))
            await router.until(lambda: len(router.frames) == 3)
            running.server.stop()
            assert await parked.receive_end() == b""
            assert await idle.receive_end() == b""
            assert not running.is_over.is_set()
            with pytest.raises(ConnectionRefusedError):
                async with running.client():
                    pass
            out = await reading.receive_end()
            assert len(out) == 5_000_004 + len(framed(b"echo last"))
            await running.is_over.wait()
        assert len(router.closed_connections) == 3


async def test_a_graceful_end_does_not_wait_for_ever(loop: LoopName) -> None:
    limits = ServerLimits(shutdown_grace_ms=3_000)
    async with serving(router := ObeyingRouter(), loop=loop, limits=limits) as running:
        async with running.client(receive_buffer_bytes=4_096) as stuck:
            stuck.send(framed(b"big 20000000"))
            await router.until(lambda: len(router.frames) == 1)
            running.server.stop()
            await trio.testing.wait_all_tasks_blocked()
            running.real_clock.advance(2_999)
            await trio.testing.wait_all_tasks_blocked()
            assert not running.is_over.is_set()
            running.real_clock.advance(1)
            await running.is_over.wait()
        assert len(router.closed_connections) == 1


async def test_a_cancelled_server_leaves_no_task_and_no_descriptor(loop: LoopName) -> None:
    router = ObeyingRouter()
    gc.collect()
    before = _descriptors()
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:

            async def run(*, task_status: trio.TaskStatus[object]) -> None:
                await serve(router, host="127.0.0.1", port=0, loop=loop, task_status=task_status)

            server = await nursery.start(run)
            clients = [Client(server.port) for _ in range(4)]
            for client in clients:
                await client.connect()
            clients[0].send(framed(b"park"))
            clients[1].send(framed(b"echo")[:5])
            clients[2].send(framed(b"big 20000000"))
            await clients[3].ask(b"echo")
            nursery.cancel_scope.cancel()
    for client in clients:
        client.close()
    assert len(router.closed_connections) == 4
    gc.collect()
    assert _descriptors() == before


async def test_the_listener_is_announced_once_it_accepts(loop: LoopName) -> None:
    announced: list[tuple[str, int]] = []
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:

            async def run(*, task_status: trio.TaskStatus[object]) -> None:
                await serve(
                    ObeyingRouter(),
                    host="127.0.0.1",
                    port=0,
                    loop=loop,
                    on_listening=announced.extend,
                    task_status=task_status,
                )

            server = await nursery.start(run)
            assert announced == [("127.0.0.1", server.port)]
            client = Client(server.port)
            await client.connect()
            assert await client.ask(b"echo") == b"echo"
            client.close()
            server.stop()


async def test_a_taken_address_is_told_plainly(loop: LoopName) -> None:
    async with serving(ObeyingRouter(), loop=loop) as running:
        with pytest.raises(CannotBind, match="Address already in use"):
            await serve(ObeyingRouter(), host="127.0.0.1", port=running.server.port, loop=loop)


def _descriptors() -> int:
    return len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0
