"""Who is slow is cut off, and nobody else: by the clock, which stands still here until a test moves it."""

from __future__ import annotations

import pytest
import trio.testing

from kshim.config.listeners import Listener
from kshim.server.limits import ServerLimits
from kshim.server.server import LoopName
from tests.server.harness import Client, ObeyingRouter, Running, framed, serving

pytestmark = pytest.mark.trio

HUGE = b"big 20000000"
"""More than the socket buffers of a loopback connection take."""
SASL = Listener("OUTER", "SASL_PLAINTEXT", "127.0.0.1", 0)


async def passes(running: Running, ms: int) -> None:
    """Time goes by, a second at a time, and everybody does what is due."""
    for _ in range(ms // 1_000):
        running.clock.advance(1_000)
        await trio.testing.wait_all_tasks_blocked()


async def test_a_client_that_takes_no_answers_is_cut_off_after_its_time(loop: LoopName) -> None:
    limits = ServerLimits(slow_reader_ms=10_000)
    async with (
        serving(router := ObeyingRouter(), loop=loop, limits=limits) as running,
        running.client() as slow,
        running.client() as other,
    ):
        slow.send(framed(HUGE))
        await router.until(lambda: HUGE in router.frames)
        await passes(running, 9_000)
        assert running.log.closings == []
        await passes(running, 2_000)
        ((_, reason),) = running.log.closings
        assert reason.endswith("bytes of responses unread for 10000 ms")
        assert await other.ask(b"echo") == b"echo"
        assert len(await slow.receive_end()) < 20_000_000


async def test_a_client_that_takes_them_in_the_end_is_not(loop: LoopName) -> None:
    limits = ServerLimits(slow_reader_ms=10_000)
    async with (
        serving(ObeyingRouter(), loop=loop, limits=limits) as running,
        running.client() as slow,
    ):
        for _ in range(3):
            slow.send(framed(HUGE))
            await trio.testing.wait_all_tasks_blocked()
            await passes(running, 8_000)
            assert len(await slow.receive_frame()) == 20_000_000
        assert running.log.closings == []


async def test_while_memory_is_short_the_slowest_goes_first_and_at_once(loop: LoopName) -> None:
    limits = ServerLimits(slow_reader_ms=600_000, unsent_total_max_bytes=30_000_000)
    async with (
        serving(router := ObeyingRouter(), loop=loop, limits=limits) as running,
        running.client() as first,
        running.client() as second,
    ):
        first.send(framed(HUGE))
        await router.until(lambda: len(router.frames) == 1)
        await passes(running, 5_000)
        assert running.log.closings == []
        second.send(framed(HUGE))
        await router.until(lambda: len(router.frames) == 2)
        await passes(running, 2_000)
        ((_, reason),) = running.log.closings
        assert reason.endswith("bytes of responses unread while memory was short")
        assert len(await second.receive_frame()) == 20_000_000
        assert len(await first.receive_end()) < 20_000_000


async def send(client: Client, data: bytes) -> None:
    """More than fits the socket buffers."""
    while data:
        data = data[await client.sock.send(data) :]
    await trio.testing.wait_all_tasks_blocked()


async def test_twice_the_bound_is_never_held(loop: LoopName) -> None:
    limits = ServerLimits(unsent_total_max_bytes=20_000_000)
    async with (
        serving(router := ObeyingRouter(), loop=loop, limits=limits) as running,
        running.client() as first,
        running.client() as second,
        running.client() as third,
    ):
        for client in (first, second, third):
            client.send(framed(HUGE))
        await router.until(lambda: len(router.frames) == 3)
        await trio.testing.wait_all_tasks_blocked()
        reasons = [reason for _, reason in running.log.closings]
        assert all(reason.endswith("bytes of responses unread while memory was exhausted") for reason in reasons)
        assert len(reasons) == 1


async def test_half_requests_cannot_keep_the_memory_that_others_wait_for(loop: LoopName) -> None:
    limits = ServerLimits(queued_max_request_bytes=1_000_000, slow_sender_ms=5_000)
    async with (
        serving(ObeyingRouter(), loop=loop, limits=limits) as running,
        running.client() as loris,
        running.client() as honest,
    ):
        await send(loris, (2_000_000).to_bytes(4, "big") + bytes(1_100_000))
        body = b"echo" + bytes(200_000)
        for _ in range(4):
            loris.send(b"\0")
            await passes(running, 1_000)
        await send(honest, framed(body)[:100_000])
        assert running.log.closings == []
        await passes(running, 1_000)
        assert running.log.closings == [("/127.0.0.1", "it took 5000 ms to send a request while memory was short")]
        await send(honest, framed(body)[100_000:])
        assert await honest.receive_frame() == body


async def test_announcing_much_and_sending_little_keeps_nobody_out(loop: LoopName) -> None:
    limits = ServerLimits(queued_max_request_bytes=1_000_000)
    async with (
        serving(ObeyingRouter(), loop=loop, limits=limits) as running,
        running.client() as loris,
        running.client() as honest,
    ):
        loris.send((100_000_000).to_bytes(4, "big") + b"\0")
        body = b"echo" + bytes(900_000)
        await send(honest, framed(body)[:800_000])
        await send(honest, framed(body)[800_000:])
        assert await honest.receive_frame() == body


async def test_who_finishes_a_request_goes_to_the_end_of_the_line_for_the_next(loop: LoopName) -> None:
    limits = ServerLimits(queued_max_request_bytes=1_000)
    async with (
        serving(ObeyingRouter(), loop=loop, limits=limits) as running,
        running.client() as steady,
        running.client() as waiting,
    ):
        body = b"echo" + bytes(5_000)
        steady.send(framed(body)[:2_000])
        await trio.testing.wait_all_tasks_blocked()
        waiting.send(framed(body)[:2_000])
        await trio.testing.wait_all_tasks_blocked()
        steady.send(framed(body)[2_000:] + framed(body)[:2_000])
        assert await steady.receive_frame() == body
        waiting.send(framed(body)[2_000:])
        assert await waiting.receive_frame() == body
        steady.send(framed(body)[2_000:])
        assert await steady.receive_frame() == body


async def test_a_client_of_a_sasl_listener_must_authenticate_in_time(loop: LoopName) -> None:
    limits = ServerLimits(authentication_max_ms=5_000)
    async with (
        serving(router := ObeyingRouter(), loop=loop, limits=limits, listeners=(SASL,)) as running,
        running.client() as quick,
        running.client() as slow,
    ):
        quick.send(framed(b"park quick"))
        slow.send(framed(b"park slow"))
        await router.until(lambda: len(router.parked) == 2)
        router.parked[b"park quick"].is_authenticated = True
        await passes(running, 5_000)
        assert await slow.receive_end() == b""
        assert running.log.closings == [("/127.0.0.1", "authentication took more than 5000 ms")]
        router.answer(b"park quick")
        assert await quick.receive_frame() == b"park quick"


async def test_before_a_client_has_authenticated_its_requests_are_small(loop: LoopName) -> None:
    limits = ServerLimits(unauthenticated_max_bytes=1_000)
    body = b"echo" + bytes(2_000)
    async with serving(router := ObeyingRouter(), loop=loop, limits=limits, listeners=(SASL,)) as running:
        async with running.client() as client:
            client.send(framed(body))
            assert await client.receive_end() == b""
            assert running.log.closings == [("/127.0.0.1", "invalid frame size 2004")]
        async with running.client() as client:
            client.send(framed(b"park"))
            await router.until(lambda: b"park" in router.parked)
            client.send(framed(body))  # in the same turn as the answer that lets it in
            router.parked[b"park"].is_authenticated = True
            router.answer(b"park")
            assert await client.receive_frames(2) == [b"park", body]
