"""DescribeTopicPartitions pages through topics sorted by name. Checked on a live Kafka 4.4 where not said otherwise."""

from __future__ import annotations

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from kshim_protocol.schema import ZERO_UUID
from tests.broker.harness import Client, NodeUnderTest, a_node

Page = list[tuple[str | None, list[int]]]


@pytest.fixture
def node() -> NodeUnderTest:
    return a_node(topics={"c": 1, "a": 3, "b": 2})


@pytest.fixture
def client(node: NodeUnderTest) -> Client:
    return node.client()


def ask(
    client: Client, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    return client.ask(
        DescribeTopicPartitionsRequest(
            topics=tuple(TopicRequest(name=name) for name in names),
            response_partition_limit=limit,
            cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
    )


def page_of(reply: DescribeTopicPartitionsResponse) -> Page:
    return [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in reply.topics]


def cursor_of(reply: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    cursor = reply.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_without_names_all_topics_come_sorted(client: Client) -> None:
    reply = ask(client)
    assert page_of(reply) == [("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])]
    assert reply.next_cursor is None


def test_named_topics_come_sorted_and_once(client: Client) -> None:
    assert page_of(ask(client, "c", "a", "c")) == [("a", [0, 1, 2]), ("c", [0])]


def test_a_topic_and_its_partitions_are_described_whole(node: NodeUnderTest, client: Client) -> None:
    (topic,) = ask(client, "c").topics
    assert (topic.error_code, topic.is_internal, topic.topic_authorized_operations) == (0, False, 3576)
    assert topic.topic_id == node.cluster.topics.topic_id("c")
    assert topic.partitions == (
        DescribeTopicPartitionsResponsePartition(
            error_code=0,
            partition_index=0,
            leader_id=1,
            leader_epoch=0,
            replica_nodes=(1,),
            isr_nodes=(1,),
            eligible_leader_replicas=(),
            last_known_elr=(),
            offline_replicas=(),
        ),
    )


@pytest.mark.parametrize(
    ("limit", "page", "cursor"),
    [
        (1, [("a", [0])], ("a", 1)),
        (3, [("a", [0, 1, 2])], ("b", 0)),
        (4, [("a", [0, 1, 2]), ("b", [0])], ("b", 1)),
        (6, [("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])], None),
    ],
)
def test_a_page_ends_at_the_limit_and_says_where_to_go_on(
    client: Client, limit: int, page: Page, cursor: tuple[str, int] | None
) -> None:
    reply = ask(client, limit=limit)
    assert (page_of(reply), cursor_of(reply)) == (page, cursor)


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_pages_together_hold_every_partition_once(client: Client, limit: int) -> None:
    seen: list[tuple[str | None, int]] = []
    cursor: tuple[str, int] | None = None
    while True:
        reply = ask(client, limit=limit, cursor=cursor)
        found = [(name, index) for name, indexes in page_of(reply) for index in indexes]
        assert 0 < len(found) <= limit
        seen += found
        cursor = cursor_of(reply)
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_always_holds_one_partition(client: Client, limit: int) -> None:
    assert page_of(ask(client, limit=limit)) == [("a", [0])]


def test_the_brokers_own_limit_counts_too() -> None:
    client = a_node({"max.request.partition.size.limit": "2"}, topics={"a": 3}).client()
    assert page_of(ask(client, limit=2000)) == [("a", [0, 1])]


def test_an_unknown_topic_costs_nothing_but_waits_for_the_next_page(client: Client) -> None:
    reply = ask(client, "a", "aa", "b", limit=4)
    assert page_of(reply) == [("a", [0, 1, 2]), ("aa", []), ("b", [0])]
    assert reply.topics[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (reply.topics[1].topic_id, reply.topics[1].topic_authorized_operations) == (ZERO_UUID, 3576)
    full = ask(client, "a", "aa", limit=3)
    assert (page_of(full), cursor_of(full)) == ([("a", [0, 1, 2])], ("aa", 0))


@pytest.mark.parametrize("name", ["bad name", "x" * 250, ""])
def test_a_name_that_no_topic_can_have_is_invalid(client: Client, name: str) -> None:
    """For the empty name Kafka 4.4 fails with UNKNOWN_SERVER_ERROR."""
    assert ask(client, name).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_an_internal_topic_that_does_not_exist_is_internal(client: Client) -> None:
    (topic,) = ask(client, "__transaction_state").topics
    assert (topic.error_code, topic.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)


def test_a_cursor_starts_in_the_middle_of_a_topic(client: Client) -> None:
    assert page_of(ask(client, "a", "b", cursor=("a", 2))) == [("a", [2]), ("b", [0, 1])]


def test_a_cursor_behind_the_last_partition_shows_the_topic_without_any(client: Client) -> None:
    assert page_of(ask(client, "a", "b", cursor=("a", 99))) == [("a", []), ("b", [0, 1])]


def test_a_cursor_on_a_topic_deleted_meanwhile_goes_on_with_the_next(client: Client) -> None:
    assert page_of(ask(client, cursor=("aa", 5))) == [("b", [0, 1]), ("c", [0])]
    assert page_of(ask(client, "a", "aa", "b", cursor=("aa", 5))) == [("aa", []), ("b", [0, 1])]


@pytest.mark.parametrize("cursor", [("a", -1), ("bb", 0), ("z", 0)])
def test_a_cursor_on_none_of_the_named_topics_is_an_invalid_request(client: Client, cursor: tuple[str, int]) -> None:
    reply = ask(client, "a", "b", cursor=cursor)
    assert [(topic.name, topic.error_code) for topic in reply.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
    ]
