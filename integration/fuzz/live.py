"""A whole kshim in this process, on its own thread, so that a test can count its tasks and connections."""

from __future__ import annotations

import secrets
import threading
import traceback
import uuid
from types import TracebackType

import trio

from kshim.broker.cluster import Cluster, Identities
from kshim.broker.config import BrokerConfig
from kshim.broker.connection import Connection
from kshim.broker.node import Node
from kshim.coordinator.step import Now
from kshim.server.clock import RealClock
from kshim.server.server import LoopName, Server, serve
from kshim.storage.stores import MemoryStorage

__all__ = ["LiveServer"]


class LiveServer:
    """`with LiveServer() as server:` serves from memory on a free loopback port; leaving stops it gracefully."""

    def __init__(self, *, loop: LoopName = "auto", config: dict[str, str] | None = None) -> None:
        self.defects: list[str] = []
        """What the broker and the server called unexpected."""
        self.routed = 0
        """Frames that reached the router."""
        self.refused = 0
        """Connections that the server closed for what came over them."""
        self.address = ("127.0.0.1", 0)
        self._loop = loop
        self._config = config or {}
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kshim", daemon=True)

    def __enter__(self) -> LiveServer:
        self._thread.start()
        assert self._ready.wait(10), "the server did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        trio.from_thread.run_sync(self._server.stop, trio_token=self._token)
        self._thread.join(10)
        assert not self._thread.is_alive(), "the server did not stop"

    def tasks(self) -> int:
        """Living trio tasks of the server's thread."""
        return trio.from_thread.run_sync(
            lambda: trio.lowlevel.current_statistics().tasks_living, trio_token=self._token
        )

    def connections(self) -> int:
        """Connections the server holds open."""
        return len(self.cluster_connections)

    def closing(self, client_host: str, reason: str) -> None:
        """`ServerLog`: damaged frames are expected to end connections."""
        self.refused += 1

    def failed(self, what: str, error: Exception) -> None:
        """`ServerLog`: nothing of ours may fail."""
        self.defects.append(f"{what}: " + "".join(traceback.format_exception(error)))

    def _defect(self, error: BaseException, request: object) -> None:
        self.defects.append(f"{request!r}: " + "".join(traceback.format_exception(error)))

    def _run(self) -> None:
        trio.run(self._main)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        clock = RealClock()
        config, _ = BrokerConfig.from_pairs(self._config)
        cluster = Cluster(
            config,
            MemoryStorage(),
            Identities(lambda: str(uuid.uuid4()), lambda: secrets.token_bytes(16)),
            cluster_id="fuzz-cluster",
            on_defect=self._defect,
        )
        node = Node(cluster, config.node_id, "127.0.0.1", 0, now=clock.now)
        self.cluster_connections: set[Connection] = set()
        watched = _Watched(self, node)
        async with trio.open_nursery() as nursery:
            self._server: Server = await nursery.start(self._serve, watched, clock)
            self.address = (self._server.host, self._server.port)
            node.port = self._server.port
            self._ready.set()
        cluster.close()

    async def _serve(self, router: _Watched, clock: RealClock, task_status: trio.TaskStatus[Server]) -> None:
        await serve(router, host="127.0.0.1", port=0, clock=clock, loop=self._loop, log=self, task_status=task_status)


class _Watched:
    """The node, with a register of the connections it saw and was not told to be closed. A `FrameRouter`."""

    def __init__(self, server: LiveServer, node: Node) -> None:
        self._server = server
        self._node = node
        self.next_deadline = node.next_deadline
        self.advance = node.advance
        self.next_real_deadline = node.next_real_deadline
        self.advance_real = node.advance_real
        self.warm = node.warm
        self.chores = node.chores

    def route(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> None:
        self._server.cluster_connections.add(connection)
        self._server.routed += 1
        self._node.route(frame, connection, now, real_ms)

    def closed(self, connection: Connection) -> None:
        self._server.cluster_connections.discard(connection)
        self._node.closed(connection)
