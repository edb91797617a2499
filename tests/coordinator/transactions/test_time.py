"""Transactions that stay open too long, ids that nobody uses, and shards that are loaded and given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.coordinator.step import Append, Marker
from kshim.coordinator.transactions.state import TransactionState, mermaid
from kshim.coordinator.transactions.transaction import facts_of, value_of
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.transaction_log import TransactionLogValue
from kshim_protocol.internal.transaction_records import build_transaction_key
from kshim_protocol.records.batch import build_key_value_batch
from tests.coordinator.transactions.harness import World

S = TransactionState


def test_a_transaction_open_for_too_long_is_aborted_and_its_producer_fenced() -> None:
    world = World()
    producer = world.init("x", timeout_ms=5_000)
    producer.add(("t", 0))
    world.pass_ms(4_999)
    producer.add(("t", 1))  # does not prolong it
    assert world.transaction("x").state is S.ONGOING
    world.pass_ms(1)
    assert world.markers == [("t", 0, (1000, 1), "abort"), ("t", 1, (1000, 1), "abort")]
    assert producer.end(committed=True) is ErrorCode.PRODUCER_FENCED
    assert world.init("x").key == (1000, 2)


def test_a_crash_does_not_prolong_a_transaction() -> None:
    world = World()
    world.init("x", timeout_ms=5_000).add(("t", 0))
    world.pass_ms(3_000)
    world.restart()
    world.pass_ms(1_999)
    assert world.markers == []
    world.pass_ms(1)
    assert len(world.markers) == 1


def test_a_timeout_that_cannot_be_written_comes_again() -> None:
    world = World()
    world.init("x", timeout_ms=5_000).add(("t", 0))
    world.append_errors += [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    world.pass_ms(10_000)
    assert len(world.markers) == 1


@pytest.mark.parametrize("committed", [True, None])
def test_a_write_whose_failure_unloads_the_shard_leaves_no_timer_behind(committed: bool | None) -> None:
    world = World()
    producer = world.init("x", timeout_ms=5_000)
    producer.add(("t", 0))
    writes = 0

    def unload(what: Append | Marker) -> None:
        nonlocal writes
        writes += 1
        if isinstance(what, Append) and (committed is None or writes == 3):  # the abort of the timeout, or Complete
            world.append_errors.append(ErrorCode.KAFKA_STORAGE_ERROR)
            world.coordinator.unload(what.partition)

    world.before_write = unload
    if committed is None:
        world.pass_ms(5_000)
    else:
        producer.ending(committed=committed)
    assert writes == (1 if committed is None else 3)
    assert not len(world.coordinator._deadlines)
    world.pass_ms(10**9)


@pytest.mark.parametrize("committed", [True, False, None])
def test_an_id_that_nobody_uses_is_forgotten_with_a_tombstone(committed: bool | None) -> None:
    world = World(transactional_id_expiration_ms=60_000)
    producer = world.init("x")
    if committed is not None:
        world.pass_ms(30_000)
        producer.add(("t", 0))
        producer.end(committed=committed)
    world.pass_ms(59_999)
    assert world.coordinator.transaction("x") is not None
    world.pass_ms(1)
    assert world.coordinator.transaction("x") is None
    assert world.records("x")[-1] is None
    assert producer.add(("t", 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    world.restart()
    assert world.coordinator.transaction("x") is None
    assert world.init("x").key == (1001, 0)


def test_an_open_transaction_never_expires() -> None:
    world = World(transactional_id_expiration_ms=1_000)
    world.init("x", timeout_ms=60_000).add(("t", 0))
    world.pass_ms(59_000)
    assert world.transaction("x").state is S.ONGOING


@pytest.mark.parametrize("committed", [True, False])
def test_loading_writes_the_markers_of_an_outcome_that_stands_again(committed: bool) -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0), ("t", 1))
    world.marker_errors["t", 1] = ErrorCode.KAFKA_STORAGE_ERROR
    producer.end(committed=committed)
    world.marker_errors.clear()
    world.restart()
    outcome = "commit" if committed else "abort"
    assert world.markers == [("t", partition, producer.key, outcome) for partition in (0, 0, 1)]
    assert world.transaction("x").state is (S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT)
    assert producer.end(committed=committed) is ErrorCode.NONE


def test_a_loading_shard_refuses_and_is_asked_for() -> None:
    world = World()
    producer = world.init("x")
    shard = world.coordinator.partition_for("x")
    world.coordinator.unload(shard)
    assert producer.add(("t", 0)) is ErrorCode.NOT_COORDINATOR
    wanted: list[int] = []
    world.coordinator.on_load_wanted = wanted.append
    world.coordinator.begin_load(shard)
    assert producer.add(("t", 0)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert producer.may_write("t", 0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert ErrorCode(world.describe("x").error_code) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert ErrorCode(world.listing().error_code) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert set(wanted) == {shard}


def test_a_shard_that_is_given_up_sends_no_marker_and_ends_nothing() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    with world.nothing_becomes_durable():
        producer.end(committed=True)
        world.coordinator.unload(world.coordinator.partition_for("x"))
    assert world.markers == []
    world.load(world.coordinator.partition_for("x"))
    assert world.markers == [("t", 0, producer.key, "commit")]


def test_a_shard_that_is_loaded_before_the_outcome_is_durable_sends_no_marker_either() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    shard = world.coordinator.partition_for("x")
    with world.nothing_becomes_durable():
        producer.end(committed=True)
        world.coordinator.unload(shard)
        world.load(shard)
        assert world.transaction("x").state is S.PREPARE_COMMIT
        assert world.markers == []
    assert world.markers == [("t", 0, producer.key, "commit")]
    ends = [record for record in world.records("x") if record and record.transaction_status == S.COMPLETE_COMMIT.id]
    assert len(ends) == 1


def test_no_deadline_outlives_its_shard() -> None:
    world = World()
    world.init("x").add(("t", 0))
    world.coordinator.unload(world.coordinator.partition_for("x"))
    world.pass_ms(10_000_000)
    assert world.markers == []


def test_records_of_another_type_are_skipped_and_damaged_ones_refused() -> None:
    world = World()
    world.logs[0] = [build_key_value_batch([(b"\0\x07what", b"ever")], 0)]
    world.restart()
    assert [type(event).__name__ for event in world.events] == ["TransactionRecordsSkipped"]
    world.init("x")
    value = value_of(world.transaction("x").facts)
    for bad in (b"\0\x63", b"\0\0\0"):
        world.logs[0] = [build_key_value_batch([(build_transaction_key("y"), bad)], 0)]
        with pytest.raises(ProtocolError, match="offset 0"):
            world.restart()
    for status in (6, 7, 99):
        with pytest.raises(ProtocolError):
            facts_of(with_status(value, status))


def with_status(value: TransactionLogValue, status: int) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        transaction_timeout_ms=value.transaction_timeout_ms,
        transaction_status=status,
        transaction_partitions=value.transaction_partitions,
        transaction_last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        transaction_start_timestamp_ms=value.transaction_start_timestamp_ms,
    )


def test_lists_are_filtered_by_state_producer_and_age() -> None:
    world = World()
    world.init("empty")
    world.init("open").add(("t", 0))
    done = world.init("done")
    done.add(("t", 0))
    done.end(committed=True)

    def found(**filters: object) -> list[str]:
        return sorted(row.transactional_id for row in world.listing(**filters).transaction_states)

    assert found() == ["done", "empty", "open"]
    assert found(state_filters=("Ongoing", "Empty")) == ["empty", "open"]
    assert found(state_filters=("Foo",)) == []
    assert world.listing(state_filters=("Foo", "Empty")).unknown_state_filters == ("Foo",)
    assert found(producer_id_filters=(done.producer_id,)) == ["done"]
    world.pass_ms(1_000)
    assert found(duration_filter=999, state_filters=("Ongoing",)) == ["open"]
    assert found(duration_filter=1_000, state_filters=("Ongoing",)) == []


def test_what_is_not_there_cannot_be_described() -> None:
    world = World()
    assert ErrorCode(world.describe("x").error_code) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert ErrorCode(world.describe("").error_code) is ErrorCode.INVALID_REQUEST


def test_the_diagram_of_the_design_page_is_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs/design/transactions.md").read_text()
    assert f"```mermaid\n{mermaid()}\n```" in page
