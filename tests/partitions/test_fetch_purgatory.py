"""Fetches that wait: until enough bytes are there, until their time is over, until the topic or the client goes."""

from __future__ import annotations

import errno
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from kshim.partitions.fetch_purgatory import FetchPurgatory, WaitingFetch
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.fetch import FetchResponse
from tests.broker.data_plane import a_batch, fetch_of, only_partition, produce, produce_of, values_in
from tests.broker.harness import Client, NodeUnderTest, a_node, files_in
from tests.broker.test_fetch import CountingReads
from tests.broker.test_read_committed import Transactions


def values(response: FetchResponse) -> list[list[bytes | None]]:
    return [values_in(partition.records) for topic in response.responses for partition in topic.partitions]


def waiting(node: NodeUnderTest, *places: tuple[str | bytes, int, int], version: int = 12, **options: Any) -> Client:
    """A consumer whose Fetch is parked (for 500 ms unless told)."""
    consumer = node.client("consumer")
    consumer.send(fetch_of(*places, **{"max_wait_ms": 500, **options}), version)
    assert consumer.is_waiting
    return consumer


def test_a_fetch_waits_no_longer_than_it_asked_for(node: NodeUnderTest) -> None:
    consumer = waiting(node, ("orders", 0, 0))
    node.pass_ms(499)
    assert consumer.is_waiting
    node.pass_ms(1)
    answer = only_partition(consumer.take(FetchResponse))
    assert (answer.error_code, answer.records, answer.high_watermark) == (ErrorCode.NONE, b"", 0)
    assert node.node.next_real_deadline() is None


@pytest.mark.parametrize("max_wait_ms", [0, -1])
def test_a_fetch_that_does_not_want_to_wait_is_answered_at_once(node: NodeUnderTest, max_wait_ms: int) -> None:
    assert values(node.client().ask(fetch_of(("orders", 0, 0), max_wait_ms=max_wait_ms), 12)) == [[]]


@pytest.mark.parametrize("min_bytes", [0, -1])
def test_a_fetch_that_needs_no_bytes_is_answered_at_once(node: NodeUnderTest, min_bytes: int) -> None:
    assert values(node.client().ask(fetch_of(("orders", 0, 0), max_wait_ms=500, min_bytes=min_bytes), 12)) == [[]]


def test_a_fetch_of_nothing_is_answered_at_once(node: NodeUnderTest) -> None:
    assert node.client().ask(fetch_of(max_wait_ms=500), 12) == FetchResponse(responses=())


def test_an_append_answers_the_fetch_before_the_producer(node: NodeUnderTest) -> None:
    consumer = waiting(node, ("orders", 0, 0), ("orders", 1, 0), ("clicks", 0, 0))
    produce(node.client(), "orders", a_batch(b"1"), first_partition=1)
    assert values(consumer.take(FetchResponse)) == [[], [b"1"], []]
    assert len(node.cluster.fetch_purgatory) == 0


def test_all_that_wait_for_a_partition_are_answered_and_no_others(node: NodeUnderTest) -> None:
    first, second = waiting(node, ("orders", 0, 0)), waiting(node, ("clicks", 0, 0), ("orders", 0, 0))
    other = waiting(node, ("orders", 1, 0))
    produce(node.client(), "orders", a_batch(b"1"))
    assert values(first.take(FetchResponse)) == [[b"1"]]
    assert values(second.take(FetchResponse)) == [[], [b"1"]]
    assert other.is_waiting


def test_who_waits_for_several_partitions_sees_all_that_one_request_writes_to_them(node: NodeUnderTest) -> None:
    consumer = waiting(node, ("orders", 0, 0), ("orders", 1, 0))
    node.client().send(produce_of("orders", a_batch(b"1"), a_batch(b"2")), 12)
    assert values(consumer.take(FetchResponse)) == [[b"1"], [b"2"]]


def test_bytes_are_counted_over_all_partitions_those_there_before_included(node: NodeUnderTest) -> None:
    producer = node.client()
    batch = a_batch(b"x" * 100)
    produce(producer, "orders", batch)
    consumer = waiting(node, ("orders", 0, 0), ("orders", 1, 0), ("clicks", 0, 0), min_bytes=3 * len(batch))
    produce(producer, "orders", batch, first_partition=1)
    produce(producer, "clicks", batch, first_partition=1)
    assert consumer.is_waiting
    produce(producer, "clicks", batch)
    assert values(consumer.take(FetchResponse)) == [[b"x" * 100]] * 3


def test_what_is_there_already_may_be_enough(node: NodeUnderTest) -> None:
    batch = a_batch(b"x" * 100)
    for partition in (0, 1):
        produce(node.client(), "orders", batch, first_partition=partition)
    both = fetch_of(("orders", 0, 0), ("orders", 1, 0), min_bytes=2 * len(batch), max_wait_ms=500)
    assert values(node.client().ask(both, 12)) == [[b"x" * 100]] * 2


def test_no_more_is_waited_for_than_may_be_sent(node: NodeUnderTest) -> None:
    produce(node.client(), "orders", a_batch(b"1"))
    request = fetch_of(("orders", 0, 0), min_bytes=10**6, max_bytes=1, max_wait_ms=500)
    assert values(node.client().ask(request, 12)) == [[b"1"]]


def test_bytes_beyond_the_limit_of_their_partition_do_not_count(node: NodeUnderTest) -> None:
    produce(node.client(), "orders", a_batch(b"x" * 1000))
    consumer = waiting(node, ("orders", 0, 0), min_bytes=200, partition_max_bytes=100)
    node.pass_ms(500)
    assert values(consumer.take(FetchResponse)) == [[b"x" * 1000]]


def test_an_offset_out_of_range_is_told_at_once(node: NodeUnderTest) -> None:
    reply = node.client().ask(fetch_of(("orders", 0, 0), ("orders", 1, 5), max_wait_ms=500), 12)
    assert [topic.partitions[0].error_code for topic in reply.responses] == [
        ErrorCode.NONE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    ]


def test_an_unknown_partition_does_not_end_the_wait_for_the_others(node: NodeUnderTest) -> None:
    consumer = waiting(node, ("nothing", 0, 0), ("orders", 0, 0))
    produce(node.client(), "orders", a_batch(b"1"))
    known, unknown = consumer.take(FetchResponse).responses
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert values_in(known.partitions[0].records) == [b"1"]


@pytest.mark.parametrize("version", [12, 13, 18])
def test_deleting_a_topic_answers_those_who_wait_for_it(node: NodeUnderTest, version: int) -> None:
    topic, other = node.cluster.topics.named("orders"), node.cluster.topics.named("clicks")
    assert topic is not None
    assert other is not None
    names = (topic.topic_id, other.topic_id) if version >= 13 else (topic.name, other.name)
    consumer = waiting(node, (names[0], 0, 0), (names[1], 0, 0), version=version)
    node.cluster.delete_topic(topic, node.now)
    reply = consumer.take(FetchResponse)
    assert [answered.partitions[0].error_code for answered in reply.responses] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]


def test_a_topic_made_anew_under_its_name_is_another_one_for_those_who_wait_by_id(node: NodeUnderTest) -> None:
    topic = node.cluster.topics.named("orders")
    assert topic is not None
    consumer = waiting(node, (topic.topic_id, 0, 0), version=13)
    node.cluster.delete_topic(topic, node.now)
    node.topic("orders", 2)
    produce(node.client(), "orders", a_batch(b"1"))
    assert only_partition(consumer.take(FetchResponse)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert only_partition(consumer.ask(fetch_of((topic.topic_id, 0, 0)), 13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_records_deleted_during_the_wait_are_out_of_range_at_its_end(node: NodeUnderTest) -> None:
    produce(node.client(), "orders", a_batch(b"1", b"2"))
    consumer = waiting(node, ("orders", 0, 0), min_bytes=10**6)
    node.log("orders").delete_before(2)
    node.pass_ms(500)
    assert only_partition(consumer.take(FetchResponse)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_client_that_goes_away_is_not_answered(node: NodeUnderTest) -> None:
    consumer = waiting(node, ("orders", 0, 0))
    consumer.close()
    assert len(node.cluster.fetch_purgatory) == 0
    produce(node.client(), "orders", a_batch(b"1"))
    node.pass_ms(500)
    assert not consumer.unread


def test_a_request_behind_a_parked_fetch_of_another_connection_is_not_held_up(node: NodeUnderTest) -> None:
    waiting(node, ("orders", 0, 0))
    assert values(node.client().ask(fetch_of(("clicks", 0, 0)), 12)) == [[]]


@pytest.mark.parametrize(
    ("failure", "request_error", "error"),
    [
        (OSError(errno.EIO, "I/O error"), ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR),
        (AssertionError("a defect"), ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_goes_wrong_when_a_fetch_wakes_is_no_matter_of_the_producer(
    tmp_path: Path, failure: Exception, request_error: ErrorCode, error: ErrorCode
) -> None:
    disk = CountingReads()
    node = a_node(storage=files_in(tmp_path, disk), topics={"orders": 1}, tolerates_defects=True)
    producer = node.client()
    consumer = waiting(node, ("orders", 0, 0))
    disk.failure = failure
    assert produce(producer, "orders", a_batch(b"1")).error_code == ErrorCode.NONE
    reply = consumer.take(FetchResponse)
    assert (reply.error_code, only_partition(reply).error_code) == (request_error, error)
    assert len(node.defects) == 1
    node.close()


def test_what_cannot_be_read_after_an_append_is_reported_and_the_fetches_are_answered(tmp_path: Path) -> None:
    disk = CountingReads()
    node = a_node(storage=files_in(tmp_path, disk), topics={"orders": 1}, tolerates_defects=True)
    transactions = Transactions(node)
    transactions.write(7, b"a")
    transactions.plain(b"b")
    node.log("orders").roll()
    consumer = waiting(node, ("orders", 0, 0), isolation_level=1)
    disk.failure = OSError(errno.EIO, "Input/output error")
    assert transactions.end(7, commit=True) == 2
    assert only_partition(consumer.take(FetchResponse)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.defects
    disk.failure = None
    assert transactions.committed() == [b"a", b"b"]
    node.close()


def test_deadlines_of_fetches_that_were_answered_early_do_not_pile_up(node: NodeUnderTest) -> None:
    waits = node.cluster.fetch_purgatory
    consumer, producer = node.client(), node.client()
    lasting = waiting(node, ("clicks", 0, 0), max_wait_ms=10**9)
    for offset in range(1000):
        consumer.send(fetch_of(("orders", 0, offset), max_wait_ms=10**9), 12)
        produce(producer, "orders", a_batch())
        consumer.take(FetchResponse)
    assert len(waits._deadlines) < 100
    assert lasting.is_waiting
    assert node.node.next_real_deadline() is not None


def test_an_answered_wait_holds_on_to_nothing(node: NodeUnderTest) -> None:
    waits = FetchPurgatory()
    partition = node.cluster.topics.named("orders").partitions[0]  # type: ignore[union-attr]

    class Answer:
        def __call__(self) -> None:
            pass

    answer = Answer()
    gone = weakref.ref(answer)
    waits.add(WaitingFetch(node.client(), [partition], 1, node.real_ms + 10**9, answer))
    waits.appended(partition, 1, 1)
    del answer
    gc.collect()
    assert gone() is None
    assert len(waits) == 0
