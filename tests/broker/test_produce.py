"""Produce: what is taken, what is refused and how, what stands in the log afterwards."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from kshim.broker.connection import ConnectionClosing
from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.produce import PartitionProduceData
from kshim_protocol.records.batch import crc_matches, parse_batch_header, set_base_offset
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.record import iter_records
from tests.broker.data_plane import a_batch, altered, fetch_of, only_partition, produce, produce_of, values_in
from tests.broker.harness import START_WALL_MS, NodeUnderTest, NoReply, a_node, files_in
from tests.conftest import MakeNode


def stored(node: NodeUnderTest, topic: str = "orders", partition: int = 0) -> bytes:
    log = node.log(topic, partition)
    return log.read(log.start_offset, 2**31 - 1)


@pytest.mark.parametrize("version", range(3, 14))
def test_a_batch_gets_the_next_offsets_in_every_version(node: NodeUnderTest, version: int) -> None:
    topic = node.cluster.topics.named("orders")
    assert topic is not None
    client = node.client()
    client.ask(produce_of("orders", a_batch(b"1", b"2", b"3")), 9)
    where = topic.topic_id if version >= 13 else "orders"
    answer = only_partition(client.ask(produce_of(where, a_batch(b"4")), version))
    assert (answer.index, answer.error_code, answer.base_offset) == (0, ErrorCode.NONE, 3)
    assert answer.log_append_time_ms == -1
    assert answer.log_start_offset == (0 if version >= 5 else -1)


def test_batches_are_stored_untouched_but_for_offset_and_leader_epoch(node: NodeUnderTest) -> None:
    first = a_batch(b"1", b"2", partition_leader_epoch=7)
    second = altered(a_batch(b"3", compression=Compression.GZIP), ">h", 21, Compression.GZIP | 0x1000)
    client = node.client()
    produce(client, "orders", first)
    produce(client, "orders", second)
    assert stored(node) == set_base_offset(first, 0) + set_base_offset(second, 2)


def test_partitions_of_one_request_stand_or_fall_alone(node: NodeUnderTest) -> None:
    reply = node.client().ask(produce_of("orders", a_batch(), b"junk", a_batch()), 9)
    (topic,) = reply.responses
    assert [answer.error_code for answer in topic.partition_responses] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [answer.base_offset for answer in topic.partition_responses] == [0, -1, -1]


@pytest.mark.parametrize("acks", [-1, 1])
def test_acks_of_one_and_all_are_the_same_with_one_replica(node: NodeUnderTest, acks: int) -> None:
    assert produce(node.client(), "orders", a_batch(), acks=acks).error_code == ErrorCode.NONE


@pytest.mark.parametrize("acks", [-2, 2, 5])
def test_other_acks_are_refused_and_nothing_is_written(node: NodeUnderTest, acks: int) -> None:
    assert produce(node.client(), "orders", a_batch(), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert node.log("orders").end_offset == 0


def test_acks_zero_ends_without_a_reply(node: NodeUnderTest) -> None:
    client = node.client()
    client.send(produce_of("orders", a_batch(b"1"), acks=0), 12)
    assert isinstance(client.unread.popleft(), NoReply)
    assert values_in(stored(node)) == [b"1"]


def test_a_failure_with_acks_zero_closes_the_connection_for_want_of_a_reply(node: NodeUnderTest) -> None:
    client = node.client()
    with pytest.raises(ConnectionClosing, match=r"nothing-0.*UNKNOWN_TOPIC_OR_PARTITION"):
        client.send(produce_of("nothing", a_batch(), acks=0), 9)
    assert not client.unread


@pytest.mark.parametrize(
    ("where", "version", "error"),
    [
        ("nothing", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (b"\x01" * 16, 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (bytes(16), 13, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_an_unknown_topic_is_not_created(
    node: NodeUnderTest, where: str | bytes, version: int, error: ErrorCode
) -> None:
    answer = only_partition(node.client().ask(produce_of(where, a_batch()), version))
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (error, -1, -1)
    assert len(node.cluster.topics) == 2


@pytest.mark.parametrize("partition", [-1, 2])
def test_an_unknown_partition_is_refused(node: NodeUnderTest, partition: int) -> None:
    answer = produce(node.client(), "orders", a_batch(), first_partition=partition)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


BATCH = a_batch(b"1", b"2", b"3")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(None, ErrorCode.INVALID_RECORD, id="null"),
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="empty"),
        pytest.param(BATCH[:40], ErrorCode.INVALID_RECORD, id="half a header"),
        pytest.param(BATCH[:-1], ErrorCode.INVALID_RECORD, id="truncated"),
        pytest.param(BATCH + BATCH, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(altered(BATCH, ">b", 16, 1), ErrorCode.INVALID_RECORD, id="magic 1"),
        pytest.param(altered(BATCH, ">i", 57, 4), ErrorCode.INVALID_RECORD, id="count and last delta differ"),
        pytest.param(altered(BATCH, ">i", 57, 0), ErrorCode.INVALID_RECORD, id="count 0"),
        pytest.param(altered(BATCH, ">h", 21, 0x20), ErrorCode.INVALID_RECORD, id="control batch"),
        pytest.param(altered(BATCH, ">q", 43, 1), ErrorCode.INVALID_RECORD, id="producer id without sequence"),
        pytest.param(altered(BATCH, ">I", 17, 1, with_crc=False), ErrorCode.CORRUPT_MESSAGE, id="crc"),
        pytest.param(BATCH[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE, id="a damaged record"),
        pytest.param(altered(BATCH, ">i", 8, 20), ErrorCode.CORRUPT_MESSAGE, id="length that cannot be"),
    ],
)
def test_what_is_not_one_sound_batch_is_refused(node: NodeUnderTest, data: bytes | None, error: ErrorCode) -> None:
    answer = produce(node.client(), "orders", data)
    assert (answer.error_code, answer.base_offset) == (error, -1)
    assert answer.error_message
    assert node.log("orders").end_offset == 0


def test_a_batch_may_be_as_large_as_the_broker_allows_and_no_larger(make_node: MakeNode) -> None:
    batch = a_batch(b"x" * 1000)
    node = make_node({"message.max.bytes": str(len(batch))}, topics={"orders": 1})
    client = node.client()
    assert produce(client, "orders", batch).error_code == ErrorCode.NONE
    assert produce(client, "orders", a_batch(b"x" * 1001)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused(make_node: MakeNode) -> None:
    node = make_node({"log.segment.bytes": str(2**20), "message.max.bytes": str(2**22)}, topics={"orders": 1})
    answer = produce(node.client(), "orders", a_batch(b"x" * 2**20))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.RECORD_LIST_TOO_LARGE, -1)
    assert produce(node.client(), "orders", a_batch(b"x" * (2**20 - 100))).error_code == ErrorCode.NONE


def test_a_partition_named_more_than_once_has_one_answer_and_its_last_batch(node: NodeUnderTest) -> None:
    client = node.client()
    first, second = produce_of("orders", a_batch(b"a"), a_batch(b"b")), produce_of("orders", a_batch(b"c"))
    answer = client.ask(replace(first, topic_data=first.topic_data + second.topic_data), 9)
    assert [part.index for topic in answer.responses for part in topic.partition_responses] == [0, 1]
    read = [only_partition(client.ask(fetch_of(("orders", index, 0)), 12)).records for index in (0, 1)]
    assert [values_in(data) for data in read] == [[b"c"], [b"b"]]


def test_a_malformed_batch_that_is_followed_by_another_does_not_count(node: NodeUnderTest) -> None:
    batches = (a_batch(b"a")[:-1], a_batch(b"b"))
    data = tuple(PartitionProduceData(index=0, records=batch) for batch in batches)
    for order, error in ((data, ErrorCode.NONE), (data[::-1], ErrorCode.INVALID_RECORD)):
        request = produce_of("orders", None)
        topic = replace(request.topic_data[0], partition_data=order)
        assert only_partition(node.client().ask(replace(request, topic_data=(topic,)), 9)).error_code == error
    assert values_in(stored(node)) == [b"b"]


@pytest.mark.parametrize(("sequence", "size_bytes", "log_start_offset"), [(9, 1, 1), (1, 2**20, -1)])
def test_a_refusal_by_the_log_tells_where_it_starts(
    node: NodeUnderTest, sequence: int, size_bytes: int, log_start_offset: int
) -> None:
    client = node.client()
    produce(client, "orders", a_batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0))
    partition = node.cluster.topics.partition("orders", 0)
    assert partition is not None
    partition.delete_before(1)
    batch = a_batch(b"x" * size_bytes, producer_id=7, producer_epoch=0, base_sequence=sequence)
    assert produce(client, "orders", batch).log_start_offset == log_start_offset


def test_a_topic_has_its_own_limit_and_may_change_it() -> None:
    node = a_node({"message.max.bytes": "100000"})
    topic = node.topic("orders", configs={"max.message.bytes": "200"})
    client = node.client()
    assert produce(client, "orders", a_batch(b"x" * 300)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    topic.configs = {"max.message.bytes": "1000"}
    assert produce(client, "orders", a_batch(b"x" * 300)).error_code == ErrorCode.NONE


def test_clients_may_not_write_committed_offsets() -> None:
    node = a_node()
    node.cluster.groups.topic()
    answer = produce(node.client(), "__consumer_offsets", a_batch())
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_zstd_needs_a_version_that_knows_it(node: NodeUnderTest) -> None:
    batch = a_batch(b"1", compression=Compression.ZSTD)
    client = node.client()
    assert produce(client, "orders", batch, 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(client, "orders", batch, 7).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("transactional_id", "error"),
    [(None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), ("tx", ErrorCode.INVALID_PRODUCER_ID_MAPPING)],
)
def test_a_transactional_batch_needs_a_transaction(
    node: NodeUnderTest, transactional_id: str | None, error: ErrorCode
) -> None:
    batch = a_batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert produce(node.client(), "orders", batch, transactional_id=transactional_id).error_code == error


def test_log_append_time_replaces_the_times_of_the_records(make_node: MakeNode) -> None:
    node = make_node()
    node.topic("orders", configs={"message.timestamp.type": "LogAppendTime"})
    node.pass_ms(250)
    answer = produce(node.client(), "orders", a_batch(b"1", b"2", timestamp_ms=5))
    batch = stored(node)
    assert answer.log_append_time_ms == START_WALL_MS + 250
    assert crc_matches(batch)
    assert [record.timestamp_ms for record in iter_records(batch)] == [START_WALL_MS + 250] * 2


def test_a_producer_cannot_claim_that_the_broker_set_the_time(node: NodeUnderTest) -> None:
    answer = produce(node.client(), "orders", a_batch(timestamp_ms=1000, log_append_time_ms=9000))
    batch = stored(node)
    assert answer.log_append_time_ms == -1
    assert crc_matches(batch)
    assert not parse_batch_header(batch).is_log_append_time
    assert [record.timestamp_ms for record in iter_records(batch)] == [1000]


def test_a_compacted_topic_refuses_records_without_key_and_says_which() -> None:
    node = a_node()
    node.topic("table", configs={"cleanup.policy": "compact,delete"})
    client = node.client()
    assert produce(client, "table", a_batch(b"1", b"2")).error_code == ErrorCode.NONE
    answer = produce(client, "table", a_batch(b"1", b"2", key=None))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert node.log("table").end_offset == 2


def test_a_compressed_batch_that_cannot_be_read_is_no_surprise_to_a_compacted_topic() -> None:
    node = a_node()
    node.topic("table", configs={"cleanup.policy": "compact"})
    answer = produce(node.client(), "table", altered(a_batch(), ">h", 21, Compression.GZIP))
    assert answer.error_code == ErrorCode.INVALID_RECORD


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("timestamp_ms", "error"),
    [
        (START_WALL_MS + HOUR_MS, ErrorCode.NONE),
        (START_WALL_MS + HOUR_MS + 1, ErrorCode.INVALID_TIMESTAMP),
        (0, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
    ],
)
def test_records_may_be_an_hour_early_but_not_more(node: NodeUnderTest, timestamp_ms: int, error: ErrorCode) -> None:
    answer = produce(node.client(), "orders", a_batch(timestamp_ms=timestamp_ms))
    assert answer.error_code == error
    assert [record.batch_index for record in answer.record_errors] == ([0] if error else [])


def test_a_limit_on_the_past_looks_at_every_record() -> None:
    node = a_node({"log.message.timestamp.before.max.ms": "1000"}, topics={"orders": 1})
    client = node.client()
    answer = produce(client, "orders", a_batch(b"1", b"2", b"3", timestamp_ms=START_WALL_MS - 1001))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [record.batch_index for record in answer.record_errors] == [0]
    assert produce(client, "orders", a_batch(timestamp_ms=START_WALL_MS - 1000)).error_code == ErrorCode.NONE


class FillableDisk(OsCalls):
    """Once `is_full`, what is written to a descriptor opened below `orders-0` fails."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self._of_orders: set[int] = set()
        open_file, write = self.open, self.pwrite

        def noting_open(path: str) -> int:
            descriptor = open_file(path)
            (self._of_orders.add if "orders-0" in path else self._of_orders.discard)(descriptor)
            return descriptor

        def failing_write(descriptor: int, data: bytes, position: int) -> int:
            if self.is_full and descriptor in self._of_orders:
                raise OSError(errno.ENOSPC, "no space left")
            return write(descriptor, data, position)

        self.open, self.pwrite = noting_open, failing_write


def test_a_full_disk_fails_its_partition_only_and_the_log_goes_on_when_there_is_room(tmp_path: Path) -> None:
    disk = FillableDisk()
    node = a_node(storage=files_in(tmp_path, disk), topics={"orders": 2}, tolerates_defects=True)
    client = node.client()
    client.ask(produce_of("orders", a_batch(b"1"), a_batch(b"2")), 9)
    disk.is_full = True
    first, second = client.ask(produce_of("orders", a_batch(b"3"), a_batch(b"4")), 9).responses[0].partition_responses
    assert (first.error_code, second.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)
    assert "no space left" in str(first.error_message)
    assert [type(defect) for defect in node.defects] == [LogError]
    disk.is_full = False
    assert produce(client, "orders", a_batch(b"5")).base_offset == 1
    assert values_in(stored(node)) == [b"1", b"5"]
    node.close()
