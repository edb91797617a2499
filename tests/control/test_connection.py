"""HTTP connections and their limits: no peer costs more than its own connection."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from kshim.control.connection import Api
from kshim.control.http import EventStream, ProblemError, Request, Response, Send
from kshim.control.limits import ControlLimits
from kshim.control.server import serve_http
from kshim.server.listener import bind

pytestmark = pytest.mark.trio
SOON = ControlLimits(read_s=0.2, idle_s=0.3, write_s=0.2, body_bytes=1_000, head_bytes=1_000, connections=2)
GET = b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n"


class Echo:
    """Answers with what was asked; `/flood` is a stream that does not end, `/never` an answer that does not come."""

    def __init__(self) -> None:
        self.gone = trio.Event()

    def check(self, head: Request) -> None:
        if head.path == "/forbidden":
            raise ProblemError(403, "not for you")

    async def answer(self, request: Request) -> Response | EventStream:
        try:
            if request.path == "/never":
                await trio.sleep_forever()
            if request.path == "/flood":
                return EventStream(self.flood)
        except trio.Cancelled:
            self.gone.set()
            raise
        return Response(200, f"{request.method} {request.path} {len(request.body)}".encode(), "text/plain")

    async def flood(self, send: Send) -> None:
        try:
            while True:
                await send(b"data: x\n\n" * 10_000)
        finally:
            self.gone.set()


@asynccontextmanager
async def serving(api: Api, limits: ControlLimits = SOON) -> AsyncIterator[int]:
    """The port of a server, which ends with the block: at once, whatever its peers do."""
    failures: list[Exception] = []
    sock = await bind("127.0.0.1", 0, backlog_size=16)
    port: int = sock.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_http, sock, api, limits, lambda _, error: failures.append(error))
        with trio.fail_after(20):
            yield port
        nursery.cancel_scope.cancel()
    assert failures == []


async def connected(port: int) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", port)


async def everything(stream: trio.SocketStream) -> bytes:
    """What comes until the server closes."""
    pieces = []
    try:
        while piece := await stream.receive_some(65_536):
            pieces.append(piece)
    except trio.BrokenResourceError:
        pass
    return b"".join(pieces)


async def answer_to(port: int, data: bytes) -> bytes:
    async with await connected(port) as stream:
        await stream.send_all(data)
        return await everything(stream)


async def test_requests_of_a_connection_are_answered_in_their_order() -> None:
    async with serving(Echo()) as port:
        found = await answer_to(port, b"".join(GET % name for name in (b"a", b"b", b"c")))
        assert re.findall(rb"GET /\w 0", found) == [b"GET /a 0", b"GET /b 0", b"GET /c 0"]


async def test_a_peer_that_does_not_read_a_stream_is_disconnected() -> None:
    api = Echo()
    async with serving(api) as port, await connected(port) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        await stream.send_all(GET % b"flood")
        await api.gone.wait()


async def test_a_server_ends_though_a_peer_does_not_read() -> None:
    api = Echo()
    async with serving(api, ControlLimits(write_s=1_000)) as port:
        stream = await connected(port)
        await stream.send_all(GET % b"flood")
        await stream.receive_some(1)
    assert api.gone.is_set()
    await stream.aclose()


async def test_an_answer_is_not_waited_for_when_the_peer_has_gone() -> None:
    api = Echo()
    async with serving(api) as port:
        async with await connected(port) as stream:
            await stream.send_all(GET % b"never")
        await api.gone.wait()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nSlow:", b"408"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf", b"408"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1_001, b"413"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nLarge: " + b"x" * 2_000, b"431"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://other/ HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"\x16\x03\x01\0\0\r\n\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
        (b"GET /forbidden HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n", b"403"),
    ],
)
async def test_a_bad_request_is_answered_and_ends_its_connection(sent: bytes, status: bytes) -> None:
    async with serving(Echo()) as port:
        found = await answer_to(port, sent)
        assert found.startswith(b"HTTP/1.1 " + status), found
        assert b"application/problem+json" in found


async def test_a_connection_without_requests_is_closed() -> None:
    async with serving(Echo()) as port:
        assert await answer_to(port, b"") == b""
        assert (await answer_to(port, GET % b"once")).startswith(b"HTTP/1.1 200")


async def test_a_body_is_asked_for_when_the_peer_waits_with_it() -> None:
    async with serving(Echo()) as port, await connected(port) as stream:
        await stream.send_all(b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert (await stream.receive_some(99)).startswith(b"HTTP/1.1 100")
        await stream.send_all(b"ok")
        assert b"POST /p 2" in await everything(stream)


async def test_further_connections_wait_until_one_ends() -> None:
    async with serving(Echo(), SOON._replace(idle_s=1_000)) as port:
        first, second, third = [await connected(port) for _ in range(3)]
        for stream in (first, second, third):
            await stream.send_all(GET % b"x")
        for stream in (first, second):
            assert b"200" in await stream.receive_some(999)
        with trio.move_on_after(0.1) as waiting:
            await third.receive_some(1)
        assert waiting.cancelled_caught
        await first.aclose()
        assert b"200" in await third.receive_some(999)
        await second.aclose()
        await third.aclose()


async def test_head_has_the_length_and_no_body() -> None:
    async with serving(Echo()) as port:
        found = await answer_to(port, b"HEAD /h HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert re.search(rb"(?i)content-length: 9", found)
        assert found.endswith(b"\r\n\r\n")
