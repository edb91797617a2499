"""Idempotent producers: numbered batches are stored once and in order (KIP-98). Outcomes as seen on Kafka 4.4."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.partitions.producer_state import ProducerState
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.produce import PartitionProduceResponse
from kshim_protocol.records.batch import parse_batch_header
from tests.broker.data_plane import a_batch, fetch_of, only_partition, produce, values_in
from tests.broker.harness import START_WALL_MS, NodeUnderTest, a_node, files_in
from tests.conftest import MakeNode

LAST = 2**31 - 1
"""The greatest sequence number; 0 follows."""


class Producer:
    """Writes numbered batches of `count` records to orders-0."""

    def __init__(self, node: NodeUnderTest, producer_id: int = 7) -> None:
        self.client = node.client()
        self.producer_id = producer_id

    def send(
        self, sequence: int, *, count: int = 1, epoch: int = 0, timestamp_ms: int = START_WALL_MS
    ) -> PartitionProduceResponse:
        values = [b"%d" % (sequence + i) for i in range(count)]
        batch = a_batch(
            *values,
            timestamp_ms=timestamp_ms,
            producer_id=self.producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        return produce(self.client, "orders", batch)

    def error(self, sequence: int, *, count: int = 1, epoch: int = 0) -> int:
        return self.send(sequence, count=count, epoch=epoch).error_code

    def offset(self, sequence: int, *, count: int = 1, epoch: int = 0) -> int:
        answer = self.send(sequence, count=count, epoch=epoch)
        assert answer.error_code == ErrorCode.NONE, answer
        return answer.base_offset


@pytest.fixture
def producer(node: NodeUnderTest) -> Producer:
    return Producer(node)


def test_a_repeated_batch_is_answered_with_its_offset_and_not_stored_again(
    node: NodeUnderTest, producer: Producer
) -> None:
    producer.offset(0, count=2)
    producer.offset(2)
    assert producer.offset(0, count=2) == 0
    assert producer.offset(2) == 2
    assert node.log("orders").end_offset == 3


def test_the_answer_to_a_repeated_batch_names_its_timestamp_as_log_append_time(producer: Producer) -> None:
    assert producer.send(0, timestamp_ms=1234).log_append_time_ms == -1
    assert producer.send(0, timestamp_ms=1234).log_append_time_ms == 1234


def test_five_batches_are_remembered(producer: Producer) -> None:
    for sequence in range(6):
        producer.offset(sequence)
    assert [producer.offset(sequence) for sequence in range(1, 6)] == [1, 2, 3, 4, 5]
    assert producer.error(0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("sequence", [4, 9])
def test_a_gap_and_a_step_back_are_out_of_order(producer: Producer, sequence: int) -> None:
    producer.offset(5)
    producer.offset(6)
    producer.offset(7)
    assert producer.error(sequence) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.error(8) == ErrorCode.NONE


def test_a_batch_that_is_repeated_in_part_is_out_of_order(producer: Producer) -> None:
    producer.offset(0, count=3)
    assert producer.error(0, count=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.error(1, count=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_producer_that_is_not_known_may_begin_anywhere(producer: Producer) -> None:
    assert producer.offset(3) == 0
    assert producer.offset(4) == 1


def test_zero_follows_the_greatest_sequence_number(producer: Producer) -> None:
    producer.offset(LAST)
    assert producer.offset(0) == 1
    assert producer.offset(LAST) == 0


def test_a_batch_may_reach_over_the_greatest_sequence_number(producer: Producer) -> None:
    producer.offset(LAST - 1, count=3)
    assert producer.error(0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.offset(1) == 3
    assert producer.offset(LAST - 1, count=3) == 0


def test_a_new_epoch_begins_with_zero_and_fences_the_old_one(producer: Producer) -> None:
    producer.offset(0)
    producer.offset(1)
    assert producer.error(2, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.offset(0, epoch=1) == 2
    assert producer.error(2, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.error(1, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.offset(0, epoch=1) == 2
    assert producer.offset(1, epoch=1) == 3


def test_an_epoch_of_minus_one_promises_no_order(producer: Producer) -> None:
    assert producer.offset(0, epoch=-1) == 0
    assert producer.offset(5, epoch=-1) == 1
    assert producer.offset(9, epoch=0) == 2
    assert producer.error(10, epoch=-1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_and_partitions_do_not_mix(node: NodeUnderTest, producer: Producer) -> None:
    producer.offset(0)
    assert Producer(node, producer_id=8).offset(0) == 1
    batch = a_batch(producer_id=7, producer_epoch=0, base_sequence=0)
    assert produce(node.client(), "orders", batch, first_partition=1).base_offset == 0
    assert produce(node.client(), "clicks", batch).base_offset == 0


def test_a_refused_batch_leaves_no_trace(make_node: MakeNode) -> None:
    node = make_node({"message.max.bytes": "200"}, topics={"orders": 1})
    producer = Producer(node)
    assert producer.error(0, count=30) == ErrorCode.MESSAGE_TOO_LARGE
    assert producer.offset(0) == 0


def test_batches_without_producer_id_are_not_compared(node: NodeUnderTest) -> None:
    client = node.client()
    batch = a_batch(producer_id=-1, producer_epoch=0, base_sequence=0)
    assert [produce(client, "orders", batch).base_offset for _ in range(2)] == [0, 1]


def test_after_a_restart_producers_are_read_from_the_log(tmp_path: Path) -> None:
    before = a_node(storage=files_in(tmp_path), topics={"orders": 1})
    producer = Producer(before)
    producer.offset(0, count=2)
    producer.offset(2)
    producer.offset(0, epoch=1)
    before.close()
    after = a_node(storage=files_in(tmp_path))
    producer = Producer(after)
    assert producer.offset(0, epoch=1) == 3
    assert producer.error(3, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.offset(1, epoch=1) == 4
    after.close()


def test_producer_ids_given_after_a_restart_are_new(tmp_path: Path) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    before = a_node(storage=files_in(tmp_path), topics={"orders": 1})
    first = [before.client().ask(request).producer_id for _ in range(3)]
    before.close()
    after = a_node(storage=files_in(tmp_path))
    second = [after.client().ask(request).producer_id for _ in range(3)]
    after.close()
    assert len({*first, *second}) == 6
    assert min(first + second) >= 0
    assert max(first + second) < 2**63


@given(st.lists(st.integers(min_value=-6, max_value=2), max_size=60), st.integers(min_value=1, max_value=3))
def test_whatever_is_sent_again_the_log_holds_each_batch_once_and_in_order(steps: list[int], count: int) -> None:
    node = a_node(topics={"orders": 1})
    producer = Producer(node)
    producer.offset(0, count=count)
    stored = 1
    for step in steps:
        index = stored + step  # 0: the next one, below: sent before, above: too early
        if index < 0:
            continue
        answer = producer.send(index * count, count=count)
        if step == 0:
            stored += 1
        if -5 <= step <= 0:
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, index * count)
        else:
            assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    data = only_partition(node.client().ask(fetch_of(("orders", 0, 0)), 12)).records
    assert values_in(data) == [b"%d" % i for i in range(stored * count)]


def test_replay_leaves_the_same_memory_as_the_writing() -> None:
    written, replayed = ProducerState(), ProducerState()
    batches = []
    for sequence in range(8):
        batch = a_batch(base_offset=sequence, producer_id=7, producer_epoch=0, base_sequence=sequence)
        written.appended(batch, sequence, START_WALL_MS)
        batches.append(batch)
    replayed.replay(batches)
    for batch in batches[3:]:
        assert replayed.check(parse_batch_header(batch)) == written.check(parse_batch_header(batch)) is not None
