"""A Fetch of the usual shape takes a short way: the same answers, waits and sessions as by its handler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.broker.request import FETCH
from kshim.partitions.partition import Partition
from kshim.partitions.transaction_markers import append_marker
from kshim.storage.log import LogError
from kshim_protocol.codec import codec
from kshim_protocol.messages.fetch import FetchResponse, ForgottenTopic
from tests.broker.data_plane import a_batch, fetch_of, produce_of
from tests.broker.harness import NodeUnderTest, a_node
from tests.broker.pair import Pair, frame_of

VERSIONS = range(12, 19)
TOPICS = {"orders": 2, "clicks": 1}
NO_SESSION = (0, -1)
UNKNOWN_ID = bytes(15) + b"\x7f"
TRANSACTIONAL: dict[str, Any] = {"base_sequence": 0, "producer_id": 7, "producer_epoch": 0, "is_transactional": True}


class Consumers:
    """Connections that fetch, each from a session of its own where it has begun one."""

    def __init__(self, connections: int = 3) -> None:
        self.pair = Pair(TOPICS, connections=connections)
        self.sessions = [NO_SESSION] * connections
        self.waiting: dict[int, int] = {}
        """The version of what waits, by connection."""
        for index in range(2):
            self.append(index, b"first")

    def where(self, name: str, version: int) -> str | bytes:
        if version < 13:
            return name
        return self.pair.nodes[0].cluster.topics.topic_id(name) or UNKNOWN_ID

    def request(self, connection: int, *places: tuple[str, int, int], version: int = 16, **options: Any) -> Any:
        """Of a session where there is one."""
        named = [(self.where(name, version), index, offset) for name, index, offset in places]
        session_id, session_epoch = self.sessions[connection]
        options = {"session_id": session_id, "session_epoch": session_epoch, "max_wait_ms": 500, **options}
        return fetch_of(*named, **options)

    def send(self, connection: int, frame: bytes, version: int = 16) -> None:
        self.waiting[connection] = version
        self.pair.send(frame, connection)
        self.look_at_answers()

    def fetch(self, connection: int, *places: tuple[str, int, int], version: int = 16, **options: Any) -> None:
        self.send(connection, frame_of(self.request(connection, *places, version=version, **options), version), version)

    def do(self, act: Callable[[NodeUnderTest], object]) -> None:
        self.pair.do(act)
        self.look_at_answers()

    def append(self, index: int, *values: bytes, topic: str = "orders", **options: Any) -> None:
        self.do(lambda node: partition_of(node, topic, index).append(a_batch(*values, **options), node.wall_ms))

    def look_at_answers(self) -> None:
        for connection, version in list(self.waiting.items()):
            frames = self.pair.clients(connection)[0].frames
            if frames and (answer := frames[0]) is not None:
                del self.waiting[connection]
                response: FetchResponse = codec(FetchResponse, version).parse(answer, 9)[0]
                epoch = self.sessions[connection][1]
                self.sessions[connection] = (response.session_id, epoch + 1) if response.session_id else NO_SESSION

    def begin_session(self, connection: int, *places: tuple[str, int, int], version: int = 16) -> None:
        self.sessions[connection] = (0, 0)
        self.fetch(connection, *places, version=version, max_wait_ms=0)
        assert self.sessions[connection] != NO_SESSION

    def close(self, connection: int) -> None:
        for node, client in zip(self.pair.nodes, self.pair.clients(connection), strict=True):
            node.node.closed(client)
        self.waiting.pop(connection, None)

    def takes_short_way(
        self, connection: int, *places: tuple[str, int, int], version: int = 16, **options: Any
    ) -> bool:
        """Whether the next request of a connection would; the second node then has it handled, too."""
        frame = frame_of(self.request(connection, *places, version=version, **options), version)
        node, client = self.pair.nodes[0], self.pair.clients(connection)[0]
        route = node.node.resolve(FETCH, version)
        assert route is not None
        assert route.usual is not None
        if not route.usual(frame, client, node.now, node.real_ms):
            return False
        self.pair.nodes[1].route(frame, self.pair.clients(connection)[1])
        self.waiting[connection] = version
        return True


def partition_of(node: NodeUnderTest, topic: str = "orders", index: int = 0) -> Partition:
    found = node.cluster.topics.partition(topic, index)
    assert found is not None
    return found


def delete_before(offset: int, node: NodeUnderTest) -> None:
    partition_of(node).delete_before(offset)


def end_transaction(node: NodeUnderTest, *, commit: bool) -> None:
    append_marker(
        partition_of(node),
        producer_id=7,
        producer_epoch=0,
        is_commit=commit,
        coordinator_epoch=0,
        now_ms=node.wall_ms,
    )


def delete_topic(node: NodeUnderTest, name: str = "orders") -> None:
    topic = node.cluster.topics.named(name)
    assert topic is not None
    node.cluster.topics.delete_all([topic])


def sometimes(draw: Callable[[Any], Any], usual: Any, *others: Any) -> Any:
    return draw(st.sampled_from([usual] * 6 + list(others)))


@given(st.data())
def test_any_requests_are_answered_as_by_the_handler(data: st.DataObject) -> None:
    draw = data.draw
    consumers = Consumers()
    is_open = False
    version = draw(st.sampled_from(VERSIONS))
    for _ in range(draw(st.integers(3, 20))):
        connection = draw(st.integers(0, 2))
        what = draw(st.sampled_from(["fetch"] * 8 + ["append"] * 3 + ["begin", "time", "transaction", "trim", "epoch"]))
        end_offset = consumers.pair.nodes[0].log("orders").end_offset
        if what == "append":
            consumers.append(draw(st.integers(0, 1)), *draw(st.sampled_from([(b"1",), (b"1", b"2"), (b"x" * 20_000,)])))
        elif what == "time":
            consumers.do(lambda node: node.pass_ms(200))
        elif what == "trim":
            consumers.do(partial(delete_before, end_offset))
        elif what == "epoch":
            consumers.do(lambda node: partition_of(node).begin_epoch(1, preferred_id=1))
        elif what == "transaction" and is_open:
            consumers.do(partial(end_transaction, commit=draw(st.booleans())))
            is_open = False
        elif what == "transaction" and end_offset < 5:
            consumers.append(0, b"7", **TRANSACTIONAL)
            is_open = True
        elif connection in consumers.waiting:
            if draw(st.booleans()):
                consumers.close(connection)
        else:
            if what == "begin":
                consumers.sessions[connection] = (0, 0)
            where = (
                sometimes(draw, "orders", "clicks", "nothing"),
                sometimes(draw, 0, 1, 2, -1),
                draw(st.sampled_from([0, 1, end_offset, end_offset, end_offset, end_offset + 1, -1])),
            )
            session = consumers.sessions[connection]
            is_named = session[1] <= 0 or draw(st.booleans())
            options: dict[str, Any] = {}
            if sometimes(draw, 0, 1):
                options["rack_id"] = "rack"
            if sometimes(draw, 0, 1):
                options["forgotten_topics_data"] = (
                    ForgottenTopic(topic="orders", topic_id=consumers.where("orders", 13), partitions=(0,)),  # type: ignore[arg-type]
                )
            request = consumers.request(
                connection,
                *([where] if is_named else []),
                *sometimes(draw, [], [("orders", 1, 0)]),
                version=version,
                max_wait_ms=sometimes(draw, 500, 0, -1),
                min_bytes=sometimes(draw, 1, 0, -1, 100, 1_000_000),
                max_bytes=sometimes(draw, 2**31 - 1, 100, 1, 0, -1),
                partition_max_bytes=sometimes(draw, 2**20, 100, 0, -1),
                isolation_level=draw(st.sampled_from([0, 0, 1, 1, 2])),
                partition={
                    "current_leader_epoch": sometimes(draw, -1, 0, 1),
                    "last_fetched_epoch": sometimes(draw, -1, 0),
                },
                **options,
            )
            if sometimes(draw, 0, 1):
                request.session_epoch += 1
            frame = frame_of(request, version, sometimes(draw, "tester", "", "é" * 40, None), draw(st.integers(-1, 5)))
            if sometimes(draw, 0, 1):
                changed = bytearray(frame)
                changed[draw(st.integers(8, len(frame) - 1))] = draw(st.sampled_from([0, 1, 2, 127, 128, 255]))
                frame = bytes(changed)
            consumers.send(connection, frame + sometimes(draw, b"", b"\0"), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_without_a_session_goes_the_short_way_from_its_second_request_on(version: int) -> None:
    consumers = Consumers()
    consumers.fetch(0, ("orders", 0, 0), version=version)
    for offset in range(1, 4):
        assert consumers.takes_short_way(0, ("orders", 0, offset), version=version)
        assert 0 in consumers.waiting
        consumers.append(0, b"next")
        assert 0 not in consumers.waiting


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_of_one_partition_goes_on_the_short_way_whether_it_names_the_partition_or_not(version: int) -> None:
    consumers = Consumers()
    consumers.begin_session(0, ("orders", 0, 0), version=version)
    for offset in range(1, 4):
        assert consumers.takes_short_way(0, ("orders", 0, offset), version=version)
        consumers.do(lambda node: node.pass_ms(500))
        assert consumers.takes_short_way(0, version=version)
        consumers.append(0, b"next")
    consumers.fetch(0, version=version)


def test_a_session_is_asked_for_what_it_holds_now() -> None:
    consumers = Consumers()
    consumers.begin_session(0, ("orders", 0, 1))
    consumers.fetch(0, max_wait_ms=0)
    consumers.fetch(0, ("orders", 1, 0), max_wait_ms=0)
    assert not consumers.takes_short_way(0, max_wait_ms=0)
    assert not consumers.takes_short_way(0, ("orders", 1, 0), max_wait_ms=0)
    consumers.fetch(0, max_wait_ms=0)
    forgotten = ForgottenTopic(topic_id=consumers.where("orders", 16), partitions=(0,))  # type: ignore[arg-type]
    consumers.fetch(0, forgotten_topics_data=(forgotten,), max_wait_ms=0)
    assert consumers.takes_short_way(0, max_wait_ms=0)


def test_a_session_that_has_ended_is_refused_by_the_handler() -> None:
    consumers = Consumers()
    consumers.begin_session(0, ("orders", 0, 1))
    consumers.fetch(0)
    ended = consumers.sessions[0]
    consumers.sessions[1] = (ended[0], 0)  # a full request that ends it
    consumers.fetch(1, ("orders", 0, 1), max_wait_ms=0)
    consumers.append(0, b"next")
    assert not consumers.takes_short_way(0)
    consumers.fetch(0)


def test_what_has_waited_while_its_topic_was_deleted_is_answered_as_by_the_handler() -> None:
    for connections in (1, 3):
        consumers = Consumers(connections)
        consumers.fetch(0, ("orders", 0, 0))
        assert consumers.takes_short_way(0, ("orders", 0, 1))
        consumers.do(delete_topic)
        assert not consumers.waiting
        assert not consumers.takes_short_way(0, ("orders", 0, 1))


def test_what_has_waited_in_a_session_while_its_topic_was_made_again_is_answered_as_by_the_handler() -> None:
    for version in (12, 16):
        consumers = Consumers()
        consumers.begin_session(0, ("orders", 0, 0), version=version)
        consumers.fetch(0, ("orders", 0, 1), version=version, max_wait_ms=0)
        assert consumers.takes_short_way(0, version=version)
        consumers.do(delete_topic)
        consumers.do(lambda node: node.topic("orders", 2))
        consumers.fetch(0, version=version, max_wait_ms=0)


def test_what_has_waited_while_a_transaction_began_ends_where_it_does() -> None:
    consumers = Consumers()
    for connection in (0, 1):
        consumers.fetch(connection, ("orders", 0, 0), isolation_level=connection)
        assert consumers.takes_short_way(connection, ("orders", 0, 1), isolation_level=connection)
    consumers.append(0, b"7", **TRANSACTIONAL)
    assert list(consumers.waiting) == [1]
    consumers.do(lambda node: end_transaction(node, commit=False))
    assert not consumers.waiting
    assert not consumers.takes_short_way(1, ("orders", 0, 3), isolation_level=1)
    assert consumers.takes_short_way(0, ("orders", 0, 3), isolation_level=0)


def test_what_has_waited_while_the_leader_changed_is_answered_as_by_the_handler() -> None:
    consumers = Consumers()
    consumers.fetch(0, ("orders", 0, 0))
    assert consumers.takes_short_way(0, ("orders", 0, 1))

    def move(node: NodeUnderTest) -> None:
        partition_of(node).begin_epoch(2, preferred_id=2)
        partition_of(node).release_fetches()

    consumers.do(move)
    assert not consumers.waiting
    assert not consumers.takes_short_way(0, ("orders", 0, 1))


@pytest.mark.parametrize("error", [LogError("the disk is gone"), ValueError("a defect")])
def test_what_cannot_be_read_is_answered_and_reported_as_by_the_handler(error: Exception) -> None:
    consumers = Consumers()
    consumers.fetch(0, ("orders", 0, 0))
    assert consumers.takes_short_way(0, ("orders", 0, 1))

    def fail(offset: int, max_bytes: int, *, at_least_one_batch: bool = True) -> bytes:
        raise error

    for node in consumers.pair.nodes:
        node.log("orders").read = fail  # type: ignore[method-assign]
    consumers.append(0, b"next")
    assert not consumers.waiting
    assert [len(node.defects) for node in consumers.pair.nodes] == [1, 1]
    consumers.fetch(0, ("orders", 0, 1))


def test_what_a_producer_writes_in_one_request_is_seen_as_a_whole() -> None:
    consumers = Consumers()
    consumers.fetch(0, ("orders", 0, 0))
    assert consumers.takes_short_way(0, ("orders", 0, 1))
    consumers.pair.send(frame_of(produce_of("orders", a_batch(b"1"), a_batch(b"2")), 9), 1)
    assert consumers.pair.clients(0)[0].frames


def test_a_connection_that_has_gone_knows_no_partition_any_more() -> None:
    consumers = Consumers()
    consumers.fetch(0, ("orders", 0, 0), max_wait_ms=0)
    assert consumers.takes_short_way(0, ("orders", 0, 0), max_wait_ms=0)
    client = consumers.pair.clients(0)[0].client
    assert client.last_fetch is not None
    client.closed("client")
    assert client.last_fetch is None


def test_long_requests_are_not_kept() -> None:
    consumers = Consumers()
    request = consumers.request(0, ("orders", 0, 0), max_wait_ms=0)
    for _ in range(2):
        consumers.send(0, frame_of(request, 16, "c" * 2_000))
    assert consumers.pair.clients(0)[0].client.last_fetch is None


def test_only_where_nobody_wants_to_hear_of_requests_it_exists() -> None:
    node = a_node().node
    assert node.resolve(FETCH, 12).usual is not None  # type: ignore[union-attr]
    assert node.resolve(FETCH, 11).usual is None  # type: ignore[union-attr]
    node.intercept(lambda api, handler: handler)
    assert node.resolve(FETCH, 12).usual is None  # type: ignore[union-attr]
