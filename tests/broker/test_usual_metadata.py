"""A Metadata request for topics that exist takes a short way: the same answers as by its handler, whatever has changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.broker.handlers.topics.usual_metadata import UsualMetadata
from kshim.broker.request import METADATA
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.schema import ZERO_UUID
from tests.broker.harness import NodeUnderTest, a_node
from tests.broker.pair import Pair, RawClient, frame_of

VERSIONS = range(14)
TOPICS = {"orders": 3, "clicks": 1}
UNKNOWN_ID = bytes(15) + b"\x7f"


def a_pair(node_count: int = 1) -> Pair:
    return Pair(TOPICS, node_count=node_count)


def of_names(*names: str | None, makes: bool = False, **options: Any) -> MetadataRequest:
    topics = tuple(MetadataRequestTopic(name=name) for name in names)
    return MetadataRequest(topics=topics, allow_auto_topic_creation=makes, **options)


def create(name: str, node: NodeUnderTest) -> None:
    if name not in node.cluster.topics:
        node.topic(name, 2)


def delete(name: str, node: NodeUnderTest) -> None:
    topic = node.cluster.topics.named(name)
    if topic is not None:
        node.cluster.topics.delete_all([topic])


def grow(name: str, node: NodeUnderTest) -> None:
    topic = node.cluster.topics.named(name)
    if topic is not None:
        node.cluster.topics.grow(topic, len(topic.partitions) + 1)


def move(node: NodeUnderTest, to: int = 2) -> None:
    if node.cluster.topics.named("orders") is not None and to in node.cluster.leadership.live_ids:
        node.cluster.leader_election.move("orders", 0, to)


def stop(node: NodeUnderTest) -> None:
    node.cluster.leader_election.stop_node(2)


def start(node: NodeUnderTest) -> None:
    node.cluster.leader_election.start_node(2)


def advertise(node: NodeUnderTest, port: int = 1234) -> None:
    node.node.node.addresses["PLAINTEXT"] = "elsewhere", port


CHANGES: list[Callable[[NodeUnderTest], None]] = [
    partial(create, "more"),
    partial(create, "orders"),
    partial(delete, "orders"),
    partial(grow, "orders"),
    move,
    partial(move, to=1),
    stop,
    start,
    advertise,
]


@given(st.data())
def test_any_requests_are_answered_as_by_the_handler(data: st.DataObject) -> None:
    draw = data.draw
    pair = a_pair(node_count=2)
    versions = draw(st.lists(st.sampled_from(VERSIONS), min_size=1, max_size=2))
    for _ in range(draw(st.integers(1, 15))):
        if draw(st.integers(0, 3)) == 0:
            pair.do(draw(st.sampled_from(CHANGES)))
            continue
        version = draw(st.sampled_from(versions))
        name = st.sampled_from(["orders", "orders", "clicks", "more", "made", "", "not/valid"])
        names = draw(st.none() | st.lists(name if version < 10 else name | st.none(), max_size=3))
        ids = [pair.nodes[0].cluster.topics.topic_id(each or "") or UNKNOWN_ID for each in names or []]
        by_id = version >= 10 and draw(st.integers(0, 3)) == 0
        request = MetadataRequest(
            topics=None
            if names is None and version
            else tuple(
                MetadataRequestTopic(name=None if by_id else each, topic_id=topic_id if by_id else ZERO_UUID)
                for each, topic_id in zip(names or [], ids, strict=True)
            ),
            allow_auto_topic_creation=version < 4 or draw(st.booleans()),
            include_cluster_authorized_operations=8 <= version <= 10 and draw(st.booleans()),
            include_topic_authorized_operations=version >= 8 and draw(st.booleans()),
        )
        frame = frame_of(request, version, draw(st.sampled_from(["tester", "", None])), draw(st.integers(-1, 5)))
        if draw(st.integers(0, 7)) == 0:
            changed = bytearray(frame)
            changed[draw(st.integers(8, len(frame) - 1))] = draw(st.sampled_from([0, 1, 2, 127, 128, 255]))
            frame = bytes(changed)
        listener_name = draw(st.sampled_from(["PLAINTEXT", "PLAINTEXT", "INTERNAL"]))
        for client in pair.clients():
            client.listener_name = listener_name
        for _ in range(draw(st.integers(1, 2))):
            pair.send(frame)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_change_is_seen_in_the_answer_to_the_same_bytes(version: int) -> None:
    pair = a_pair(node_count=2)
    frame = frame_of(of_names("orders", "clicks", makes=version < 4), version)
    answers = [pair.send(frame)[0] for _ in range(2)]
    assert answers[0] == answers[1]
    for change in (move, partial(grow, "orders"), advertise, stop, start, move):
        assert pair.takes_short_way(frame)
        pair.do(change)
        answers.append(pair.send(frame)[0])
    assert all(one != other for one, other in pairwise(answers[1:]))
    pair.do(partial(delete, "orders"))
    assert version < 4 or not pair.takes_short_way(frame)
    pair.send(frame)


def test_listeners_have_their_own_answers() -> None:
    pair = a_pair()
    for node in pair.nodes:
        node.node.node.addresses["INTERNAL"] = "inside", 99
    frame = frame_of(of_names("orders"), 12)
    (outside,) = pair.send(frame)
    for client in pair.clients():
        client.listener_name = "INTERNAL"
    assert pair.send(frame) != [outside]
    assert pair.takes_short_way(frame)


def test_a_topic_that_is_to_be_made_and_one_that_may_not_be_are_left_to_the_handler() -> None:
    pair = a_pair()
    unknown, known = frame_of(of_names("made", "orders"), 12), frame_of(of_names("made", "orders", makes=True), 12)
    assert not pair.takes_short_way(unknown)
    pair.send(unknown)
    assert not pair.takes_short_way(known)
    pair.send(known)
    assert pair.takes_short_way(known)
    assert pair.takes_short_way(unknown)


def test_so_many_answers_are_kept_and_no_large_ones() -> None:
    node = a_node(topics=TOPICS)
    route = node.node.resolve(METADATA, 12)
    assert route is not None
    usual, client = UsualMetadata(node.node.node, route), RawClient(node)
    for number in range(200):  # what stands behind a request is ignored
        assert usual.handle(frame_of(of_names("orders"), 12) + bytes(number), client, node.now, 0)
    assert 0 < len(usual) <= 64
    node.topic("wide", 2_000)
    assert usual.handle(frame_of(MetadataRequest(topics=None), 12), client, node.now, 0)
    assert len(usual) == 0


def test_only_where_nobody_wants_to_hear_of_requests_it_exists() -> None:
    node = a_node().node
    assert node.resolve(METADATA, 12).usual is not None  # type: ignore[union-attr]
    node.intercept(lambda api, handler: handler)
    assert node.resolve(METADATA, 12).usual is None  # type: ignore[union-attr]
