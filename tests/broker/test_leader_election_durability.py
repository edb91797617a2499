"""Moves while answers wait until they are safe from power loss: each is given once, and what it says is so."""

from __future__ import annotations

from pathlib import Path

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.fetch import FetchResponse
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kshim_protocol.messages.produce import ProduceResponse
from tests.broker.data_plane import a_batch, fetch_of, only_partition, produce_of, values_in
from tests.broker.harness import NodeUnderTest, a_node, files_in


def two_nodes(path: Path) -> NodeUnderTest:
    """Node n leads partition n-1 of `orders`; node 1 coordinates every group."""
    node = a_node(
        {"offsets.topic.num.partitions": "1"},
        topics={"orders": 2},
        storage=files_in(path),
        fsync="always",
        node_count=2,
    )
    node.cluster.groups.topic()
    node.run_background_tasks()
    return node


def test_a_commit_that_waits_for_its_sync_is_answered_and_is_there_at_the_new_coordinator(tmp_path: Path) -> None:
    node = two_nodes(tmp_path)
    client = node.client(node_id=1)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="orders", partitions=(partition,))
    client.send(OffsetCommitRequest(group_id="g", member_id="", topics=(topic,)), 7)
    assert client.is_waiting
    node.cluster.leader_election.move(OFFSETS_TOPIC, 0, 2)
    node.run_background_tasks()
    assert client.take(OffsetCommitResponse).topics[0].partitions[0].error_code == ErrorCode.NONE
    wanted = (OffsetFetchRequestTopic(name="orders", partition_indexes=(0,)),)
    fetched = node.client(node_id=2)
    fetched.send(OffsetFetchRequest(group_id="g", topics=wanted), 7)
    node.run_background_tasks()
    answer = fetched.unread.popleft()
    assert answer.topics[0].partitions[0].committed_offset == 5  # type: ignore[union-attr]
    node.close()


def test_records_that_wait_for_their_sync_are_acknowledged_and_read_at_the_new_leader(tmp_path: Path) -> None:
    node = two_nodes(tmp_path)
    producer, consumer = node.client(node_id=1), node.client(node_id=2)
    producer.send(produce_of("orders", a_batch(b"1")), 12)
    assert producer.is_waiting
    node.cluster.leader_election.move("orders", 0, 2)
    consumer.send(fetch_of(("orders", 0, 0), max_wait_ms=500), 12)
    assert consumer.is_waiting
    node.run_background_tasks()
    assert only_partition(producer.take(ProduceResponse)).error_code == ErrorCode.NONE
    assert values_in(only_partition(consumer.take(FetchResponse)).records) == [b"1"]
    node.close()


def test_whoever_is_cut_off_with_its_node_gets_no_second_answer(tmp_path: Path) -> None:
    node = two_nodes(tmp_path)
    producer = node.client(node_id=1)
    producer.send(produce_of("orders", a_batch(b"1")), 12)
    node.cluster.leader_election.stop_node(1)
    node.run_background_tasks()
    assert producer.is_closed
    assert not producer.unread
    assert node.log("orders").end_offset == 1
    node.close()
