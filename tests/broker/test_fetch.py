"""Fetch: what is read, how much of it, and what is answered where nothing can be read."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from kshim.storage.os_calls import OsCalls
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.fetch import EpochEndOffset, FetchRequest, FetchResponse, PartitionData, ReplicaState
from kshim_protocol.records.batch import set_base_offset
from tests.broker.data_plane import a_batch, fetch_of, only_partition, produce, values_in
from tests.broker.harness import Client, NodeUnderTest, a_node, files_in
from tests.conftest import MakeNode


@pytest.fixture
def client(node: NodeUnderTest) -> Client:
    """Connected to a node whose orders-0 holds three batches of three records: offsets 0-8, values b"0"-b"8"."""
    client = node.client()
    for first in (0, 3, 6):
        produce(client, "orders", a_batch(*(b"%d" % (first + i) for i in range(3))))
    return client


BATCH_BYTES = len(a_batch(b"0", b"1", b"2"))


def fetch(client: Client, request: FetchRequest, version: int = 12) -> PartitionData:
    return only_partition(client.ask(request, version))


def all_values(response: FetchResponse) -> list[list[bytes | None]]:
    return [values_in(partition.records) for topic in response.responses for partition in topic.partitions]


@pytest.mark.parametrize("version", range(4, 19))
def test_records_come_as_they_were_sent_in_every_version(node: NodeUnderTest, version: int) -> None:
    topic = node.cluster.topics.named("orders")
    assert topic is not None
    client = node.client()
    batch = a_batch(b"1", b"2")
    produce(client, "orders", batch)
    produce(client, "orders", batch)
    reply = client.ask(fetch_of((topic.topic_id if version >= 13 else "orders", 0, 0)), version)
    answer = only_partition(reply)
    assert (reply.error_code, reply.session_id) == (ErrorCode.NONE, 0)
    assert (reply.responses[0].topic, reply.responses[0].topic_id) == (
        ("", topic.topic_id) if version >= 13 else ("orders", bytes(16))
    )
    assert answer == PartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        high_watermark=4,
        last_stable_offset=4,
        log_start_offset=0 if version >= 5 else -1,
        aborted_transactions=None,
        records=set_base_offset(batch, 0) + set_base_offset(batch, 2),
    )


def test_read_committed_gets_an_empty_list_of_aborted_transactions(client: Client) -> None:
    answer = fetch(client, fetch_of(("orders", 0, 0), isolation_level=1))
    assert answer.aborted_transactions == ()
    assert answer.last_stable_offset == 9
    assert values_in(answer.records) == [b"%d" % i for i in range(9)]


def test_reading_begins_with_the_batch_that_holds_the_offset(client: Client) -> None:
    assert values_in(fetch(client, fetch_of(("orders", 0, 4))).records) == [b"%d" % i for i in range(3, 9)]


def test_at_the_end_there_are_no_records_and_no_error(client: Client) -> None:
    answer = fetch(client, fetch_of(("orders", 0, 9)))
    assert (answer.error_code, answer.records, answer.high_watermark) == (ErrorCode.NONE, b"", 9)


@pytest.mark.parametrize("offset", [-1, 10])
def test_an_offset_outside_the_log_is_out_of_range(client: Client, offset: int) -> None:
    answer = fetch(client, fetch_of(("orders", 0, offset)))
    assert answer == PartitionData(
        partition_index=0,
        error_code=ErrorCode.OFFSET_OUT_OF_RANGE,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )


def test_records_before_the_log_start_are_out_of_range(node: NodeUnderTest, client: Client) -> None:
    node.log("orders").delete_before(4)
    assert fetch(client, fetch_of(("orders", 0, 3))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    answer = fetch(client, fetch_of(("orders", 0, 4)))
    assert answer.log_start_offset == 4
    assert values_in(answer.records)[-1] == b"8"


@pytest.mark.parametrize("limit", ["partition_max_bytes", "max_bytes"])
@pytest.mark.parametrize(
    ("max_bytes", "values"),
    [(0, 3), (1, 3), (BATCH_BYTES, 3), (2 * BATCH_BYTES - 1, 3), (2 * BATCH_BYTES, 6), (10**6, 9)],
)
def test_limits_hold_but_for_the_first_batch(client: Client, limit: str, max_bytes: int, values: int) -> None:
    options: dict[str, Any] = {limit: max_bytes}
    assert len(values_in(fetch(client, fetch_of(("orders", 0, 0), **options)).records)) == values


def test_the_broker_has_a_limit_of_its_own(make_node: MakeNode) -> None:
    node = make_node({"fetch.max.bytes": "1024"}, topics={"orders": 1})
    client = node.client()
    for _ in range(3):
        produce(client, "orders", a_batch(b"x" * 500))
    assert len(values_in(fetch(client, fetch_of(("orders", 0, 0))).records)) == 1


def test_bytes_are_spent_in_the_order_of_the_request(node: NodeUnderTest, client: Client) -> None:
    produce(client, "clicks", a_batch(b"a", b"b", b"c"))
    places = (("clicks", 1, 0), ("clicks", 0, 0), ("orders", 0, 0))
    assert all_values(client.ask(fetch_of(*places, max_bytes=1), 12)) == [[], [b"a", b"b", b"c"], []]
    assert all_values(client.ask(fetch_of(*places, max_bytes=3 * BATCH_BYTES), 12)) == [
        [],
        [b"a", b"b", b"c"],
        [b"0", b"1", b"2", b"3", b"4", b"5"],
    ]
    assert all_values(client.ask(fetch_of(*places, partition_max_bytes=1), 12)) == [[], [b"a", b"b", b"c"], []]


@pytest.mark.parametrize(
    ("place", "version", "error"),
    [
        (("nothing", 0, 0), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("orders", 2, 0), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("orders", -1, 0), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((b"\x05" * 16, 0, 0), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        ((bytes(16), 0, 0), 13, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_what_does_not_exist_is_an_error_at_once(
    client: Client, place: tuple[str | bytes, int, int], version: int, error: ErrorCode
) -> None:
    answer = fetch(client, fetch_of(place, max_wait_ms=60_000), version)
    assert (answer.error_code, answer.high_watermark, answer.records) == (error, -1, b"")


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ({"current_leader_epoch": 0}, ErrorCode.NONE),
        ({"current_leader_epoch": -2}, ErrorCode.NONE),
        ({"current_leader_epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"last_fetched_epoch": 0}, ErrorCode.NONE),
        ({"last_fetched_epoch": -2}, ErrorCode.NONE),
        ({"last_fetched_epoch": 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_epochs_other_than_the_only_one_are_noticed(client: Client, rows: dict[str, int], error: ErrorCode) -> None:
    assert fetch(client, fetch_of(("orders", 0, 9), partition=rows)).error_code == error


def test_a_reader_beyond_the_end_of_its_epoch_learns_where_that_was(client: Client) -> None:
    answer = fetch(client, fetch_of(("orders", 0, 99), max_wait_ms=60_000, partition={"last_fetched_epoch": 0}))
    assert answer.error_code == ErrorCode.NONE
    assert answer.diverging_epoch == EpochEndOffset(epoch=0, end_offset=9)
    assert answer.records == b""


def test_nobody_follows_this_broker(node: NodeUnderTest, client: Client) -> None:
    topic_id = node.cluster.topics.topic_id("orders")
    assert topic_id is not None
    old = fetch(client, fetch_of(("orders", 0, 0), replica_id=5))
    new = fetch(client, fetch_of((topic_id, 0, 0), replica_state=ReplicaState(replica_id=5, replica_epoch=1)), 15)
    assert old.error_code == new.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("level", [-1, 2])
def test_an_isolation_level_that_does_not_exist_fails_the_request(client: Client, level: int) -> None:
    reply = client.ask(fetch_of(("orders", 0, 0), isolation_level=level), 12)
    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("limit", ["partition_max_bytes", "max_bytes"])
def test_a_negative_limit_is_an_error(client: Client, limit: str) -> None:
    options: dict[str, Any] = {limit: -1}
    assert fetch(client, fetch_of(("orders", 0, 0), **options)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


class CountingReads(OsCalls):
    """Counts what is read of files; raises `failure` when there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.failure: Exception | None = None
        read = self.pread

        def counting(descriptor: int, size: int, position: int) -> bytes:
            self.count += 1
            if self.failure is not None:
                raise self.failure
            return read(descriptor, size, position)

        self.pread = counting


def test_idle_partitions_are_answered_without_reading_a_file(tmp_path: Path) -> None:
    disk = CountingReads()
    node = a_node(storage=files_in(tmp_path, disk), topics={"orders": 50})
    client = node.client()
    for partition in range(50):
        produce(client, "orders", a_batch(), first_partition=partition)
    disk.count = 0
    client.send(fetch_of(*(("orders", partition, 1) for partition in range(50)), max_wait_ms=500), 12)
    node.pass_ms(500)
    assert all_values(client.take(FetchResponse)) == [[]] * 50
    assert disk.count == 0
    node.close()


def test_a_disk_that_cannot_be_read_fails_its_partition_only(tmp_path: Path) -> None:
    disk = CountingReads()
    node = a_node(storage=files_in(tmp_path, disk), topics={"orders": 1, "clicks": 1}, tolerates_defects=True)
    client = node.client()
    produce(client, "orders", a_batch())
    disk.failure = OSError(errno.EIO, "I/O error")
    first, second = client.ask(fetch_of(("orders", 0, 0), ("clicks", 0, 0), max_wait_ms=60_000), 12).responses
    assert first.partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert second.partitions[0].error_code == ErrorCode.NONE
    assert len(node.defects) == 1
    node.close()
