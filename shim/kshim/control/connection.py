"""One HTTP/1.1 connection: h11 reads and writes it, the API answers it, limits end it."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, Protocol

import h11
import trio

from kshim.control.http import EventStream, ProblemError, Request, Response, problem_response
from kshim.control.limits import ControlLimits

_READ_BYTES: Final = 16 * 1024
_SECURITY_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
)


class Api(Protocol):
    """What answers requests."""

    def check(self, head: Request) -> None:
        """Whether a request may be read further. Raises ProblemError."""

    async def answer(self, request: Request) -> Response | EventStream:
        """Carry out a request. Does not raise."""


class PeerGone(Exception):
    """The peer has closed its side, is too slow, or breaks the protocol: nothing more can be said to it."""


class HttpConnection:
    """Serves one peer: `run` returns when it is done, and the socket is the caller's to close."""

    def __init__(self, stream: trio.SocketStream, api: Api, limits: ControlLimits) -> None:
        self._stream = stream
        self._api = api
        self._limits = limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes)

    async def run(self) -> None:
        """Answer requests one after the other, until the peer or a limit ends the connection."""
        try:
            while await self._serve_one():
                pass
        except (PeerGone, h11.LocalProtocolError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _serve_one(self) -> bool:
        """Whether the connection goes on. Raises PeerGone."""
        is_head = False
        try:
            try:
                request = await self._request()
            except ProblemError as problem:
                await self._send(problem.response(), is_last=True)
                return False
            if request is None:
                return False
            is_head = request.method == "HEAD"
            answer = await self._answered(request)
        except h11.RemoteProtocolError as error:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                await self._send(problem_response(error.error_status_hint, _printable(str(error))), is_last=True)
            return False
        if isinstance(answer, EventStream):
            await self._send_stream(answer, is_head=is_head)
            return False
        await self._send(answer, is_head=is_head)
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    # Reading

    async def _request(self) -> Request | None:
        """The next request; None when the peer has gone or is idle for too long. Raises ProblemError, PeerGone."""
        began = False
        with trio.move_on_after(self._limits.idle_s) as scope:
            while True:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    break
                if not began and self._http.trailing_data[0]:
                    began = True
                    scope.deadline = trio.current_time() + self._limits.read_s
                await self._read()
            if not isinstance(event, h11.Request):
                return None
            scope.deadline = trio.current_time() + self._limits.read_s
            head = _head_of(event)
            self._api.check(head)
            return head._replace(body=await self._body(head))
        if began or self._http.their_state is h11.SEND_BODY:
            raise ProblemError(408, f"the request did not arrive within {self._limits.read_s:g} s")
        return None

    async def _body(self, head: Request) -> bytes:
        length = head.headers.get("content-length", "0")
        if len(length) > 12 or int(length) > self._limits.body_bytes:  # h11 has checked that it is a number
            raise self._too_large()
        if self._http.they_are_waiting_for_100_continue:
            await self._write(h11.InformationalResponse(status_code=100, headers=[]))
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                await self._read()
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > self._limits.body_bytes:
                    raise self._too_large()
            else:
                return bytes(body)

    def _too_large(self) -> ProblemError:
        return ProblemError(413, f"a body may have {self._limits.body_bytes} bytes")

    async def _read(self) -> None:
        self._http.receive_data(await self._stream.receive_some(_READ_BYTES))

    # Answering

    async def _answered(self, request: Request) -> Response | EventStream:
        """The answer. Raises PeerGone when the peer goes while it is waited for."""
        answer: Response | EventStream | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, nursery.cancel_scope)
            answer = await self._api.answer(request)
            nursery.cancel_scope.cancel()
        if answer is None:
            raise PeerGone
        return answer

    async def _watch(self, scope: trio.CancelScope) -> None:
        """Cancel `scope` when the peer has gone. One that has sent more is left alone."""
        sock = self._stream.socket
        await trio.lowlevel.wait_readable(sock.fileno())
        try:
            if await sock.recv(1, socket.MSG_PEEK) == b"":
                scope.cancel()
        except OSError:
            scope.cancel()

    async def _send(self, response: Response, *, is_head: bool = False, is_last: bool = False) -> None:
        own = {name for name, _ in response.headers}
        headers = [*(each for each in _SECURITY_HEADERS if each[0] not in own), *response.headers]
        if response.status != 204:
            headers += [("Content-Type", response.content_type), ("Content-Length", str(len(response.body)))]
        if is_last:
            headers.append(("Connection", "close"))
        await self._write(_status_line(response.status, headers))
        if response.body and not is_head:
            await self._write(h11.Data(data=response.body))
        await self._write(h11.EndOfMessage())
        if is_last:
            await self._drain()

    async def _send_stream(self, stream: EventStream, *, is_head: bool) -> None:
        headers = [*_SECURITY_HEADERS, ("Content-Type", "text/event-stream"), ("Connection", "close")]
        await self._write(_status_line(200, headers))
        if is_head:
            return

        async def send(piece: bytes) -> None:
            await self._write(h11.Data(data=piece))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, nursery.cancel_scope)
            nursery.start_soon(_then_cancel, stream.run, send, nursery.cancel_scope)

    async def _write(self, event: h11.Response | h11.InformationalResponse | h11.Data | h11.EndOfMessage) -> None:
        """Raises PeerGone when the peer does not take it in time."""
        data = self._http.send(event)
        if data:
            with trio.move_on_after(self._limits.write_s) as scope:
                await self._stream.send_all(data)
            if scope.cancelled_caught:
                raise PeerGone

    async def _drain(self) -> None:
        """Take in what the peer still sends, within bounds: otherwise the system resets the connection, and the answer is lost."""
        left = self._limits.body_bytes
        with trio.move_on_after(1):
            await self._stream.send_eof()
            while left > 0 and (data := await self._stream.receive_some(_READ_BYTES)):
                left -= len(data)


async def _then_cancel(
    run: Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]],
    send: Callable[[bytes], Awaitable[None]],
    scope: trio.CancelScope,
) -> None:
    try:
        await run(send)
    except (PeerGone, trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    finally:
        scope.cancel()


def _head_of(event: h11.Request) -> Request:
    """Raises ProblemError."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
    path, _, query = event.target.decode("latin-1").partition("?")
    if not path.startswith("/"):
        raise ProblemError(400, "the request target has to be a path")
    return Request(event.method.decode("latin-1"), path, query, headers)


def _status_line(status: int, headers: list[tuple[str, str]]) -> h11.Response:
    return h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase)


def _printable(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
