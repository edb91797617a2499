"""InitProducerId with a transactional id: every outcome was checked live on Kafka 4.4 with transaction.version 0."""

from __future__ import annotations

import pytest

from kshim.coordinator.transactions.state import TransactionState
from kshim.coordinator.transactions.transaction import LAST_EPOCH
from kshim_protocol.errors import ErrorCode
from tests.coordinator.transactions.harness import START_WALL_MS, Producer, World


def test_a_new_id_gets_a_producer_id_and_epoch_0_and_a_record() -> None:
    world = World()
    producer = world.init("x", timeout_ms=5_000)
    assert producer.key == (1000, 0)
    (record,) = world.records("x")
    assert record is not None
    assert (record.producer_id, record.producer_epoch, record.transaction_timeout_ms) == (1000, 0, 5_000)
    assert (record.transaction_status, record.transaction_partitions) == (0, None)
    assert (record.transaction_start_timestamp_ms, record.transaction_last_update_timestamp_ms) == (-1, START_WALL_MS)


def test_each_producer_fences_the_ones_before_it() -> None:
    world = World()
    first, second = world.init("x"), world.init("x")
    assert second.key == (first.producer_id, 1)
    assert first.add(("t", 0)) is ErrorCode.PRODUCER_FENCED
    assert first.add(("t", 0), version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.end(committed=True) is ErrorCode.PRODUCER_FENCED
    assert first.end(committed=True, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.add_group() is ErrorCode.PRODUCER_FENCED
    assert first.may_write("t", 0) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_goes_on_after_an_error_gets_the_next_epoch_and_the_same_again_if_it_asks_again() -> None:
    world = World()
    producer = world.init("x")
    after = world.init("x", known=producer.key)
    again = world.init("x", known=producer.key)
    assert (after.key, again.key) == ((1000, 1), (1000, 1))


@pytest.mark.parametrize(("version", "error"), [(5, "PRODUCER_FENCED"), (3, "INVALID_PRODUCER_EPOCH")])
def test_a_producer_that_was_fenced_cannot_go_on(version: int, error: str) -> None:
    world = World()
    first = world.init("x")
    world.init("x")
    assert world.initializing("x", known=first.key, version=version).error is ErrorCode[error]
    assert world.initializing("x", known=(4711, 0), version=version).error is ErrorCode[error]


def test_the_epoch_before_is_forgotten_with_a_crash_as_in_kafka() -> None:
    world = World()
    producer = world.init("x")
    world.init("x", known=producer.key)
    world.restart()
    assert world.initializing("x", known=producer.key).error is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_must_be_positive_and_at_most_what_the_broker_allows(timeout_ms: int) -> None:
    world = World()
    assert world.initializing("x", timeout_ms=timeout_ms).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert world.initializing("", timeout_ms=timeout_ms).error is ErrorCode.INVALID_REQUEST
    assert not world.logs


def test_an_open_transaction_is_aborted_with_an_epoch_of_its_own_and_the_new_producer_retries() -> None:
    world = World()
    old = world.init("x")
    assert old.add(("t", 0), ("t", 2)) is ErrorCode.NONE
    assert world.initializing("x").error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.markers == [("t", 0, (1000, 1), "abort"), ("t", 2, (1000, 1), "abort")]
    assert old.end(committed=True) is ErrorCode.PRODUCER_FENCED
    assert world.init("x").key == (1000, 2)


def test_while_markers_are_written_a_new_producer_waits() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    with world.nothing_becomes_durable():
        producer.end(committed=True)
        assert world.initializing("x").error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.init("x").key == (1000, 1)


def exhausted(world: World) -> Producer:
    """The producer of id x with the last epoch a client is given."""
    world.init("x")
    transaction = world.transaction("x")
    transaction.facts = transaction.facts._replace(producer_epoch=LAST_EPOCH - 1)
    return world.init("x")


def test_when_epochs_are_used_up_there_is_a_fresh_producer_id() -> None:
    world = World()
    exhausted(world)
    assert world.init("x").key == (1001, 0)


def test_who_did_not_get_the_answer_with_the_fresh_id_gets_it_again() -> None:
    world = World()
    exhausted(world)
    known = (1000, LAST_EPOCH)
    assert [world.init("x", known=known).key for _ in range(3)] == [(1001, 0)] * 3


def test_a_producer_with_the_last_epoch_can_still_be_fenced(level: int) -> None:
    world = World()
    producer = exhausted(world)
    assert producer.key == (1000, LAST_EPOCH)
    producer.add(("t", 0))
    assert world.initializing("x").error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.markers == [("t", 0, (1000, LAST_EPOCH + 1), "abort")]
    assert world.init("x").key == (1001, 1 if level == 2 else 0)  # version 2 began the new producer id with the abort


def test_what_could_not_be_written_has_not_happened() -> None:
    world = World()
    world.append_errors.append(ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.initializing("x").error is ErrorCode.NOT_COORDINATOR
    assert world.coordinator.transaction("x") is None
    producer = world.init("x")
    producer.add(("t", 0))
    world.append_errors.append(ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.initializing("x").error is ErrorCode.NOT_COORDINATOR
    assert (world.transaction("x").state, world.markers) == (TransactionState.ONGOING, [])
    assert producer.end(committed=True) is ErrorCode.NONE
