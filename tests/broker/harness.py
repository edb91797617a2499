"""A node without sockets or clocks: requests go in as frames, replies come out decoded, time passes when told.

    node = a_node(topics={"orders": 2})
    client = node.client()
    reply = client.ask(ListOffsetsRequest(...), version=7)      # answered at once
    client.send(FetchRequest(...))                              # parked
    assert client.is_waiting
    node.pass_ms(500)
    reply = client.take(FetchResponse)

A defect (an exception of our own inside a handler) fails the test in which it happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kshim.broker.client_activity import ConnectedClient
from kshim.broker.cluster import Cluster, RandomIds
from kshim.broker.connection import ANONYMOUS
from kshim.broker.node import Node
from kshim.broker.router import Router
from kshim.config.broker_config import BrokerConfig
from kshim.config.listeners import SecurityProtocol
from kshim.coordinator.step import Now
from kshim.partitions.durability import FsyncPolicy
from kshim.partitions.partition import Topic
from kshim.scheduling.background_tasks import run_task
from kshim.storage.directory import DataDirectory
from kshim.storage.log import Log
from kshim.storage.os_calls import OsCalls
from kshim.storage.storage import Storage
from kshim.storage.stores import DirectoryStorage, MemoryStorage
from kshim_protocol.apis import API_TABLE, Api
from kshim_protocol.codec import codec
from kshim_protocol.frame import build_request_frame
from kshim_protocol.schema import Request, Struct

if TYPE_CHECKING:
    from kshim.recording.recorder import Recorder

R = TypeVar("R", bound=Struct)

CONFIG: dict[str, str] = {}
"""What nodes are configured with unless a test says otherwise; see `at_both_levels` in conftest.py."""
START_MONO_MS = 1_000_000
START_REAL_MS = 5_000_000
START_WALL_MS = 1_700_000_000_000
CLUSTER_ID = "dGVzdC1jbHVzdGVyLWlkMA"


class NoReply:
    """What stands in the replies of a client for a request that ended without one (Produce with acks=0)."""


def files_in(path: Path, calls: OsCalls | None = None) -> DirectoryStorage:
    """A storage in a directory; made anew over the same path after `close`, it is what a restarted broker finds."""
    return DirectoryStorage(DataDirectory.open(str(path), cluster_id=CLUSTER_ID, node_id=1, calls=calls))


class Client:
    """One client connection. Implements the broker's `Connection`."""

    def __init__(
        self,
        node: NodeUnderTest,
        client_id: str | None,
        client_host: str,
        *,
        listener_name: str = "PLAINTEXT",
        security_protocol: SecurityProtocol = "PLAINTEXT",
        node_id: int = 1,
    ) -> None:
        self.node_id = node_id
        self.client_host = client_host
        self.client_port = 40_000
        self.listener_name = listener_name
        self.security_protocol: SecurityProtocol = security_protocol
        self.principal = ANONYMOUS
        self.is_authenticated = not security_protocol.startswith("SASL")
        self.client_id = client_id
        self.is_closed = False
        self.client = ConnectedClient()
        self.hung_up: str | None = None
        """Why the broker ended this connection, not from inside `route`."""
        self.unread: deque[Struct | NoReply] = deque()
        self._node = node
        self._correlation_ids = count(1)
        self._asked: deque[tuple[int, Api, int]] = deque()

    def send(self, request: Request[Any], version: int | None = None, *, client_id: str | None = None) -> None:
        """Route one request, in the newest version of its API unless told. A reply can be taken later."""
        api = api_of(request)
        version = api.max_version if version is None else version
        correlation_id = next(self._correlation_ids)
        self._asked.append((correlation_id, api, version))
        frame = build_request_frame(
            api.key,
            version,
            correlation_id,
            client_id or self.client_id,
            codec(type(request), version).build(request),
            flexible=api.is_flexible(version),
        )
        self._node.route(frame[4:], self)

    def ask(self, request: Request[R], version: int | None = None, *, client_id: str | None = None) -> R:
        """Route one request that is answered at once, and return the decoded answer."""
        assert not self._asked, "an earlier request is not answered"
        assert not self.unread, "the answer to an earlier request was not taken"
        self.send(request, version, client_id=client_id)
        assert not self.is_waiting, f"{type(request).__name__} is parked"
        reply = self.unread.popleft()
        assert not isinstance(reply, NoReply), f"{type(request).__name__} ended without a reply"
        return reply  # type: ignore[return-value]

    def take(self, response_class: type[R]) -> R:
        """The oldest reply not looked at yet."""
        assert self.unread, "no reply"
        reply = self.unread.popleft()
        assert isinstance(reply, response_class), f"not a {response_class.__name__}: {reply!r}"
        return reply

    @property
    def is_waiting(self) -> bool:
        """True while a request is parked."""
        return bool(self._asked)

    def close(self) -> None:
        """The peer goes away."""
        self.is_closed = True
        self._asked.clear()
        self._node.nodes[self.node_id].closed(self)

    def hang_up(self, reason: str) -> None:
        """See `Connection.hang_up`."""
        self.hung_up = reason

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        """See `Connection.reply`."""
        assert not self.is_closed, "a reply to a closed connection"
        assert self.hung_up is None, "a reply after the end"
        assert self._asked, "a reply nobody waits for"
        correlation_id, api, version = self._asked.popleft()
        if frame is None:
            self.unread.append(NoReply())
            return
        frame = b"".join((frame, *rest))
        flexible = api.is_flexible(version) and api.name != "ApiVersions"
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert int.from_bytes(frame[4:8], "big") == correlation_id
        assert not flexible or frame[8] == 0
        response, end = codec(api.response_class(), version).parse(frame, 9 if flexible else 8)
        assert end == len(frame), f"{len(frame) - end} bytes after the response"
        self.unread.append(response)


class NodeUnderTest:
    """One node over a cluster of its own. `events`, `defects` and `corrupt` collect what it reports.

    `nodes` holds the routers of all by id, where there are several; `node` is that of the first. Stopping one closes its clients.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        storage: Storage,
        *,
        host: str,
        port: int,
        fsync: FsyncPolicy,
        tolerates_defects: bool,
        node_count: int = 1,
        record: Callable[[bytes], object] | None = None,
    ) -> None:
        self.mono_ms = START_MONO_MS
        self.wall_ms = START_WALL_MS
        self.real_ms = START_REAL_MS
        self.events: list[Any] = []
        self.defects: list[BaseException] = []
        self.corrupt: list[BaseException] = []
        self._tolerates_defects = tolerates_defects
        self._member_numbers = count(1)
        # Not those of an earlier run over the same files.
        self.topic_numbers = count(1 + 1000 * len(list(storage.load_topics())))
        self.storage = storage
        random_ids = RandomIds(
            lambda: f"00000000-0000-4000-8000-{next(self._member_numbers):012x}",
            lambda: next(self.topic_numbers).to_bytes(6, "big") + bytes(10),
        )
        self.recorder: Recorder | None = None
        if record is not None:
            from kshim.recording.recorder import Recorder

            self.recorder = Recorder(record, now=lambda: self.now, real_ms=lambda: self.real_ms)
            random_ids = self.recorder.random_ids(random_ids)
        self.cluster = Cluster(
            BrokerConfig(config),
            storage,
            random_ids,
            cluster_id=CLUSTER_ID,
            fsync=fsync,
            on_event=self.events.append,
            on_defect=self._on_defect,
            on_corrupt=self.corrupt.append,
            node_count=node_count,
        )
        self._clients: list[Client] = []
        self.nodes = {
            node_id: Router(Node(self.cluster, node_id, host, port + node_id - 1))
            for node_id in range(1, 1 + node_count)
        }
        self.cluster.start(lambda: self.now)
        if self.recorder is not None:
            for router in self.nodes.values():
                self.recorder.stand_before(router)
            self.recorder.begin(self.cluster)
        self.node = self.nodes[1]
        for node_id, node in self.nodes.items():
            node.on_stop = partial(self._cut_off, node_id)

    @property
    def now(self) -> Now:
        """The group clock."""
        return Now(self.mono_ms, self.wall_ms)

    def client(
        self,
        client_id: str | None = "tester",
        client_host: str = "/127.0.0.1",
        *,
        listener_name: str = "PLAINTEXT",
        security_protocol: SecurityProtocol = "PLAINTEXT",
        node_id: int = 1,
    ) -> Client:
        """A new connection."""
        client = Client(
            self,
            client_id,
            client_host,
            listener_name=listener_name,
            security_protocol=security_protocol,
            node_id=node_id,
        )
        if len(self.nodes) > 1:
            self._clients.append(client)
        return client

    def _cut_off(self, node_id: int) -> None:
        for client in self._clients:
            if client.node_id == node_id and not client.is_closed:
                client.close()

    def topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Topic:
        """A new topic."""
        return self.cluster.create_topic(name, partitions, dict(configs or {}))

    def log(self, topic: str, partition: int = 0) -> Log:
        """The log of a partition."""
        found = self.cluster.topics.partition(topic, partition)
        assert found is not None, f"no {topic}-{partition}"
        return found.log

    def route(self, frame: bytes, client: Client) -> None:
        """A frame without its size arrives. Raises ConnectionClosing."""
        self.nodes[client.node_id].route(frame, client, self.now, self.real_ms)

    def pass_ms(self, ms: int) -> None:
        """Let time pass on all clocks; timers fire in order, each at its own instant."""
        left_ms = ms
        turns_in_place = 0
        while (wait_ms := self._ms_to_next_timer()) is not None and wait_ms <= left_ms:
            turns_in_place = 0 if wait_ms else turns_in_place + 1
            assert turns_in_place < 100, "a timer that is due stays due"
            self._move(wait_ms)
            left_ms -= wait_ms
            self.node.advance(self.now)
            self.node.advance_real(self.real_ms)
        self._move(left_ms)

    def warm_up(self) -> None:
        """Do all the work of idle turns: load shards, compile codecs."""
        self.run_background_tasks()
        while self.node.warm_up():
            pass

    def run_background_tasks(self) -> None:
        """Do everything that waits to be done besides answering, jobs included."""
        while (task := self.node.background_tasks.next_urgent() or self.node.background_tasks.next()) is not None:
            run_task(task)

    def close(self) -> None:
        """Close the logs."""
        self.cluster.close()

    def _move(self, ms: int) -> None:
        self.mono_ms += ms
        self.wall_ms += ms
        self.real_ms += ms

    def _ms_to_next_timer(self) -> int | None:
        group, real = self.node.next_deadline(), self.node.next_real_deadline()
        waits = [] if group is None else [group - self.mono_ms]
        if real is not None:
            waits.append(real - self.real_ms)
        return max(min(waits), 0) if waits else None

    def _on_defect(self, error: BaseException, request: object) -> None:
        self.defects.append(error)
        if not self._tolerates_defects:
            raise error


def a_node(
    config: Mapping[str, str] | None = None,
    *,
    topics: Mapping[str, int] | None = None,
    storage: Storage | None = None,
    host: str = "127.0.0.1",
    port: int = 9092,
    fsync: FsyncPolicy = "never",
    tolerates_defects: bool = False,
    node_count: int = 1,
    record: Callable[[bytes], object] | None = None,
) -> NodeUnderTest:
    """A node with Kafka's own configuration keys and the topics (name: partitions) asked for; in memory by default.

    `record` takes the bytes of a recording.
    """
    node = NodeUnderTest(
        {**CONFIG, **(config or {})},
        storage or MemoryStorage(),
        host=host,
        port=port,
        fsync=fsync,
        tolerates_defects=tolerates_defects,
        node_count=node_count,
        record=record,
    )
    for name, partitions in (topics or {}).items():
        node.topic(name, partitions)
    return node


def api_of(request: Request[Any]) -> Api:
    """The API of a request."""
    key = type(request).info.api_key
    assert key is not None
    return API_TABLE[key]
