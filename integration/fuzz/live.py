"""A whole kshim in this process, on its own thread, so that a test can count its tasks and connections."""

from __future__ import annotations

import secrets
import threading
import traceback
import uuid
from collections.abc import Mapping
from functools import partial
from types import TracebackType

import trio

from kshim.broker.cluster import Cluster, RandomIds
from kshim.broker.connection import Connection
from kshim.broker.node import Node
from kshim.broker.router import Router
from kshim.broker.sasl_authenticator import SaslAuthenticator
from kshim.cli.listening import limits_of
from kshim.config.broker_config import BrokerConfig
from kshim.config.listeners import Listener, listeners_of, plain_listener
from kshim.coordinator.step import Now
from kshim.security.authentication.settings import Randomness, sasl_listeners
from kshim.server.clock import RealClock
from kshim.server.random_ids import new_nonce, new_salt
from kshim.server.server import LoopName, Server, serve
from kshim.server.tls_context import tls_transport_layers
from kshim.storage.stores import MemoryStorage


class LiveServer:
    """`with LiveServer() as server:` serves from memory on free loopback ports; leaving stops it gracefully.

    `config` holds Kafka's keys. With `listeners` the first node has those, in plain text, with TLS or with SASL; other
    nodes have a plain one each.
    """

    def __init__(
        self,
        *,
        loop: LoopName = "auto",
        config: Mapping[str, str] | None = None,
        topics: Mapping[str, int] | None = None,
        node_count: int = 1,
    ) -> None:
        self.defects: list[str] = []
        """What the broker and the server called unexpected."""
        self.routed = 0
        """Frames that reached the router."""
        self.refused = 0
        """Connections that the server closed for what came over them."""
        self.addresses: dict[str, tuple[str, int]] = {}
        """Where the listeners of the first node listen, by name."""
        self.nodes: dict[int, tuple[str, int]] = {}
        """Where the first listener of each node listens, by node id."""
        self._loop = loop
        self._config = BrokerConfig(config or {})
        self._topics = topics or {}
        self._node_count = node_count
        self._known: set[Connection] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kshim", daemon=True)

    def __enter__(self) -> LiveServer:
        self._thread.start()
        assert self._ready.wait(30), "the server did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        trio.from_thread.run_sync(self._server.stop, trio_token=self._token)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server did not stop"

    def tasks(self) -> int:
        """Living trio tasks of the server's thread."""
        return trio.from_thread.run_sync(
            lambda: trio.lowlevel.current_statistics().tasks_living, trio_token=self._token
        )

    def connections(self) -> int:
        """Connections that sent a frame and are still open."""
        return len(self._known)

    def closing(self, client_host: str, reason: str) -> None:
        """`ServerLog`: damaged frames are expected to end connections."""
        self.refused += 1

    def failed(self, what: str, error: Exception) -> None:
        """`ServerLog`: nothing of ours may fail."""
        self.defects.append(f"{what}: " + "".join(traceback.format_exception(error)))

    def turn_begins(self) -> None:
        """`ServerLog`: nothing is written."""

    def turn_ends(self) -> None:
        """`ServerLog`: nothing is written."""

    def _defect(self, error: BaseException, request: object) -> None:
        self.defects.append(f"{request!r:.2000}: " + "".join(traceback.format_exception(error)))

    def _run(self) -> None:
        trio.run(self._main)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        clock = RealClock()
        cluster = Cluster(
            self._config,
            MemoryStorage(),
            RandomIds(lambda: str(uuid.uuid4()), lambda: secrets.token_bytes(16)),
            cluster_id="fuzz-cluster",
            on_defect=self._defect,
            node_count=self._node_count,
        )
        for name, partition_count in self._topics.items():
            cluster.create_topic(name, partition_count)
        plain = plain_listener("127.0.0.1", 0)
        listeners = listeners_of(self._config) if "listeners" in self._config.given else (plain,)
        routers = [Router(Node(cluster, node_id, plain.host, 0)) for node_id in cluster.leadership.node_ids]
        self._guard(routers[0], listeners)
        for router in routers:
            self._watch(router)
        cluster.start(clock.now)
        async with trio.open_nursery() as nursery:
            self._server: Server = await nursery.start(
                partial(
                    serve,
                    routers[0],
                    listeners=listeners,
                    others=[(router, (plain,)) for router in routers[1:]],
                    transport_layers=tls_transport_layers(listeners, self._config),
                    limits=limits_of(self._config, listeners),
                    clock=clock,
                    loop=self._loop,
                    log=self,
                )
            )
            self._know_addresses([router.node for router in routers], listeners)
            self._ready.set()
        cluster.close()

    def _guard(self, router: Router, listeners: tuple[Listener, ...]) -> None:
        names = [listener.name for listener in listeners if listener.has_sasl]
        if names:
            credentials = router.node.cluster.scram_credentials
            SaslAuthenticator(
                router, sasl_listeners(self._config, names, [], credentials, Randomness(new_salt, new_nonce))
            )

    def _know_addresses(self, nodes: list[Node], listeners: tuple[Listener, ...]) -> None:
        bound = self._server.addresses
        firsts = (bound[0], *bound[len(listeners) :])
        self.addresses = {listener.name: address for listener, address in zip(listeners, bound, strict=False)}
        for node, address in zip(nodes, firsts, strict=True):
            node.host, node.port = self.nodes[node.node_id] = address
        nodes[0].addresses.update(self.addresses)

    def _watch(self, router: Router) -> None:
        """Count its frames, and keep a register of the connections it saw and was not told to be closed."""
        route, closed = router.route, router.closed

        def watched_route(frame: bytes, connection: Connection, now: Now, real_ms: int) -> None:
            self._known.add(connection)
            self.routed += 1
            route(frame, connection, now, real_ms)

        def watched_closed(connection: Connection) -> None:
            self._known.discard(connection)
            closed(connection)

        router.route = watched_route
        router.closed = watched_closed  # type: ignore[method-assign]
