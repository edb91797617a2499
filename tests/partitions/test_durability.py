"""Who waits for a sync, what a failed one takes away, and what it leaves alone."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kshim_protocol.messages.fetch import FetchResponse
from kshim_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kshim_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kshim_protocol.messages.produce import ProduceResponse
from tests.broker.data_plane import a_batch, fetch_of, list_offsets, only_partition, produce_of, values_in
from tests.broker.harness import Client, NodeUnderTest, NoReply, a_node, files_in
from tests.broker.unsafe_disk import UnsafeDisk

# Groups in different partitions of the offsets topic.
FINE, BROKEN = "fine", "broken"
LATEST, MAX_TIMESTAMP = -1, -3


@pytest.fixture
def disk(tmp_path: Path) -> UnsafeDisk:
    return UnsafeDisk(tmp_path)


@pytest.fixture
def node(tmp_path: Path, disk: UnsafeDisk) -> Iterator[NodeUnderTest]:
    node = a_node(
        {"offsets.topic.num.partitions": "10"},
        topics={"orders": 2},
        storage=files_in(tmp_path, disk),
        fsync="always",
        tolerates_defects=True,
    )
    assert commit(node, FINE, 1) == commit(node, BROKEN, 1) == ErrorCode.NONE
    node.run_background_tasks()
    yield node
    disk.unsafe.clear()
    node.close()


def folder_of(node: NodeUnderTest, group_id: str) -> str:
    return f"{OFFSETS_TOPIC}-{node.cluster.groups.coordinator.partition_for(group_id)}"


def commit_of(group_id: str, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="orders", partitions=(partition,))
    return OffsetCommitRequest(group_id=group_id, member_id="", topics=(topic,))


def commit(node: NodeUnderTest, group_id: str, offset: int) -> ErrorCode:
    """Commit, do what has to be done for it, and return the error."""
    client = node.client()
    client.send(commit_of(group_id, offset), 2)
    node.run_background_tasks()
    return error_of_commit(client)


def error_of_commit(client: Client) -> ErrorCode:
    return ErrorCode(client.take(OffsetCommitResponse).topics[0].partitions[0].error_code)


def fetch_offsets(*group_ids: str) -> OffsetFetchRequest:
    wanted = OffsetFetchRequestTopics(name="orders", partition_indexes=(0,))
    return OffsetFetchRequest(
        groups=tuple(OffsetFetchRequestGroup(group_id=group_id, topics=(wanted,)) for group_id in group_ids)
    )


def committed(client: Client) -> list[int | ErrorCode]:
    """The offset of each group in an answer, or its error."""
    return [
        ErrorCode(group.error_code) if group.error_code else group.topics[0].partitions[0].committed_offset
        for group in client.take(OffsetFetchResponse).groups
    ]


# Replies and reads of a shard


def test_a_commit_is_answered_when_it_is_durable(node: NodeUnderTest, disk: UnsafeDisk) -> None:
    client = node.client()
    before = disk.synced[folder_of(node, FINE)]
    client.send(commit_of(FINE, 2), 2)
    assert client.is_waiting
    node.run_background_tasks()
    assert error_of_commit(client) == ErrorCode.NONE
    assert disk.synced[folder_of(node, FINE)] == before + 1


def test_whoever_reads_a_shard_waits_for_what_it_would_tell(node: NodeUnderTest) -> None:
    writer = node.client()
    writer.send(commit_of(FINE, 2), 2)
    readers = [node.client() for _ in range(4)]
    readers[0].send(fetch_offsets(FINE), 8)
    readers[1].send(DescribeGroupsRequest(groups=(FINE,)), 5)
    readers[2].send(ListGroupsRequest(), 4)
    readers[3].send(HeartbeatRequest(group_id=FINE, generation_id=0, member_id="x"), 4)
    assert all(reader.is_waiting for reader in readers)
    node.run_background_tasks()
    assert committed(readers[0]) == [2]
    assert readers[1].take(DescribeGroupsResponse).groups[0].group_state == "Empty"
    assert {group.group_id for group in readers[2].take(ListGroupsResponse).groups} == {FINE, BROKEN}
    assert readers[3].take(HeartbeatResponse).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_nobody_waits_for_another_shard(node: NodeUnderTest) -> None:
    node.client().send(commit_of(BROKEN, 2), 2)
    reader = node.client()
    reader.send(fetch_offsets(FINE), 8)
    assert committed(reader) == [1]


def test_a_request_about_several_shards_waits_for_each(node: NodeUnderTest) -> None:
    node.client().send(commit_of(FINE, 2), 2)
    node.client().send(commit_of(BROKEN, 2), 2)
    reader = node.client()
    reader.send(fetch_offsets(FINE, BROKEN), 8)
    assert reader.is_waiting
    node.run_background_tasks()
    assert committed(reader) == [2, 2]


def test_all_that_came_in_one_turn_is_synced_at_once(node: NodeUnderTest, disk: UnsafeDisk) -> None:
    before = disk.synced[folder_of(node, FINE)]
    clients = [node.client() for _ in range(5)]
    for number, client in enumerate(clients):
        client.send(commit_of(FINE, number), 2)
    node.run_background_tasks()
    assert [error_of_commit(client) for client in clients] == [ErrorCode.NONE] * 5
    assert disk.synced[folder_of(node, FINE)] == before + 1


def test_what_comes_during_a_sync_waits_for_the_next_one(node: NodeUnderTest) -> None:
    first, second = node.client(), node.client()
    first.send(commit_of(FINE, 2), 2)
    task = node.node.background_tasks.next_urgent()
    assert task is not None
    job = next(task)
    second.send(commit_of(FINE, 3), 2)
    assert node.node.background_tasks.next_urgent() is None, "a second sync of one log beside the first"
    assert job is not None
    result = job()
    with pytest.raises(StopIteration):
        task.send(result)
    assert not first.is_waiting
    assert second.is_waiting
    node.run_background_tasks()
    assert error_of_commit(second) == ErrorCode.NONE


def test_events_wait_alike(node: NodeUnderTest) -> None:
    node.events.clear()
    client = node.client()
    client.send(DeleteGroupsRequest(groups_names=(FINE, BROKEN)), 2)
    assert node.events == []
    node.run_background_tasks()
    assert {event.partition for event in node.events} == {
        node.cluster.groups.coordinator.partition_for(group_id) for group_id in (FINE, BROKEN)
    }
    assert [result.error_code for result in client.take(DeleteGroupsResponse).results] == [0, 0]


def test_in_memory_nobody_waits() -> None:
    node = a_node(topics={"orders": 1}, fsync="always")
    client = node.client()
    assert client.ask(commit_of(FINE, 2), 2).topics[0].partitions[0].error_code == ErrorCode.NONE


# A sync that fails


def test_a_failed_sync_is_told_to_who_waits_and_takes_back_only_what_was_not_durable(
    node: NodeUnderTest, disk: UnsafeDisk
) -> None:
    writer, reader, other = node.client(), node.client(), node.client()
    writer.send(commit_of(BROKEN, 2), 2)
    reader.send(fetch_offsets(BROKEN), 8)
    other.send(commit_of(FINE, 2), 2)
    disk.unsafe.add(folder_of(node, BROKEN))
    node.run_background_tasks()
    assert error_of_commit(writer) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert committed(reader) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert error_of_commit(other) == ErrorCode.NONE
    disk.unsafe.clear()
    node.pass_ms(1_000)
    node.run_background_tasks()
    reader.send(fetch_offsets(BROKEN, FINE), 8)
    assert committed(reader) == [1, 2]
    assert commit(node, BROKEN, 3) == ErrorCode.NONE


def test_a_disk_that_stays_broken_is_tried_again_with_pauses_and_other_shards_serve(
    node: NodeUnderTest, disk: UnsafeDisk
) -> None:
    folder = folder_of(node, BROKEN)
    disk.unsafe.add(folder)
    assert commit(node, BROKEN, 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    for second in range(1, 4):
        tries = disk.synced[folder]
        for _ in range(10):
            assert commit(node, BROKEN, 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert commit(node, FINE, second) == ErrorCode.NONE
        assert disk.synced[folder] <= tries + 2
        node.pass_ms(1_000)
    disk.unsafe.clear()
    node.run_background_tasks()
    node.pass_ms(1_000)
    node.run_background_tasks()
    assert commit(node, BROKEN, 2) == ErrorCode.NONE


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_fails_its_request_and_nothing_else(node: NodeUnderTest, disk: UnsafeDisk, code: int) -> None:
    disk.unwritable[folder_of(node, BROKEN)] = code
    assert commit(node, BROKEN, 2) == ErrorCode.NOT_COORDINATOR
    assert commit(node, FINE, 2) == ErrorCode.NONE
    reader = node.client()
    reader.send(fetch_offsets(BROKEN, FINE), 8)
    assert committed(reader) == [1, 2]
    disk.unwritable.clear()
    assert commit(node, BROKEN, 3) == ErrorCode.NONE


# Records


def test_produce_waits_and_consumers_see_only_what_is_durable(node: NodeUnderTest) -> None:
    producer, consumer, asking = node.client(), node.client(), node.client()
    producer.send(produce_of("orders", a_batch(b"v", timestamp_ms=7)), 12)
    assert producer.is_waiting
    fetched = only_partition(consumer.ask(fetch_of(("orders", 0, 0)), 12))
    assert (fetched.high_watermark, values_in(fetched.records)) == (0, [])
    assert list_offsets(asking, "orders", LATEST).offset == 0
    assert list_offsets(asking, "orders", MAX_TIMESTAMP).offset == -1
    assert list_offsets(asking, "orders", 7).offset == -1
    node.run_background_tasks()
    assert only_partition(producer.take(ProduceResponse)).error_code == ErrorCode.NONE
    fetched = only_partition(consumer.ask(fetch_of(("orders", 0, 0)), 12))
    assert (fetched.high_watermark, values_in(fetched.records)) == (1, [b"v"])
    assert list_offsets(asking, "orders", LATEST).offset == 1
    assert list_offsets(asking, "orders", MAX_TIMESTAMP).offset == 0
    assert list_offsets(asking, "orders", 7).offset == 0


def test_a_fetch_reads_up_to_the_durable_position_only(node: NodeUnderTest) -> None:
    producer, consumer = node.client(), node.client()
    producer.send(produce_of("orders", a_batch(b"first")), 12)
    node.run_background_tasks()
    node.client().send(produce_of("orders", a_batch(b"second")), 12)
    assert values_in(only_partition(consumer.ask(fetch_of(("orders", 0, 0)), 12)).records) == [b"first"]
    assert values_in(only_partition(consumer.ask(fetch_of(("orders", 0, 1)), 12)).records) == []


def test_a_waiting_fetch_is_answered_when_records_become_durable(node: NodeUnderTest) -> None:
    consumer = node.client()
    consumer.send(fetch_of(("orders", 0, 0), max_wait_ms=60_000), 12)
    node.client().send(produce_of("orders", a_batch(b"v")), 12)
    assert consumer.is_waiting
    node.run_background_tasks()
    assert values_in(only_partition(consumer.take(FetchResponse)).records) == [b"v"]


def test_a_produce_with_acks_0_waits_for_nothing(node: NodeUnderTest) -> None:
    producer = node.client()
    producer.send(produce_of("orders", a_batch(b"v"), acks=0), 12)
    assert isinstance(producer.unread.popleft(), NoReply)


def test_a_failed_sync_fails_the_partition_that_lost_its_records_and_not_the_other(
    node: NodeUnderTest, disk: UnsafeDisk
) -> None:
    producer, consumer = node.client(), node.client()
    disk.unsafe.add("orders-0")
    producer.send(produce_of("orders", a_batch(b"lost"), a_batch(b"kept")), 12)
    node.run_background_tasks()
    (answers,) = (topic.partition_responses for topic in producer.take(ProduceResponse).responses)
    assert [answer.error_code for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    disk.unsafe.clear()
    node.pass_ms(1_000)
    node.run_background_tasks()
    assert values_in(only_partition(consumer.ask(fetch_of(("orders", 0, 0)), 12)).records) == []
    assert values_in(only_partition(consumer.ask(fetch_of(("orders", 1, 0)), 12)).records) == [b"kept"]
    producer.send(produce_of("orders", a_batch(b"again")), 12)
    node.run_background_tasks()
    assert only_partition(producer.take(ProduceResponse)).base_offset == 0


def test_a_producer_may_send_again_what_was_lost(node: NodeUnderTest, disk: UnsafeDisk) -> None:
    producer = node.client()
    batch = a_batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)
    disk.unsafe.add("orders-0")
    producer.send(produce_of("orders", batch), 12)
    node.run_background_tasks()
    assert only_partition(producer.take(ProduceResponse)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    disk.unsafe.clear()
    node.pass_ms(1_000)
    node.run_background_tasks()
    producer.send(produce_of("orders", batch), 12)
    assert producer.is_waiting
    node.run_background_tasks()
    assert only_partition(producer.take(ProduceResponse)).base_offset == 0


def test_a_topic_deleted_during_a_sync_is_gone(node: NodeUnderTest) -> None:
    producer = node.client()
    producer.send(produce_of("orders", a_batch(b"v")), 12)
    topic = node.cluster.topics.named("orders")
    assert topic is not None
    node.cluster.delete_topic(topic, node.now)
    node.run_background_tasks()
    assert not producer.is_waiting
    assert node.defects == []


# After a restart


def test_what_a_killed_process_left_is_synced_before_anybody_is_told_of_it(tmp_path: Path, disk: UnsafeDisk) -> None:
    node = killed_after_a_commit_and_a_record(tmp_path)
    again = a_node(storage=files_in(tmp_path, disk), fsync="always")
    client = again.client()
    assert values_in(only_partition(client.ask(fetch_of(("orders", 0, 0)), 12)).records) == [b"v"]
    assert disk.synced["orders-0"] == 1
    again.run_background_tasks()
    client.send(fetch_offsets(FINE), 8)
    assert committed(client) == [5]
    assert disk.synced[folder_of(node, FINE)] == 1
    again.close()


def test_what_a_killed_process_left_is_kept_though_it_cannot_be_synced_at_first(
    tmp_path: Path, disk: UnsafeDisk
) -> None:
    node = killed_after_a_commit_and_a_record(tmp_path)
    disk.unsafe |= {"orders-0", folder_of(node, FINE)}
    again = a_node(storage=files_in(tmp_path, disk), fsync="always", tolerates_defects=True)
    client = again.client()
    assert only_partition(client.ask(fetch_of(("orders", 0, 0)), 12)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    again.run_background_tasks()
    client.send(fetch_offsets(FINE), 8)
    assert committed(client) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    disk.unsafe.clear()
    again.pass_ms(1_000)
    again.run_background_tasks()
    assert values_in(only_partition(client.ask(fetch_of(("orders", 0, 0)), 12)).records) == [b"v"]
    client.send(fetch_offsets(FINE), 8)
    assert committed(client) == [5]
    again.close()


def killed_after_a_commit_and_a_record(folder: Path) -> NodeUnderTest:
    storage = files_in(folder)
    node = a_node(topics={"orders": 1}, storage=storage)
    assert commit(node, FINE, 5) == ErrorCode.NONE
    node.client().send(produce_of("orders", a_batch(b"v")), 12)
    storage.close()  # the logs are not
    return node


# The other policies


def test_with_interval_nobody_waits_and_each_log_that_has_grown_is_synced(tmp_path: Path, disk: UnsafeDisk) -> None:
    node = a_node(topics={"orders": 2}, storage=files_in(tmp_path, disk), fsync="interval")
    client = node.client()
    for offset in range(10):
        assert client.ask(commit_of(FINE, offset), 2).topics[0].partitions[0].error_code == ErrorCode.NONE
    client.ask(produce_of("orders", a_batch(b"v")), 12)
    node.pass_ms(99)
    node.run_background_tasks()
    assert not disk.synced
    node.pass_ms(1)
    node.run_background_tasks()
    assert disk.synced == {folder_of(node, FINE): 1, "orders-0": 1}
    node.pass_ms(10_000)
    assert node.node.next_real_deadline() is None, "a timer although nothing has grown"
    node.close()


def test_with_interval_a_failed_sync_loses_nothing(tmp_path: Path, disk: UnsafeDisk) -> None:
    node = a_node(topics={"orders": 1}, storage=files_in(tmp_path, disk), fsync="interval", tolerates_defects=True)
    client = node.client()
    assert commit(node, FINE, 5) == ErrorCode.NONE
    assert only_partition(client.ask(produce_of("orders", a_batch(b"v")), 12)).error_code == ErrorCode.NONE
    disk.unsafe |= {folder_of(node, FINE), "orders-0"}
    node.pass_ms(100)
    node.run_background_tasks()
    assert only_partition(client.ask(produce_of("orders", a_batch(b"w")), 12)).error_code == (
        ErrorCode.KAFKA_STORAGE_ERROR
    )
    assert commit(node, FINE, 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    disk.unsafe.clear()
    node.pass_ms(1_000)
    node.run_background_tasks()
    client.send(fetch_offsets(FINE), 8)
    assert committed(client) == [5]
    assert values_in(only_partition(client.ask(fetch_of(("orders", 0, 0)), 12)).records) == [b"v"]
    assert commit(node, FINE, 6) == ErrorCode.NONE
    node.close()


def test_with_never_a_segment_is_synced_when_the_next_one_has_begun(tmp_path: Path, disk: UnsafeDisk) -> None:
    node = a_node({"log.segment.bytes": "1048576"}, topics={"orders": 1}, storage=files_in(tmp_path, disk))
    client = node.client()
    for _ in range(2):
        client.ask(produce_of("orders", a_batch(bytes(600_000))), 12)
        assert disk.synced["orders-0"] == 0
        node.pass_ms(1_000)
        node.run_background_tasks()
    assert disk.synced["orders-0"] == 2  # the segment and what there is of the next one
    node.close()


def test_with_never_nothing_is_synced_before_the_end(tmp_path: Path, disk: UnsafeDisk) -> None:
    node = a_node(topics={"orders": 1}, storage=files_in(tmp_path, disk), fsync="never")
    assert commit(node, FINE, 5) == ErrorCode.NONE
    node.pass_ms(10_000)
    node.run_background_tasks()
    folder = folder_of(node, FINE)
    assert disk.synced[folder] == 0
    node.close()
    assert disk.synced[folder] == 1
