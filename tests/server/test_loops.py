"""The loops themselves, on socket pairs whose buffers a test can make as small as it likes."""

from __future__ import annotations

import select
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

import pytest
import trio
import trio.testing

from kshim.config.listeners import plain_listener
from kshim.server.limits import QUEUE_BYTES, READ_BYTES, ServerLimits
from kshim.server.listener import Bound
from kshim.server.loop import Loop
from kshim.server.server import LoopName, _loop_class, serve
from tests.server.harness import PATIENCE_S, ObeyingRouter, RecordedLog, framed
from tests.server.manual_clock import ManualClock

pytestmark = pytest.mark.trio


@asynccontextmanager
async def looping(
    name: LoopName, router: ObeyingRouter, limits: ServerLimits | None = None, *, may_wait: bool = False
) -> AsyncIterator[Loop]:
    clock = ManualClock()
    loop = _loop_class(name)(
        router,
        clock=clock,
        limits=limits or ServerLimits(),
        log=RecordedLog(),
        after_turn=lambda: None,
        may_wait=may_wait,
    )
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(loop.run)
            yield loop
            nursery.cancel_scope.cancel()


def connected(loop: Loop, *, send_buffer_bytes: int | None = None) -> socket.socket:
    """The client's end of a pair whose other end `loop` serves."""
    server_end, client_end = socket.socketpair()
    if send_buffer_bytes is not None:
        server_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    client_end.setblocking(False)
    loop.add(server_end, "/127.0.0.1", 40_000, Bound(plain_listener("127.0.0.1", 0), server_end, None))
    return client_end


async def test_answers_larger_than_the_send_buffer_arrive_whole_and_in_order(loop: LoopName) -> None:
    async with looping(loop, ObeyingRouter()) as peers:
        with connected(peers, send_buffer_bytes=2_048) as client:
            bodies = [b"echo %d " % i + bytes(i * 10) for i in range(200)]
            expected = b"".join(map(framed, bodies))
            unsent, received = expected, b""
            while len(received) < len(expected):
                await trio.testing.wait_all_tasks_blocked()
                with suppress(BlockingIOError):
                    unsent = unsent[client.send(unsent[:3_000]) :]
                try:
                    received += client.recv(701)  # a slow reader, some bytes at a time
                except BlockingIOError:
                    assert unsent, "the server stopped sending"
            assert received == expected


async def test_a_large_answer_in_pieces_arrives_whole_however_little_the_socket_takes(loop: LoopName) -> None:
    async with looping(loop, ObeyingRouter()) as peers:
        with connected(peers, send_buffer_bytes=20_000) as client:
            client.send(framed(b"pieces 512000") + framed(b"echo") + framed(b"pieces 204800"))
            expected = b"".join(map(framed, (bytes(range(256)) * 2000, b"echo", bytes(range(256)) * 800)))
            received = b""
            while len(received) < len(expected):
                await trio.testing.wait_all_tasks_blocked()
                received += client.recv(7_001)
            assert received == expected


async def test_a_turn_ends_for_the_log_when_its_answers_are_sent(loop: LoopName) -> None:
    async with looping(loop, ObeyingRouter()) as peers:
        with connected(peers) as parked, connected(peers) as waking:
            parked.send(framed(b"park"))
            await trio.testing.wait_all_tasks_blocked()
            sent: list[bytes] = []

            def take() -> None:
                with suppress(BlockingIOError):
                    sent.append(waking.recv(1_000))

            log = peers._log
            assert isinstance(log, RecordedLog)
            log.at_end_of_turn = take
            waking.send(framed(b"wake park"))
            await trio.testing.wait_all_tasks_blocked()
            assert sent == [framed(b"wake park")]
            assert parked.recv(1_000) == framed(b"park")
            assert not log.is_in_turn


async def test_a_reader_that_stops_makes_the_server_stop_handling_its_requests(loop: LoopName) -> None:
    limits = ServerLimits(unsent_max_bytes=10_000)
    async with looping(loop, router := ObeyingRouter(), limits) as peers:
        with connected(peers, send_buffer_bytes=2_048) as client:
            client.send(framed(b"big 6000") * 50)
            for _ in range(5):
                await trio.testing.wait_all_tasks_blocked()
            handled = len(router.frames)
            assert 2 <= handled <= 6
            received = b""
            while len(received) < 50 * 6_004:
                await trio.testing.wait_all_tasks_blocked()
                received += client.recv(65_536)
            assert len(router.frames) == 50


async def test_an_answer_to_a_parked_request_waits_for_the_answers_before_it(loop: LoopName) -> None:
    async with looping(loop, router := ObeyingRouter()) as peers:
        with connected(peers, send_buffer_bytes=2_048) as client:
            client.send(framed(b"big 50000") + framed(b"park") + framed(b"echo"))
            await router.until(lambda: b"park" in router.parked)
            router.answer(b"park")
            received = b""
            while len(received) < 50_004 + 8 + 8:
                await trio.testing.wait_all_tasks_blocked()
                received += client.recv(65_536)
            assert received[50_004:] == framed(b"park") + framed(b"echo")


async def test_a_full_queue_behind_a_parked_request_goes_on_when_it_is_answered(loop: LoopName) -> None:
    async with looping(loop, router := ObeyingRouter()) as peers:
        with connected(peers) as client:
            stream = framed(b"park") + framed(b"silent " + bytes(1_000)) * 300 + framed(b"echo")
            while stream:
                try:
                    stream = stream[client.send(stream) :]
                except BlockingIOError:
                    if b"park" in router.parked and len(router.frames) == 1:
                        router.answer(b"park")
                await trio.testing.wait_all_tasks_blocked()
            if b"park" in router.parked:
                router.answer(b"park")
            await router.until(lambda: router.frames[-1] == b"echo")
            assert len(router.frames) == 302


async def test_the_queue_behind_a_parked_request_is_bounded(loop: LoopName) -> None:
    async with looping(loop, router := ObeyingRouter()) as peers:
        with connected(peers) as client:
            client.send(framed(b"park"))
            await router.until(lambda: b"park" in router.parked)
            for _ in range(50):
                try:
                    client.send(bytes(QUEUE_BYTES))
                except BlockingIOError:
                    break
                await trio.testing.wait_all_tasks_blocked()
            else:
                pytest.fail("the server read everything")
            assert QUEUE_BYTES <= peers.request_memory.total_bytes < 3 * QUEUE_BYTES


async def test_a_parked_peer_with_a_full_queue_that_is_gone_is_closed(loop: LoopName) -> None:
    async with looping(loop, router := ObeyingRouter()) as peers:
        with connected(peers) as client:
            client.send(framed(b"park") + framed(b"silent " + bytes(QUEUE_BYTES)))
            await router.until(lambda: b"park" in router.parked)
            await trio.testing.wait_all_tasks_blocked()
        if loop == "tasks":  # which looks again only when there is an answer
            router.answer(b"park")
        await router.until(lambda: len(router.closed_connections) == 1)
        assert peers.request_memory.total_bytes == 0


async def test_input_is_not_read_faster_than_it_is_handled(loop: LoopName) -> None:
    async with looping(loop, router := ObeyingRouter()) as peers:
        with connected(peers) as client:
            stream = framed(b"silent") * 30_000
            highest = 0

            def look() -> None:
                nonlocal highest
                highest = max(highest, peers.request_memory.total_bytes)

            router.looked_at = look
            while stream:
                stream = stream[client.send(stream) :]
                await trio.testing.wait_all_tasks_blocked()
            assert len(router.frames) == 30_000
            assert 0 < highest < 2 * READ_BYTES


async def test_no_task_stays_behind_when_a_peer_is_closed(loop: LoopName) -> None:
    async with looping(loop, router := ObeyingRouter()) as peers:
        await trio.testing.wait_all_tasks_blocked()
        tasks = trio.lowlevel.current_statistics().tasks_living
        with connected(peers), connected(peers) as parked:
            parked.send(framed(b"park"))
            await router.until(lambda: b"park" in router.parked)
            await trio.testing.wait_all_tasks_blocked()
            peers.close_all()
            await trio.testing.wait_all_tasks_blocked()
            assert trio.lowlevel.current_statistics().tasks_living == tasks
            assert peers.peers == {}


async def test_a_large_frame_is_received_while_others_are_answered(loop: LoopName) -> None:
    async with looping(loop, router := ObeyingRouter()) as peers:
        with connected(peers) as large, connected(peers) as small:
            body = b"silent " + bytes(range(256)) * 20_000
            stream = framed(body) + framed(b"echo end")
            turns = 0
            while stream:
                stream = stream[large.send(stream[:200_000]) :]
                small.send(framed(b"echo"))
                turns += 1
                await trio.testing.wait_all_tasks_blocked()
            assert turns > 20
            assert small.recv(65_536) == framed(b"echo") * turns
            assert large.recv(100) == framed(b"echo end")
            assert router.frames.count(body) == 1
            assert peers.request_memory.total_bytes == 0


async def test_large_frames_go_one_by_one_when_room_is_short(loop: LoopName) -> None:
    limits = ServerLimits(queued_max_request_bytes=100_000)
    async with looping(loop, router := ObeyingRouter(), limits) as peers:
        with connected(peers) as first, connected(peers) as second:
            body = b"echo" + bytes(500_000)
            streams = {first: framed(body), second: framed(body)}
            received = {first: b"", second: b""}
            while any(len(got) < len(body) + 4 for got in received.values()):
                for sock in streams:
                    with suppress(BlockingIOError):
                        streams[sock] = streams[sock][sock.send(streams[sock]) :]
                    await trio.testing.wait_all_tasks_blocked()
                    with suppress(BlockingIOError):
                        received[sock] += sock.recv(1 << 20)
                assert peers.request_memory.total_bytes <= len(body) + 4 + READ_BYTES
            assert router.frames == [body, body]


async def test_a_peer_waiting_for_room_can_leave(loop: LoopName) -> None:
    limits = ServerLimits(queued_max_request_bytes=10)
    async with looping(loop, router := ObeyingRouter(), limits) as peers:
        with connected(peers) as first, connected(peers) as second:
            first.send(framed(b"echo" + bytes(100))[:50])
            await trio.testing.wait_all_tasks_blocked()
            second.send(framed(b"echo" + bytes(100))[:50])
            await trio.testing.wait_all_tasks_blocked()
            for peer in list(peers.peers.values()):
                peers.close(peer)
                peers.close(peer)
            await trio.testing.wait_all_tasks_blocked()
            assert len(router.closed_connections) == 2
            assert peers.peers == {}
            assert peers.request_memory.total_bytes == 0


async def test_many_parked_requests_are_answered_by_one_event(loop: LoopName) -> None:
    async with looping(loop, router := ObeyingRouter()) as peers:
        clients = [connected(peers) for _ in range(100)]
        for number, client in enumerate(clients):
            client.send(framed(b"park %d" % number))
        await router.until(lambda: len(router.parked) == 100)
        for frame in list(router.parked):
            router.answer(frame)
        await trio.testing.wait_all_tasks_blocked()
        for number, client in enumerate(clients):
            with client:
                assert client.recv(100) == framed(b"park %d" % number)


class RecordingEpoll:
    """An epoll set that keeps how long each look at it was to take."""

    timeouts: ClassVar[list[float]] = []

    made: ClassVar[Any] = getattr(select, "epoll", None)

    def __init__(self) -> None:
        self._epoll = self.made()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._epoll, name)

    def poll(self, timeout: float, most: int) -> Any:
        self.timeouts.append(timeout)
        return self._epoll.poll(timeout, most)


@pytest.mark.skipif(sys.platform != "linux", reason="epoll is Linux's")
@pytest.mark.parametrize(
    ("may_wait", "has_task", "by_itself", "waits"),
    [
        pytest.param(True, False, True, True, id="for the next request where it may"),
        pytest.param(False, False, True, False, id="not where other tasks would be late"),
        pytest.param(True, True, True, False, id="not while there are background tasks"),
        pytest.param(True, False, False, False, id="not when somebody else asks for what there is"),
    ],
)
async def test_a_loop_waits_without_trio(
    may_wait: bool, has_task: bool, by_itself: bool, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshim.server.epoll_loop.select.epoll", RecordingEpoll)
    RecordingEpoll.timeouts.clear()
    router = ObeyingRouter()
    if has_task:
        router.background_tasks.add(iter(()))  # type: ignore[arg-type]
    async with looping("epoll", router, may_wait=may_wait) as peers:
        with connected(peers) as client:
            client.send(framed(b"echo"))
            if by_itself:
                await trio.testing.wait_all_tasks_blocked()
            else:
                peers.serve_ready()
            assert client.recv(100) == framed(b"echo")
    first, *others = RecordingEpoll.timeouts[:2]
    assert first == 0
    assert [timeout > 0 for timeout in others] == [waits]


async def test_the_default_is_epoll_where_there_is_one() -> None:
    name = _loop_class("auto").__name__
    assert name == ("EpollLoop" if sys.platform == "linux" else "TaskLoop")


async def test_a_platform_without_epoll_gets_tasks_by_default_and_refuses_epoll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(select, "epoll", raising=False)
    assert _loop_class("auto").__name__ == "TaskLoop"
    with pytest.raises(ValueError, match="no epoll"):
        await serve(ObeyingRouter(), host="127.0.0.1", port=0, loop="epoll")
