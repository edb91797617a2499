"""EndTxn of clients of transaction.version 2 (KIP-890): each transaction ends with the epoch of the next one.

Outcomes and records are those of a live Kafka 4.4.
"""

from __future__ import annotations

import pytest

from kshim.coordinator.transactions.state import TransactionState
from kshim.coordinator.transactions.transaction import LAST_EPOCH
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.transaction_log import TransactionLogValue
from tests.coordinator.transactions.harness import Producer, World


@pytest.fixture(params=[1, 2], ids=["level1", "level2"], autouse=True)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Both levels that have room for it."""
    found: int = request.param
    monkeypatch.setattr(World, "level", found)
    return found


def ended(producer: Producer, *, committed: bool, epoch: int | None = None) -> tuple[ErrorCode, int, int]:
    """EndTxn v5: error, producer id, epoch. The producer does not take note of it."""
    if epoch is not None:
        producer = Producer(producer.world, producer.transactional_id, producer.producer_id, epoch)
    reply = producer.ending(committed=committed, version=5).reply
    return ErrorCode(reply.error_code), reply.producer_id, reply.producer_epoch


def next_of(producer: Producer, *, committed: bool) -> Producer:
    """The same producer after EndTxn v5."""
    error, producer_id, epoch = ended(producer, committed=committed)
    assert error is ErrorCode.NONE
    return Producer(producer.world, producer.transactional_id, producer_id, epoch)


def last_epoch(world: World) -> Producer:
    """A producer that was given the last epoch."""
    producer = world.init("x")
    facts = world.transaction("x").facts
    world.transaction("x").facts = facts._replace(producer_epoch=LAST_EPOCH)
    return Producer(world, "x", producer.producer_id, LAST_EPOCH)


def tagged(value: TransactionLogValue | None) -> tuple[int, ...]:
    """Status, producer id, epoch; then previous and next producer id and the version of the client."""
    assert value is not None
    return (
        value.transaction_status,
        value.producer_id,
        value.producer_epoch,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )


def refused(error: ErrorCode) -> tuple[ErrorCode, int, int]:
    return error, -1, -1


@pytest.mark.parametrize("committed", [True, False])
def test_the_answer_has_the_epoch_of_the_next_transaction_and_so_have_the_markers(committed: bool) -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    assert ended(producer, committed=committed) == (ErrorCode.NONE, 1000, 1)
    assert world.markers == [("t", 0, (1000, 1), "commit" if committed else "abort")]
    assert producer.add(("t", 0)) is ErrorCode.PRODUCER_FENCED
    assert Producer(world, "x", 1000, 1).add(("t", 0)) is ErrorCode.NONE


def test_the_records_of_a_transaction_are_kafkas() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    next_of(producer, committed=True)
    assert [tagged(value) for value in world.records("x")] == [
        (0, 1000, 0, 1000, -1, 0),
        (1, 1000, 0, 1000, -1, 0),  # AddPartitionsToTxn v3 is of an older client
        (2, 1000, 1, 1000, -1, 2),
        (4, 1000, 1, 1000, -1, 2),
    ]


def test_the_answer_comes_before_the_markers() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    world.marker_errors["t", 0] = ErrorCode.KAFKA_STORAGE_ERROR
    assert ended(producer, committed=True) == (ErrorCode.NONE, 1000, 1)
    assert world.transaction("x").state is TransactionState.PREPARE_COMMIT
    assert Producer(world, "x", 1000, 1).add(("t", 1)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_repetition_is_told_to_wait_for_the_markers_and_then_gets_the_same_answer() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    world.marker_errors["t", 0] = ErrorCode.KAFKA_STORAGE_ERROR
    ended(producer, committed=True)
    assert ended(producer, committed=True) == refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert ended(producer, committed=False) == refused(ErrorCode.INVALID_TXN_STATE)
    assert ended(producer, committed=True, epoch=1) == refused(ErrorCode.PRODUCER_FENCED)
    world.marker_errors.clear()
    world.pass_ms(200)
    assert ended(producer, committed=True) == (ErrorCode.NONE, 1000, 1)
    assert ended(producer, committed=False) == refused(ErrorCode.INVALID_TXN_STATE)


def test_a_repetition_is_known_after_a_restart() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    ended(producer, committed=False)
    world.restart()
    assert ended(producer, committed=False) == (ErrorCode.NONE, 1000, 1)


@pytest.mark.parametrize("epoch", [1, 3])
def test_any_other_epoch_is_fenced_while_a_transaction_is_open(epoch: int) -> None:
    world = World()
    producer = next_of(next_of(world.init("x"), committed=False), committed=False)
    producer.add(("t", 0))
    assert ended(producer, committed=True, epoch=epoch) == refused(ErrorCode.PRODUCER_FENCED)


def test_an_unknown_id_and_another_producer_id_are_told_so() -> None:
    world = World()
    producer = world.init("x")
    others = [Producer(world, "y", 1000, 0), Producer(world, "x", 5, 0)]
    found = [ended(other, committed=True) for other in others]
    assert found == [refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)] * 2
    assert ended(Producer(world, "", *producer.key), committed=True) == refused(ErrorCode.INVALID_REQUEST)


def test_an_abort_without_anything_written_bumps_the_epoch_too() -> None:
    world = World()
    first = world.init("x")
    assert ended(first, committed=True) == refused(ErrorCode.INVALID_TXN_STATE)
    second = next_of(first, committed=False)
    assert second.key == (1000, 1)
    assert world.markers == []
    assert ended(second, committed=True) == refused(ErrorCode.INVALID_TXN_STATE)
    assert next_of(second, committed=False).key == (1000, 2)
    *_, prepared, complete = world.records("x")
    assert prepared is not None
    assert complete is not None
    assert (prepared.transaction_status, complete.transaction_status) == (3, 5)
    assert prepared.transaction_start_timestamp_ms == world.now.wall_ms
    assert (prepared.transaction_partitions, complete.transaction_partitions) == ((), ())


def test_an_older_client_goes_on_after_a_transaction_of_version_2_and_bumps_nothing() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    producer = next_of(producer, committed=True)
    producer.add(("t", 0))
    assert producer.end(committed=True, version=4) is ErrorCode.NONE
    assert [tagged(value)[-1] for value in world.records("x")[-3:]] == [0, 0, 0]
    assert world.markers[-1] == ("t", 0, (1000, 1), "commit")
    assert producer.end(committed=True, version=4) is ErrorCode.NONE


def test_after_the_last_epoch_comes_another_producer_id() -> None:
    world = World()
    producer = last_epoch(world)
    producer.add(("t", 0))
    assert ended(producer, committed=True) == (ErrorCode.NONE, 1001, 0)
    assert world.markers == [("t", 0, (1000, LAST_EPOCH + 1), "commit")]
    assert [tagged(value) for value in world.records("x")[-2:]] == [
        (2, 1000, LAST_EPOCH + 1, 1000, 1001, 2),
        (4, 1001, 0, 1000, -1, 2),
    ]
    assert ended(producer, committed=True) == (ErrorCode.NONE, 1001, 0)
    assert ended(producer, committed=False) == refused(ErrorCode.INVALID_TXN_STATE)
    assert Producer(world, "x", 1001, 0).add(("t", 0)) is ErrorCode.NONE
    assert ended(producer, committed=True) == refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def test_the_next_producer_id_is_known_after_a_crash_before_the_markers() -> None:
    world = World()
    producer = last_epoch(world)
    producer.add(("t", 0))
    world.marker_errors["t", 0] = ErrorCode.KAFKA_STORAGE_ERROR
    assert ended(producer, committed=True) == (ErrorCode.NONE, 1001, 0)
    world.marker_errors.clear()
    world.restart()
    assert world.transaction("x").facts[:2] == (1001, 0)
    assert ended(producer, committed=True) == (ErrorCode.NONE, 1001, 0)


def test_a_level_that_was_lowered_to_0_refuses_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    monkeypatch.setattr(World, "level", 0)
    assert ended(producer, committed=True) == refused(ErrorCode.UNSUPPORTED_VERSION)
    assert world.transaction("x").state is TransactionState.ONGOING
    assert producer.end(committed=True, version=4) is ErrorCode.NONE


def test_a_transaction_goes_on_when_the_level_is_changed_under_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    producer = next_of(world.init("x"), committed=False)
    for level in (0, 1, 2, 0):
        monkeypatch.setattr(World, "level", level)
        assert producer.add(("t", 0)) is ErrorCode.NONE
        assert producer.end(committed=True, version=4) is ErrorCode.NONE
        world.restart()
        assert world.transaction("x").facts[:2] == producer.key


def test_an_abort_after_the_timeout_is_of_version_2_at_that_level(level: int) -> None:
    world = World()
    producer = world.init("x", timeout_ms=5_000)
    producer.add(("t", 0))
    world.pass_ms(5_000)
    assert world.markers == [("t", 0, (1000, 1), "abort")]
    assert [tagged(value)[-1] for value in world.records("x")[-2:]] == [level if level == 2 else 0] * 2
    assert ended(producer, committed=True) == refused(ErrorCode.INVALID_TXN_STATE)
    assert ended(producer, committed=False) == (ErrorCode.NONE, 1000, 1)


def test_a_producer_that_goes_on_after_its_transaction_was_aborted_gets_that_epoch_at_level_2(level: int) -> None:
    world = World()
    producer = world.init("x", timeout_ms=5_000)
    producer.add(("t", 0))
    world.pass_ms(5_000)
    reply = world.initializing("x", known=producer.key).reply
    if level == 2:
        assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (0, 1000, 1)
    else:
        assert reply.error_code == ErrorCode.PRODUCER_FENCED


def test_a_producer_that_did_not_get_the_answer_to_its_end_can_ask_for_its_epoch() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    ended(producer, committed=True)
    assert world.init("x", known=producer.key).key == (1000, 1)
    assert world.init("x", known=(1000, 1)).key == (1000, 2)
