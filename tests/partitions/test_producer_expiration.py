"""Producers that write no more are forgotten after producer.id.expiration.ms."""

from __future__ import annotations

import pytest

from kshim.partitions.producer_expiration import CHECK_INTERVAL_MS
from kshim.partitions.producer_state import ProducerState
from kshim_protocol.errors import ErrorCode
from kshim_protocol.records.batch import parse_batch_header
from tests.broker.data_plane import a_batch, produce
from tests.broker.harness import START_WALL_MS, NodeUnderTest, a_node

DAY_MS = 86_400_000


def send(node: NodeUnderTest, sequence: int, *, timestamp_ms: int = START_WALL_MS) -> tuple[int, int]:
    """(error code, base offset)."""
    batch = a_batch(timestamp_ms=timestamp_ms, producer_id=7, producer_epoch=0, base_sequence=sequence)
    answer = produce(node.client(), "orders", batch)
    return answer.error_code, answer.base_offset


def pass_time(node: NodeUnderTest, ms: int) -> None:
    node.pass_ms(ms)
    node.run_background_tasks()


def test_a_repeated_batch_is_recognized_for_a_day_and_is_a_new_one_after_that() -> None:
    node = a_node(topics={"orders": 1})
    assert send(node, 0) == (ErrorCode.NONE, 0)
    pass_time(node, DAY_MS - 1)
    assert send(node, 0) == (ErrorCode.NONE, 0)
    pass_time(node, CHECK_INTERVAL_MS)
    assert send(node, 0) == (ErrorCode.NONE, 1)


def test_a_producer_that_was_forgotten_goes_on_with_any_sequence_number() -> None:
    node = a_node({"producer.id.expiration.ms": "1000"}, topics={"orders": 1})
    assert send(node, 0) == (ErrorCode.NONE, 0)
    assert send(node, 5)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    pass_time(node, CHECK_INTERVAL_MS)
    assert send(node, 5) == (ErrorCode.NONE, 1)


def test_the_time_may_be_altered_while_the_broker_runs() -> None:
    node = a_node(topics={"orders": 1})
    assert send(node, 0) == (ErrorCode.NONE, 0)
    node.cluster.dynamic_configs.replace("brokers", "", {"producer.id.expiration.ms": "1000"})
    pass_time(node, CHECK_INTERVAL_MS)
    assert send(node, 0) == (ErrorCode.NONE, 1)


def test_a_producer_that_writes_old_records_is_remembered_while_it_writes() -> None:
    node = a_node({"producer.id.expiration.ms": str(2 * CHECK_INTERVAL_MS)}, topics={"orders": 1})
    assert send(node, 0, timestamp_ms=1) == (ErrorCode.NONE, 0)
    pass_time(node, CHECK_INTERVAL_MS)
    assert send(node, 0, timestamp_ms=1) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize(("is_transactional", "is_known"), [(False, False), (True, True)])
def test_a_producer_with_an_open_transaction_is_remembered(is_transactional: bool, is_known: bool) -> None:
    producers = ProducerState()
    batch = a_batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=is_transactional)
    producers.appended(batch, 0, START_WALL_MS)
    producers.expire(START_WALL_MS + 999, expiration_ms=1_000)
    assert producers.check(parse_batch_header(batch)) is not None
    producers.expire(START_WALL_MS + DAY_MS, expiration_ms=1_000)
    assert (producers.check(parse_batch_header(batch)) is not None) == is_known
