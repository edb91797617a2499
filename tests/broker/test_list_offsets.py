"""ListOffsets and OffsetForLeaderEpoch. Outcomes as seen on Kafka 4.4."""

from __future__ import annotations

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kshim_protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kshim_protocol.records.compression import Compression
from tests.broker.data_plane import a_batch, altered, list_offsets, produce
from tests.broker.harness import START_WALL_MS, Client, NodeUnderTest, a_node

T = START_WALL_MS
NOWHERE = (ErrorCode.NONE, -1, -1)


@pytest.fixture
def client(node: NodeUnderTest) -> Client:
    """Connected to a node whose orders-0 holds, from offset 0: T..T+2, T+1000..T+1002, T+500..T+502 (three batches)."""
    client = node.client()
    for delay_ms in (0, 1000, 500):
        produce(client, "orders", a_batch(b"1", b"2", b"3", timestamp_ms=T + delay_ms))
    return client


def found(answer: ListOffsetsPartitionResponse) -> tuple[int, int, int]:
    return answer.error_code, answer.offset, answer.timestamp


@pytest.mark.parametrize("version", range(1, 12))
def test_both_ends_are_known_in_every_version(node: NodeUnderTest, client: Client, version: int) -> None:
    node.log("orders").delete_before(2)
    epoch = 0 if version >= 4 else -1
    end = list_offsets(client, "orders", -1, version=version)
    start = list_offsets(client, "orders", -2, version=version)
    assert (*found(end), end.leader_epoch) == (ErrorCode.NONE, 9, -1, epoch)
    assert (*found(start), start.leader_epoch) == (ErrorCode.NONE, 2, -1, epoch)


@pytest.mark.parametrize(
    ("timestamp", "since", "offset", "timestamp_ms"),
    [(-3, 7, 5, T + 1002), (-4, 8, 0, -1), (-5, 9, -1, -1), (-6, 11, -1, -1)],
)
def test_other_names_are_known_from_their_version_on(
    client: Client, timestamp: int, since: int, offset: int, timestamp_ms: int
) -> None:
    before = list_offsets(client, "orders", timestamp, version=since - 1)
    assert found(before) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
    answer = list_offsets(client, "orders", timestamp, version=since)
    assert found(answer) == (ErrorCode.NONE, offset, timestamp_ms)
    assert answer.leader_epoch == (0 if offset >= 0 else -1)


@pytest.mark.parametrize("topic", ["orders", "nothing"])
def test_a_name_that_does_not_exist_is_an_unsupported_version(client: Client, topic: str) -> None:
    assert found(list_offsets(client, topic, -7)) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


@pytest.mark.parametrize(
    ("timestamp_ms", "offset", "found_ms"),
    [
        (0, 0, T),
        (T, 0, T),
        (T + 1, 1, T + 1),
        (T + 3, 3, T + 1000),
        (T + 500, 3, T + 1000),
        (T + 1002, 5, T + 1002),
        (T + 1003, -1, -1),
    ],
)
def test_a_time_finds_the_first_record_that_is_not_older(
    client: Client, timestamp_ms: int, offset: int, found_ms: int
) -> None:
    answer = list_offsets(client, "orders", timestamp_ms)
    assert found(answer) == (ErrorCode.NONE, offset, found_ms)
    assert answer.leader_epoch == (0 if offset >= 0 else -1)


def test_an_empty_partition_begins_and_ends_at_zero_and_has_no_times(client: Client) -> None:
    assert [found(list_offsets(client, "clicks", timestamp)) for timestamp in (-1, -2, -4)] == [(0, 0, -1)] * 3
    assert [found(list_offsets(client, "clicks", timestamp)) for timestamp in (-3, -5, -6, 0, T)] == [NOWHERE] * 5


def test_both_isolation_levels_see_the_same_without_transactions(client: Client) -> None:
    for timestamp in (-1, -3, T + 500):
        assert list_offsets(client, "orders", timestamp, isolation_level=1) == list_offsets(client, "orders", timestamp)


def test_an_isolation_level_that_does_not_exist_fails_the_request(client: Client) -> None:
    assert list_offsets(client, "orders", -1, isolation_level=2).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(("topic", "partition"), [("nothing", 0), ("orders", 2), ("orders", -1)])
def test_what_does_not_exist_has_no_offsets(client: Client, topic: str, partition: int) -> None:
    answer = list_offsets(client, topic, -1, partition=partition)
    assert found(answer) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (0, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_the_leader_epoch_must_be_the_only_one(client: Client, epoch: int, error: ErrorCode) -> None:
    assert list_offsets(client, "orders", -1, leader_epoch=epoch).error_code == error
    assert ask_epoch(client, 0, current=epoch).error_code == error


def test_a_partition_named_twice_is_refused_and_the_others_are_not(client: Client) -> None:
    twice = tuple(ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1, 0))
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=(ListOffsetsTopic(name="orders", partitions=twice),)
    )
    (topic,) = client.ask(request).topics
    assert [(answer.partition_index, answer.error_code) for answer in topic.partitions] == [
        (1, ErrorCode.NONE),
        (0, ErrorCode.INVALID_REQUEST),
    ]


def test_a_batch_that_cannot_be_read_fails_a_lookup_and_no_other_question() -> None:
    """Produce refuses such batches, but files may have been written by others."""
    node = a_node(topics={"orders": 1}, tolerates_defects=True)
    client = node.client()
    node.log("orders").append(altered(a_batch(), ">h", 21, Compression.GZIP))
    assert found(list_offsets(client, "orders", T)) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1)
    assert found(list_offsets(client, "orders", -1)) == (ErrorCode.NONE, 1, -1)
    assert len(node.defects) == 1


def ask_epoch(
    client: Client, epoch: int, *, current: int = -1, topic: str = "orders", partition: int = 0, version: int = 4
) -> EpochEndOffset:
    wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1 if version >= 3 else -2,
        topics=(OffsetForLeaderTopic(topic=topic, partitions=(wanted,)),),
    )
    (answered,) = client.ask(request, version).topics
    (answer,) = answered.partitions
    return answer


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_only_epoch_ends_at_the_end_of_the_log(client: Client, version: int) -> None:
    assert ask_epoch(client, 0, version=version) == EpochEndOffset(
        error_code=ErrorCode.NONE, partition=0, leader_epoch=0, end_offset=9
    )


@pytest.mark.parametrize(("epoch", "answered"), [(1, (-1, -1)), (-1, (-1, -1)), (-2, (-2, 0))])
def test_epochs_that_never_were_have_no_end(client: Client, epoch: int, answered: tuple[int, int]) -> None:
    answer = ask_epoch(client, epoch)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (ErrorCode.NONE, *answered)


@pytest.mark.parametrize(("topic", "partition"), [("nothing", 0), ("orders", 2)])
def test_what_does_not_exist_has_no_epochs(client: Client, topic: str, partition: int) -> None:
    answer = ask_epoch(client, 0, topic=topic, partition=partition)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        -1,
        -1,
    )
