"""A router that does what its frames say, servers to put it behind, and clients to talk to them."""

from __future__ import annotations

import functools
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from kshim.broker.connection import Connection, ConnectionClosing
from kshim.config.listeners import Listener, plain_listener
from kshim.coordinator.step import Now
from kshim.scheduling.background_tasks import BackgroundTasks
from kshim.scheduling.pace import Pace
from kshim.server.clock import SteerableClock
from kshim.server.connection import ServerConnection
from kshim.server.limits import ServerLimits
from kshim.server.request_memory import RequestMemory
from kshim.server.server import LoopName, Server, serve
from kshim.server.transport_layer import TransportLayer
from tests.server.manual_clock import ManualClock

PATIENCE_S = 20
"""Only a test that fails waits so long."""


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big", signed=True) + body


class ObeyingRouter:
    """Does what the first word of a frame says, and answers with the frame.

    `echo`; `park` (answered by `answer`, or by a frame `wake <the parked frame>`); `silent` (acks=0); `refuse`; `crash`;
    `big N` (N bytes); `timer MS` and `fetch MS` (answered when the clock says so).
    """

    def __init__(self) -> None:
        self.routed: list[tuple[bytes, Now, int]] = []
        self.parked: dict[bytes, Connection] = {}
        self.closed_connections: list[Connection] = []
        self.timers: dict[bytes, int] = {}
        self.fetches: dict[bytes, int] = {}
        self.advanced: list[Now] = []
        self.slices = 0
        self.on_fired: Callable[[tuple[str, ...]], None] = lambda key: None
        self.background_tasks = BackgroundTasks()
        self.pace = Pace()
        self.looked_at: Callable[[], None] = lambda: None
        self._changed = trio.Event()

    @property
    def frames(self) -> list[bytes]:
        return [frame for frame, _, _ in self.routed]

    def route(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> None:
        assert type(frame) is bytes
        self.routed.append((frame, now, real_ms))
        self.looked_at()
        self._tell()
        word, _, rest = frame.partition(b" ")
        match word:
            case b"park":
                self.parked[frame] = connection
            case b"wake":
                self.answer(rest)
                connection.reply(framed(frame))
            case b"silent":
                connection.reply(None)
            case b"refuse":
                raise ConnectionClosing("told to refuse")
            case b"crash":
                raise RuntimeError("told to crash")
            case b"big":
                connection.reply(framed(b"x" * int(rest)))
            case b"pieces":
                whole = framed(bytes(range(256)) * (int(rest) // 256))
                connection.reply(whole[:9], (whole[9:100_000], whole[100_000:100_010], whole[100_010:-3], whole[-3:]))
            case b"timer":
                self.parked[frame] = connection
                self.timers[frame] = int(rest)
            case b"fetch":
                self.parked[frame] = connection
                self.fetches[frame] = int(rest)
            case _:
                connection.reply(framed(frame))

    def answer(self, frame: bytes) -> None:
        self.parked.pop(frame).reply(framed(frame))

    def closed(self, connection: Connection) -> None:
        assert connection.is_closed
        assert connection not in self.closed_connections
        self.closed_connections.append(connection)
        self._tell()

    def next_deadline(self) -> int | None:
        return min(self.timers.values(), default=None)

    def advance(self, now: Now) -> None:
        self.advanced.append(now)
        self._answer_due(self.timers, now.mono_ms)

    def next_real_deadline(self) -> int | None:
        return min(self.fetches.values(), default=None)

    def advance_real(self, real_ms: int) -> None:
        self._answer_due(self.fetches, real_ms)

    def finish_loading(self) -> None:
        pass

    def warm_up(self) -> bool:
        self.slices -= 1
        self._tell()
        return self.slices > 0

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when `condition` holds; looked at after each thing that happens here."""
        while not condition():
            await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _answer_due(self, deadlines: dict[bytes, int], now_ms: int) -> None:
        for frame in [frame for frame, at_ms in deadlines.items() if at_ms <= now_ms]:
            del deadlines[frame]
            self.answer(frame)


class RecordedLog:
    def __init__(self) -> None:
        self.closings: list[tuple[str, str]] = []
        self.failures: list[tuple[str, Exception]] = []
        self.is_in_turn = False
        self.at_end_of_turn: Callable[[], None] = lambda: None

    def turn_begins(self) -> None:
        assert not self.is_in_turn
        self.is_in_turn = True

    def turn_ends(self) -> None:
        assert self.is_in_turn
        self.is_in_turn = False
        self.at_end_of_turn()

    def closing(self, client_host: str, reason: str) -> None:
        self.closings.append((client_host, reason))

    def failed(self, what: str, error: Exception) -> None:
        self.failures.append((what, error))


class Wire:
    """A `ServerConnection` with a test in place of the socket."""

    def __init__(
        self,
        router: ObeyingRouter,
        *,
        limits: ServerLimits | None = None,
        request_memory: RequestMemory | None = None,
        transport_layer: TransportLayer | None = None,
    ) -> None:
        limits = limits or ServerLimits()
        self.log = RecordedLog()
        self.wakes = 0
        self.connection = ServerConnection(
            router,
            "/127.0.0.1",
            40_000,
            limits=limits,
            request_memory=request_memory or RequestMemory(limits.queued_max_request_bytes),
            log=self.log,
            wake=self._woken,
            transport_layer=transport_layer,
        )

    def _woken(self) -> None:
        self.wakes += 1

    def receive(self, data: bytes) -> bytes:
        """One turn: bytes in, bytes out."""
        self.connection.receive(data)
        return self.turn()

    def turn(self) -> bytes:
        self.connection.handle(Now(0, 0), 0)
        return self.sent()

    def sent(self) -> bytes:
        out = b""
        while data := self.connection.next_to_send():
            out += b"".join(data) if isinstance(data, list) else data
        return out


class Client:
    """A blocking-free client. `send` does not wait, so that several can send before the server's next turn."""

    def __init__(self, port: int, *, receive_buffer_bytes: int | None = None) -> None:
        self.sock = trio.socket.socket()
        if receive_buffer_bytes is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._port = port
        self._buffer = b""

    async def connect(self) -> None:
        await self.sock.connect(("127.0.0.1", self._port))

    def send(self, data: bytes) -> None:
        """All or nothing: test data fits the socket buffers."""
        with socket.socket(fileno=socket.dup(self.sock.fileno())) as plain:
            plain.setblocking(False)
            assert plain.send(data) == len(data)

    async def receive_frame(self) -> bytes:
        size = int.from_bytes(await self._receive_exactly(4), "big", signed=True)
        return await self._receive_exactly(size)

    async def receive_frames(self, count: int) -> list[bytes]:
        return [await self.receive_frame() for _ in range(count)]

    async def ask(self, body: bytes) -> bytes:
        self.send(framed(body))
        return await self.receive_frame()

    async def receive_end(self) -> bytes:
        """Whatever comes until the server closes."""
        data, self._buffer = self._buffer, b""
        try:
            while more := await self.sock.recv(65536):
                data += more
        except ConnectionResetError:
            pass
        return data

    def close(self) -> None:
        self.sock.close()

    async def _receive_exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            more = await self.sock.recv(1 << 20)
            assert more, "the server closed"
            self._buffer += more
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data


class Running:
    """A server under test, with everything around it."""

    def __init__(self, server: Server, clock: ManualClock, real_clock: ManualClock, log: RecordedLog) -> None:
        self.server = server
        self.clock = clock
        self.real_clock = real_clock
        self.log = log
        self.is_over = trio.Event()

    @asynccontextmanager
    async def client(self, *, receive_buffer_bytes: int | None = None) -> AsyncIterator[Client]:
        client = Client(self.server.port, receive_buffer_bytes=receive_buffer_bytes)
        try:
            await client.connect()
            yield client
        finally:
            client.close()


@asynccontextmanager
async def serving(
    router: ObeyingRouter,
    *,
    loop: LoopName,
    limits: ServerLimits | None = None,
    make_transport_layer: Callable[[], TransportLayer] | None = None,
    listeners: Sequence[Listener] = (),
    steerable: SteerableClock | None = None,
) -> AsyncIterator[Running]:
    """A server on a free port, whose clock stands still, and so does the one of its own pauses. Ended gracefully, then
    within moments. `steerable` takes the place of the first."""
    clock = ManualClock()
    real_clock = ManualClock(mono_ms=1_000_000)
    log = RecordedLog()
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            run = functools.partial(
                serve,
                router,
                listeners=listeners or (plain_listener("127.0.0.1", 0),),
                transport_layers={
                    listener.name: make_transport_layer for listener in listeners or (plain_listener("", 0),)
                }
                if make_transport_layer is not None
                else None,
                limits=limits,
                clock=steerable or clock,
                real_clock=real_clock,
                loop=loop,
                log=log,
            )
            over = trio.Event()

            async def run_to_its_end(*, task_status: trio.TaskStatus[Server]) -> None:
                await run(task_status=task_status)
                over.set()

            server = await nursery.start(run_to_its_end)
            running = Running(server, clock, real_clock, log)
            running.is_over = over
            yield running
            server.stop()
            await trio.testing.wait_all_tasks_blocked()
            real_clock.advance(60_000)
