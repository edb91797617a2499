"""One client connection, sans-io: wire bytes in, whole frames to the router, answers out as wire bytes.

The rules are a Kafka 4.4 broker's: one request at a time and in order; a size that cannot be closes without an
answer; a frame that is not whole yet waits. `docs/design/server.md` has the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, Protocol

from kshim.broker.client_activity import ConnectedClient
from kshim.broker.connection import ANONYMOUS, ConnectionClosing, FrameRouter
from kshim.config.listeners import SecurityProtocol
from kshim.coordinator.step import Now
from kshim.server.limits import QUEUE_BYTES, READ_BYTES, TURN_BYTES, TURN_FRAMES, ServerLimits
from kshim.server.request_memory import RequestMemory
from kshim.server.transport_layer import TransportLayer
from kshim_protocol.frame import LARGE_PIECE_BYTES

READ: Final = 1
"""Interest: the connection takes more bytes (the value of EPOLLIN)."""
WRITE: Final = 4
"""Interest: bytes wait for the peer to take them (the value of EPOLLOUT)."""
AGAIN: Final = 1 << 16
"""Interest: frames are left to handle now; call `handle` again after the other connections had their turn."""
GONE: Final = 1 << 17
"""Interest: nothing is left to do, close it."""

_COALESCED_BYTES: Final = 256 * 1024
_MOST_PIECES: Final = 64
_COUNTED_BYTES: Final = 4 * 1024
"""A parked request of fewer bytes is not counted: most are waiting Fetches of a hundred."""
_LARGE_READ_BYTES: Final = 256 * 1024

_unpack_size = Struct(">i").unpack_from


class ServerLog(Protocol):
    """Receives the events of the server. Called in its loop, so it must not block. `kshim.cli` writes them to the log."""

    def closing(self, client_host: str, reason: str) -> None:
        """The peer's bytes, or its silence, end its connection."""

    def failed(self, what: str, error: Exception) -> None:
        """Something of ours, or of the machine, went wrong while doing `what`. The server goes on."""

    def turn_begins(self) -> None:
        """Requests are about to be handled: what can be written after their answers should wait until `turn_ends`."""

    def turn_ends(self) -> None:
        """The answers that there are have been sent, as far as sockets take them."""


class ServerConnection:
    """Implements the broker's `Connection` for one peer. Does no I/O: a loop moves the bytes and asks `interest`.

    `wake` is called when there is something to do outside the loop's turn: an answer to a parked request, or room to
    read again. It must not call back into the connection.
    """

    __slots__ = (  # there may be tens of thousands, and it saves a tenth of their memory
        "_at",
        "_buffer",
        "_has_pieces",
        "_in_turn",
        "_is_ending",
        "_is_parked",
        "_is_paused",
        "_is_stopping",
        "_limits",
        "_log",
        "_more",
        "_out",
        "_out_bytes",
        "_parked_frame_bytes",
        "_request_memory",
        "_router",
        "_transport_layer",
        "_unsent",
        "client",
        "client_host",
        "client_port",
        "held_since_ms",
        "is_authenticated",
        "is_closed",
        "listener_name",
        "principal",
        "read_bytes",
        "request_memory_bytes",
        "security_protocol",
        "wake",
    )

    def __init__(
        self,
        router: FrameRouter,
        client_host: str,
        client_port: int,
        *,
        limits: ServerLimits,
        request_memory: RequestMemory,
        log: ServerLog,
        wake: Callable[[], None],
        transport_layer: TransportLayer | None = None,
        listener_name: str = "PLAINTEXT",
        security_protocol: SecurityProtocol = "PLAINTEXT",
    ) -> None:
        self.client_host = client_host
        self.client_port = client_port
        self.listener_name = listener_name
        self.security_protocol: SecurityProtocol = security_protocol
        self.principal = ANONYMOUS
        self.is_authenticated = not security_protocol.startswith("SASL")
        self.is_closed = False
        self.client = ConnectedClient()
        self.request_memory_bytes = 0
        """Its input that waits, as `request_memory` counts it."""
        self.held_since_ms = 0
        """Since when the first request of that input waits, on the real clock."""
        self.read_bytes = READ_BYTES
        """How much to ask of the wire at once."""
        self.wake = wake
        self._router = router
        self._limits = limits
        self._request_memory = request_memory
        self._log = log
        self._transport_layer = transport_layer
        self._buffer: bytes | bytearray = b""  # input from _at on; empty when all of it is handled
        self._at = 0
        self._out: list[bytes | memoryview] = []  # answers, before the transport layer
        self._has_pieces = False  # among them are pieces of a large one, which are not to be copied
        self._unsent: bytes | memoryview = b""  # after it, the rest of what the wire did not take
        self._out_bytes = 0  # both together, about
        self._is_parked = False  # a request is at the router and not answered
        self._parked_frame_bytes = 0  # its size, if it is large
        self._in_turn = False  # inside handle()
        self._more = False  # frames may be left that can be handled now
        self._is_paused = False  # no room in request_memory
        self._is_ending = False  # no byte will be read any more
        self._is_stopping = False  # and parked requests are not waited for

    @property
    def is_parked(self) -> bool:
        """True while a request is owed its answer."""
        return self._is_parked

    @property
    def is_deaf(self) -> bool:
        """True when no more of its input is read than is here: it has ended, or too much waits behind a parked request."""
        return self._is_ending or (self._is_parked and self.held_bytes >= QUEUE_BYTES)

    @property
    def is_ready(self) -> bool:
        """True once its TLS handshake and its authentication are done, where its listener asks for them."""
        return self.is_authenticated and self.has_open_layer

    @property
    def has_open_layer(self) -> bool:
        """True when no TLS handshake is awaited."""
        return self._transport_layer is None or self._transport_layer.is_open

    @property
    def held_bytes(self) -> int:
        """Input that is here and not yet handled."""
        return len(self._buffer) - self._at

    @property
    def is_over_bound(self) -> bool:
        """True while more answers are unsent than one connection may have."""
        return self._out_bytes > self._limits.unsent_max_bytes

    @property
    def unsent_bytes(self) -> int:
        """Answers that the peer has not taken yet."""
        return self._out_bytes

    # ---------------------------------------------------------------- from the wire

    def receive(self, data: bytes) -> None:
        """Take bytes from the wire. Call `handle` next."""
        if self._transport_layer is not None:
            data = self._transformed(data)
        buffer = self._buffer
        if not buffer:
            self._buffer = data
            return
        # Only input that arrives in pieces comes here; a bytearray makes each piece cost what it weighs.
        if isinstance(buffer, bytes):
            buffer = bytearray(memoryview(buffer)[self._at :])
        elif self._at:
            del buffer[: self._at]
        self._at = 0
        buffer += data
        self._buffer = buffer

    def receive_eof(self) -> None:
        """The peer sends no more. What it sent whole is still handled, as Kafka does; half a frame is dropped."""
        self._is_ending = True
        self._end_if_idle()

    def stop(self) -> None:
        """Read no more, handle what is here whole, do not wait for parked requests. For a graceful shutdown."""
        self._is_ending = self._is_stopping = True
        self._end_if_idle()

    def handle(self, now: Now, real_ms: int) -> None:
        """Give whole frames to the router, one at a time: until one is parked, or 64 frames or 256 KiB are done.

        Any exception of the router ends this connection only, after the answers made so far.
        """
        self._more = False
        if self._is_parked:
            pass
        elif self._out_bytes > self._limits.unsent_max_bytes:
            self._more = bool(self._buffer)
        else:
            self._in_turn = True
            try:
                self._route_frames(now, real_ms)
            except ConnectionClosing as verdict:
                self._give_up(str(verdict))
            except Exception as error:
                self._log.failed(f"handling a request of {self.client_host}", error)
                self._give_up("a request failed unexpectedly")
            finally:
                self._in_turn = False
        if self._buffer or self.request_memory_bytes or self._parked_frame_bytes:
            self._settle(real_ms)
        if self._is_ending:
            self._end_if_idle()

    def _route_frames(self, now: Now, real_ms: int) -> None:
        buffer = self._buffer
        at = self._at
        end = len(buffer)
        request_max_bytes = self._request_max_bytes()
        unsent_max_bytes = self._limits.unsent_max_bytes
        route = self._router.route
        frames_left = TURN_FRAMES
        turn_end = at + TURN_BYTES
        while end - at >= 4:
            size: int = _unpack_size(buffer, at)[0]
            if not 0 < size <= request_max_bytes:
                request_max_bytes = self._request_max_bytes()  # the frame before this one may have authenticated it
                if not 0 < size <= request_max_bytes:
                    raise ConnectionClosing(_size_problem(size))
            next_at = at + 4 + size
            if next_at > end:
                break
            # Through a memoryview a bytearray is copied once, not twice.
            frame = (
                buffer[at + 4 : next_at] if isinstance(buffer, bytes) else bytes(memoryview(buffer)[at + 4 : next_at])
            )
            self._at = at = next_at
            self._is_parked = True
            route(frame, self, now, real_ms)
            if self._is_parked:
                if size >= _COUNTED_BYTES:
                    self._parked_frame_bytes = size
                break
            frames_left -= 1
            if not frames_left or at >= turn_end or self._out_bytes > unsent_max_bytes:
                self._more = at < end
                break
        if at == end:
            self._buffer = b""
            self._at = 0

    # ---------------------------------------------------------------- from the router

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        """End the request being handled. Dropped when the connection is closed or ending without it."""
        if not self._is_parked:
            if self.is_closed or self._is_ending:
                return
            raise AssertionError("a second reply to one request")
        self._is_parked = False
        if frame is not None:
            self._out.append(frame)
            self._out_bytes += len(frame)
            if rest:
                self._out += rest
                self._out_bytes += sum(map(len, rest))
                self._has_pieces = True
        if not self._in_turn:
            self._more = True
            self.wake()

    def hang_up(self, reason: str) -> None:
        """See `Connection.hang_up`."""
        if not (self.is_closed or self._is_ending):
            self._give_up(reason)
            self.wake()

    def resume_reading(self) -> None:
        """See `WaitingConnection.resume_reading`."""
        self._is_paused = False
        self.wake()

    # ---------------------------------------------------------------- to the wire

    def next_to_send(self) -> bytes | memoryview | list[bytes | memoryview]:
        """The bytes to send next, all small answers in one piece, a large one in several; empty when there are none.

        The caller sends them and, when the wire did not take all, hands the rest to `keep_unsent`.
        """
        if self._unsent:
            data = self._unsent
            self._unsent = b""
            self._out_bytes -= len(data)
            return data
        out = self._out
        if not out:
            return b""
        if self._has_pieces and len(out) > 1 and self._transport_layer is None:
            return self._next_pieces(out)
        data = out.pop() if len(out) == 1 else self._coalesced(out)
        if self._transport_layer is not None:
            return self._sealed(data)
        self._out_bytes -= len(data)
        return data

    def _next_pieces(self, out: list[bytes | memoryview]) -> list[bytes | memoryview]:
        """Take pieces off the front of `out`: up to the one that makes them many bytes, and the small ones behind it."""
        count = total_bytes = 0
        for piece in out[:_MOST_PIECES]:
            if total_bytes >= _COALESCED_BYTES and len(piece) >= LARGE_PIECE_BYTES:
                break
            total_bytes += len(piece)
            count += 1
        pieces = out[:count]
        del out[:count]
        self._has_pieces = bool(out)
        self._out_bytes -= total_bytes
        return pieces

    def keep_unsent(self, data: bytes | memoryview | list[bytes | memoryview], sent_bytes: int) -> None:
        """The wire took only `sent_bytes` of what `next_to_send` gave."""
        if isinstance(data, list):
            self._keep_pieces(data, sent_bytes)
        else:
            self._unsent = memoryview(data)[sent_bytes:]
            self._out_bytes += len(self._unsent)

    def _keep_pieces(self, pieces: list[bytes | memoryview], sent_bytes: int) -> None:
        self._out_bytes += sum(map(len, pieces)) - sent_bytes
        count = 0
        while sent_bytes >= len(pieces[count]):
            sent_bytes -= len(pieces[count])
            count += 1
        self._out[:0] = [memoryview(pieces[count])[sent_bytes:], *pieces[count + 1 :]]
        self._has_pieces = True

    def interest(self) -> int:
        """What this connection waits for: READ, WRITE, AGAIN or'ed together, 0 (an answer or room), or GONE."""
        if not (self._out_bytes or self._is_parked or self._more or self._is_ending or self._is_paused):
            return READ
        wants = WRITE if self._out_bytes else 0
        if self._out_bytes > self._limits.unsent_max_bytes:
            return wants
        if self._more:
            return wants | AGAIN
        if self._is_ending:
            return wants if wants or self._is_parked else GONE
        if self._is_paused or (self._is_parked and len(self._buffer) - self._at >= QUEUE_BYTES):
            return wants
        return wants | READ

    # ---------------------------------------------------------------- its end

    def close(self) -> None:
        """Discard everything and inform the router. The caller closes the socket. Idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        self.client.closed("broker")
        self.wake = lambda: None  # it refers to the creator of this connection
        self._transport_layer = None
        self._drop()
        self._out.clear()
        self._unsent = b""
        self._out_bytes = 0
        try:
            self._router.closed(self)
        except Exception as error:
            self._log.failed(f"forgetting the connection of {self.client_host}", error)

    def _give_up(self, reason: str) -> None:
        self._log.closing(self.client_host, reason)
        self._drop()

    def _drop(self) -> None:
        """Handle nothing any more; answers made so far still go out."""
        self._buffer = b""
        self._at = 0
        self._is_ending = True
        self._is_parked = self._more = self._is_paused = False
        self._parked_frame_bytes = 0
        self._request_memory.hold(self, 0)

    def _end_if_idle(self) -> None:
        """Once no byte comes any more, wait for a parked request only if whole requests stand behind it."""
        if self._is_parked:
            if self._is_stopping or not self._has_whole_frame():
                self._drop()
        elif not self._more:
            self._drop()

    # ---------------------------------------------------------------- details

    def _has_whole_frame(self) -> bool:
        held_bytes = self.held_bytes
        return held_bytes >= 4 and 0 < _unpack_size(self._buffer, self._at)[0] <= held_bytes - 4

    def _settle(self, real_ms: int) -> None:
        """Count the input that waits, and choose how much to read next."""
        if self._at or not self.request_memory_bytes:  # a request was handled since bytes last came, or none waited
            self.held_since_ms = real_ms
        request_memory, held_bytes = self._request_memory, self.held_bytes
        self.read_bytes = READ_BYTES
        self._is_paused = False
        if self._at and request_memory.has_line:
            request_memory.hold(self, 0)  # for the next request it goes to the end of the line
        if self._is_parked:
            request_memory.hold(self, held_bytes + self._parked_frame_bytes)
            return
        self._parked_frame_bytes = 0
        request_memory.hold(self, held_bytes)
        if not held_bytes or self._more:
            return
        if held_bytes >= 4:
            missing_bytes = 4 + _unpack_size(self._buffer, self._at)[0] - held_bytes
            self.read_bytes = min(max(missing_bytes, READ_BYTES), _LARGE_READ_BYTES)
        self._is_paused = not request_memory.may_grow(self)

    def _request_max_bytes(self) -> int:
        return self._limits.request_max_bytes if self.is_authenticated else self._limits.unauthenticated_max_bytes

    def farewell(self) -> bytes:
        """What the wire's layer says at its end, for a last attempt to send; empty while answers are unsent."""
        if self._transport_layer is None or self._out_bytes:
            return b""
        return self._transport_layer.end()

    def _sealed(self, data: bytes | memoryview) -> bytes:
        """The first piece of `data` as the transport layer writes it; the rest goes back, so that it is not held twice."""
        assert self._transport_layer is not None
        if len(data) > _COALESCED_BYTES:
            view = memoryview(data)
            self._out.insert(0, view[_COALESCED_BYTES:])
            data = view[:_COALESCED_BYTES]
        self._out_bytes -= len(data)
        try:
            return self._transport_layer.send(data)
        except ConnectionClosing as verdict:
            self._give_up(str(verdict))
            return b""

    def _transformed(self, data: bytes) -> bytes:
        transport_layer = self._transport_layer
        assert transport_layer is not None
        was_open = transport_layer.is_open
        try:
            data = transport_layer.receive(data)
        except ConnectionClosing as verdict:
            data = b""
            self._out.clear()  # a layer that has failed carries no more answers
            self._out_bytes = len(self._unsent)
            self._give_up(str(verdict))
        if not was_open and transport_layer.is_open and self.is_authenticated:  # SASL says by itself who it is
            self.principal = transport_layer.principal or ANONYMOUS
        if transport_layer.is_over:
            self._is_ending = True
        owed = transport_layer.pending()
        if owed:
            # These bytes are made before any answer still in _out is encrypted, so they go first.
            self._unsent = bytes(self._unsent) + owed
            self._out_bytes += len(owed)
        return data

    @staticmethod
    def _coalesced(out: list[bytes | memoryview]) -> bytes | memoryview:
        """Take answers off the front of `out`: as many as fit one send, or a single large one uncopied."""
        count = total_bytes = 0
        for frame in out:
            total_bytes += len(frame)
            if total_bytes > _COALESCED_BYTES:
                break
            count += 1
        if count <= 1:
            return out.pop(0)
        data = b"".join(out[:count])
        del out[:count]
        return data


def _size_problem(size: int) -> str:
    """Why the size of a frame is invalid; recognises a TLS handshake."""
    if 0x16030000 <= size <= 0x160304FF:
        return f"invalid frame size {size}, which is the start of a TLS handshake; this listener does not use TLS"
    return f"invalid frame size {size}"
