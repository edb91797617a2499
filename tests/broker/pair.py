"""Two nodes that are asked the same, to compare a short way of requests with their handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kshim.broker.connection import ConnectionClosing
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import build_request_frame
from kshim_protocol.schema import Request, Struct
from tests.broker.harness import Client, NodeUnderTest, a_node, api_of

R = TypeVar("R", bound=Struct)


class RawClient(Client):
    """Keeps the frames it is answered with."""

    def __init__(self, node: NodeUnderTest) -> None:
        super().__init__(node, "tester", "/127.0.0.1")
        self.frames: list[bytes | None] = []
        self.owed_count = 0

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        self.owed_count -= 1
        self.frames.append(frame if frame is None else b"".join((frame, *rest)))


class Pair:
    """One goes the short way where it can, the other's handlers are intercepted."""

    def __init__(
        self,
        topics: Mapping[str, int],
        configs: Mapping[str, Mapping[str, str]] | None = None,
        *,
        connections: int = 1,
        node_count: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.nodes = [a_node(config, tolerates_defects=True, node_count=node_count) for _ in range(2)]
        self.nodes[1].node.intercept(lambda api, handler: handler)
        for node in self.nodes:
            for name, partitions in topics.items():
                node.topic(name, partitions, (configs or {}).get(name))
        self._connections = [[RawClient(node) for node in self.nodes] for _ in range(connections)]

    def clients(self, connection: int = 0) -> list[RawClient]:
        """The two ends of what stands for one connection."""
        return self._connections[connection]

    def is_waiting(self, connection: int = 0) -> bool:
        """Whether a request that was sent has no answer yet; a client sends no other until then."""
        return self.clients(connection)[0].owed_count > 0

    def send(self, frame: bytes, connection: int = 0) -> list[bytes | None]:
        """What the first answers, which the second has to answer, too; to requests that have waited as well."""
        closings = []
        for node, client in zip(self.nodes, self.clients(connection), strict=True):
            for clients in self._connections:
                clients[self.nodes.index(node)].frames.clear()
            client.owed_count += 1
            try:
                node.route(frame, client)
                closings.append("")
            except ConnectionClosing as closing:
                closings.append(str(closing))
        assert closings[0] == closings[1]
        for clients in self._connections:
            assert clients[0].frames == clients[1].frames
        self._assert_alike()
        return self.clients(connection)[0].frames

    def ask(self, request: Request[R], version: int, connection: int = 0) -> R | None:
        """The same with messages; None for what waits."""
        frame = frame_of(request, version)
        frames = self.send(frame, connection)
        if not frames:
            return None
        (answer,) = frames
        assert answer is not None
        api = api_of(request)
        return codec(api.response_class(), version).parse(answer, 9 if api.is_flexible(version) else 8)[0]  # type: ignore[return-value]

    def pass_ms(self, ms: int) -> None:
        """Time passes for both."""
        self.do(lambda node: node.pass_ms(ms))

    def do(self, act: Callable[[NodeUnderTest], object]) -> None:
        """Something happens to both; requests that have waited are answered alike."""
        for clients in self._connections:
            for client in clients:
                client.frames.clear()
        for node in self.nodes:
            act(node)
        for clients in self._connections:
            assert clients[0].frames == clients[1].frames
        self._assert_alike()

    def unload(self, group_id: str) -> None:
        """The shard of a group is not there any more."""
        for node in self.nodes:
            coordinator = node.cluster.coordinators[OFFSETS_TOPIC].coordinator
            node.cluster.steps.apply(coordinator.unload(coordinator.partition_for(group_id), ErrorCode.NOT_COORDINATOR))

    def takes_short_way(self, frame: bytes) -> bool:
        """Whether the first handles it so; then it was."""
        node = self.nodes[0]
        route = node.node.resolve(frame[1], frame[3])
        assert route is not None
        assert route.usual is not None
        return route.usual(frame, self.clients()[0], node.now, node.real_ms)

    def assert_same_logs(self) -> None:
        """What they have written."""
        for topic in self.nodes[0].cluster.topics:
            for partition in topic.partitions:
                stored = [node.log(topic.name, partition.index).read(0, 1 << 30) for node in self.nodes]
                assert stored[0] == stored[1], topic.name

    def _assert_alike(self) -> None:
        one, other = self.nodes
        assert [type(defect) for defect in one.defects] == [type(defect) for defect in other.defects]
        assert one.node.next_deadline() == other.node.next_deadline()
        assert one.node.next_real_deadline() == other.node.next_real_deadline()
        assert one.events == other.events


def frame_of(request: Request[Any], version: int, client_id: str | None = "tester", correlation_id: int = 7) -> bytes:
    """A request's frame without its size."""
    api = api_of(request)
    body = codec(type(request), version).build(request)
    flexible = api.is_flexible(version)
    return build_request_frame(api.key, version, correlation_id, client_id, body, flexible=flexible)[4:]
