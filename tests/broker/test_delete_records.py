"""DeleteRecords: the start of a partition moves up (KIP-107). Outcomes as seen on Kafka 4.4."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kshim_protocol.messages.fetch import FetchResponse
from tests.broker.data_plane import a_batch, fetch_of, list_offsets, only_partition, produce
from tests.broker.harness import START_WALL_MS, Client, NodeUnderTest, a_node, files_in
from tests.conftest import MakeNode

EARLIEST = -2
MAX_TIMESTAMP = -3
HIGH_WATERMARK = -1


def delete(client: Client, topic: str, *places: tuple[int, int], version: int = 2) -> list[tuple[int, int, int]]:
    """(partition, low watermark, error code) of each partition in the answer."""
    partitions = tuple(DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in places)
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=partitions),), timeout_ms=30_000)
    (answered,) = client.ask(request, version).topics
    return [(each.partition_index, each.low_watermark, each.error_code) for each in answered.partitions]


@pytest.fixture
def client(node: NodeUnderTest) -> Client:
    """Of a node on which orders-0 holds five batches of two records."""
    client = node.client()
    for _ in range(5):
        produce(client, "orders", a_batch(b"a", b"b"))
    return client


def test_records_before_the_offset_are_gone(client: Client) -> None:
    assert delete(client, "orders", (0, 3)) == [(0, 3, 0)]
    assert list_offsets(client, "orders", EARLIEST).offset == 3
    answer = only_partition(client.ask(fetch_of(("orders", 0, 2)), 12))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert only_partition(client.ask(fetch_of(("orders", 0, 3)), 12)).log_start_offset == 3


def test_an_offset_that_is_gone_already_changes_nothing(client: Client) -> None:
    delete(client, "orders", (0, 6))
    assert delete(client, "orders", (0, 2)) == [(0, 6, 0)]


def test_the_greatest_timestamp_is_that_of_a_record_that_is_left(client: Client) -> None:
    produce(client, "orders", a_batch(timestamp_ms=START_WALL_MS + 9_000))
    produce(client, "orders", a_batch(timestamp_ms=START_WALL_MS + 5_000))
    assert list_offsets(client, "orders", MAX_TIMESTAMP).offset == 10
    delete(client, "orders", (0, 11))
    assert list_offsets(client, "orders", MAX_TIMESTAMP).offset == 11


def test_minus_one_stands_for_the_high_watermark(client: Client) -> None:
    assert delete(client, "orders", (0, HIGH_WATERMARK)) == [(0, 10, 0)]
    assert produce(client, "orders", a_batch()).base_offset == 10


@pytest.mark.parametrize("offset", [11, -2])
def test_an_offset_that_is_not_in_the_log_is_out_of_range(client: Client, offset: int) -> None:
    assert delete(client, "orders", (0, offset)) == [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)]


def test_what_is_not_there_is_unknown_and_the_others_are_done(client: Client) -> None:
    assert delete(client, "orders", (7, 0), (0, 4), version=0) == [
        (7, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, 4, 0),
    ]
    assert delete(client, "nothing", (0, 0)) == [(0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_a_topic_that_is_only_compacted_keeps_its_records(make_node: MakeNode) -> None:
    node = make_node()
    node.topic("table", 1, {"cleanup.policy": "compact"})
    node.topic("both", 1, {"cleanup.policy": "compact,delete"})
    client = node.client()
    for topic in ("table", "both"):
        produce(client, topic, a_batch(b"a", b"b"))
    assert delete(client, "table", (0, 1)) == [(0, -1, ErrorCode.POLICY_VIOLATION)]
    assert delete(client, "both", (0, 1)) == [(0, 1, 0)]


def test_the_offsets_topic_is_left_alone(client: Client, node: NodeUnderTest) -> None:
    node.cluster.groups.topic()
    assert delete(client, "__consumer_offsets", (0, 0)) == [(0, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)]


def test_a_fetch_that_waits_there_hears_of_it_when_its_time_is_over(client: Client, node: NodeUnderTest) -> None:
    waiting = node.client()
    waiting.send(fetch_of(("orders", 0, 9), max_wait_ms=500, min_bytes=10_000), 12)
    delete(client, "orders", (0, 10))
    assert waiting.is_waiting  # nobody wakes it in Kafka either
    node.pass_ms(500)
    assert only_partition(waiting.take(FetchResponse)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_start_stays_where_it_is_after_a_restart(tmp_path: Path) -> None:
    before = a_node(storage=files_in(tmp_path), topics={"orders": 1})
    produce(before.client(), "orders", a_batch(b"a", b"b", b"c"))
    delete(before.client(), "orders", (0, 2))
    before.close()
    after = a_node(storage=files_in(tmp_path))
    assert list_offsets(after.client(), "orders", EARLIEST).offset == 2
    after.close()
