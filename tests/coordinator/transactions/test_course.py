"""From the first partition to the last marker: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, checked live on Kafka 4.4."""

from __future__ import annotations

import pytest

from kshim.coordinator.step import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kshim.coordinator.transactions.events import TransactionCause, TransactionTransition
from kshim.coordinator.transactions.state import VALID_PREVIOUS, TransactionState
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tests.coordinator.transactions.harness import GROUP_PARTITION, START_WALL_MS, Producer, World

S = TransactionState


def test_a_transaction_begins_with_its_first_partition_and_is_decided_before_it_is_marked() -> None:
    world = World()
    producer = world.init("x")
    assert producer.add(("t", 1), ("t", 0)) is ErrorCode.NONE
    assert producer.add(("t", 1)) is ErrorCode.NONE  # it is in already: nothing to write
    assert producer.add_group() is ErrorCode.NONE
    assert producer.end(committed=True) is ErrorCode.NONE
    assert world.markers == [
        (OFFSETS_TOPIC, GROUP_PARTITION, producer.key, "commit"),
        ("t", 0, producer.key, "commit"),
        ("t", 1, producer.key, "commit"),
    ]
    statuses = [record.transaction_status for record in world.records("x") if record is not None]
    assert statuses == [S.EMPTY.id, S.ONGOING.id, S.ONGOING.id, S.PREPARE_COMMIT.id, S.COMPLETE_COMMIT.id]
    last = world.records("x")[-1]
    assert last is not None
    assert last.transaction_partitions == ()


def test_no_marker_is_written_before_the_outcome_is_durable_and_no_end_before_the_markers_are() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0), ("t", 1))
    with world.nothing_becomes_durable():
        producer.end(committed=True)
        assert world.markers == []
        assert world.transaction("x").state is S.PREPARE_COMMIT
    assert len(world.markers) == 2
    assert world.transaction("x").state is S.COMPLETE_COMMIT


def test_every_transition_is_reported_with_its_cause() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    producer.end(committed=False)
    told = [event for event in world.events if isinstance(event, TransactionTransition)]
    assert [(event.previous, event.new, event.cause) for event in told] == [
        (S.EMPTY, S.EMPTY, TransactionCause.INITIALIZED),
        (S.EMPTY, S.ONGOING, TransactionCause.PARTITIONS_ADDED),
        (S.ONGOING, S.PREPARE_ABORT, TransactionCause.END_REQUESTED),
        (S.PREPARE_ABORT, S.COMPLETE_ABORT, TransactionCause.MARKERS_WRITTEN),
    ]
    assert all(event.previous in VALID_PREVIOUS[event.new] for event in told)


def in_state(world: World, state: str) -> Producer:
    """A producer whose id is in that state."""
    producer = world.init("x")
    if state != "Empty":
        producer.add(("t", 0))
    if state.startswith("Complete"):
        producer.end(committed=state == "CompleteCommit")
    if state.startswith("Prepare"):
        world.marker_errors["t", 0] = ErrorCode.KAFKA_STORAGE_ERROR
        producer.end(committed=state == "PrepareCommit")
    assert str(world.transaction("x").state) == state
    return producer


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        ("Empty", "INVALID_TXN_STATE", "INVALID_TXN_STATE"),
        ("PrepareCommit", "CONCURRENT_TRANSACTIONS", "INVALID_TXN_STATE"),
        ("PrepareAbort", "INVALID_TXN_STATE", "CONCURRENT_TRANSACTIONS"),
        ("CompleteCommit", "NONE", "INVALID_TXN_STATE"),
        ("CompleteAbort", "INVALID_TXN_STATE", "NONE"),
    ],
)
def test_what_an_end_means_in_each_state(state: str, commit: str, abort: str) -> None:
    world = World()
    producer = in_state(world, state)
    written = len(world.records("x"))
    assert producer.end(committed=True) is ErrorCode[commit]
    assert producer.end(committed=False) is ErrorCode[abort]
    assert len(world.records("x")) == written


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort"])
def test_while_the_outcome_stands_nothing_can_be_added_or_written(state: str) -> None:
    producer = in_state(World(), state)
    assert producer.add(("t", 1)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.add_group() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.may_write("t", 0) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_producer_may_write_where_its_transaction_is_open() -> None:
    world = World()
    producer = world.init("x")
    assert producer.may_write("t", 0) is ErrorCode.TRANSACTION_ABORTABLE
    producer.add(("t", 0))
    assert producer.may_write("t", 0) is ErrorCode.NONE
    assert producer.may_write("t", 1) is ErrorCode.TRANSACTION_ABORTABLE
    producer.end(committed=True)
    assert producer.may_write("t", 0) is ErrorCode.TRANSACTION_ABORTABLE


def test_nobody_does_anything_without_an_id_or_with_one_that_is_not_known() -> None:
    world = World()
    for transactional_id, error in [("", ErrorCode.INVALID_REQUEST), ("nobody", ErrorCode.INVALID_PRODUCER_ID_MAPPING)]:
        producer = Producer(world, transactional_id, 1000, 0)
        assert producer.add(("t", 0)) is error
        assert producer.add_group() is error
        assert producer.end(committed=True) is error
        assert producer.may_write("t", 0) is error
    stranger = Producer(world, "x", 1001, 0)
    world.init("x")
    assert stranger.add(("t", 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_one_partition_that_does_not_exist_keeps_all_others_out() -> None:
    world = World()
    producer = world.init("x")
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=(
            AddPartitionsToTxnTopic(name="t", partitions=(0, 9)),
            AddPartitionsToTxnTopic(name="nope", partitions=(0,)),
            AddPartitionsToTxnTopic(name=OFFSETS_TOPIC, partitions=(0,)),
            AddPartitionsToTxnTopic(name=TRANSACTIONS_TOPIC, partitions=(0,)),
        ),
    )
    results = world.ask(request, 3).reply.results_by_topic_v3_and_below
    errors = [
        (topic.name, ErrorCode(result.partition_error_code).name)
        for topic in results
        for result in topic.results_by_partition
    ]
    assert errors == [
        ("t", "OPERATION_NOT_ATTEMPTED"),
        ("t", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("nope", "UNKNOWN_TOPIC_OR_PARTITION"),
        (OFFSETS_TOPIC, "TOPIC_AUTHORIZATION_FAILED"),
        (TRANSACTIONS_TOPIC, "TOPIC_AUTHORIZATION_FAILED"),
    ]
    assert world.transaction("x").state is S.EMPTY


def test_a_partition_that_cannot_take_its_marker_is_tried_again_and_the_others_do_not_wait() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0), ("t", 1), ("t", 2))
    world.marker_errors["t", 1] = ErrorCode.KAFKA_STORAGE_ERROR
    assert producer.end(committed=True) is ErrorCode.NONE
    assert [marker[1] for marker in world.markers] == [0, 2]
    assert world.transaction("x").unmarked == {("t", 1)}
    assert [(topic.topic, topic.partitions) for topic in world.describe("x").topics] == [("t", (1,))]
    world.pass_ms(1_000)
    assert world.transaction("x").state is S.PREPARE_COMMIT
    world.marker_errors.clear()
    world.pass_ms(1_000)
    assert [marker[1] for marker in world.markers] == [0, 2, 1]
    assert world.transaction("x").state is S.COMPLETE_COMMIT


def test_an_end_that_could_not_be_recorded_is_tried_again_without_more_markers() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    world.after_write = lambda what: (
        world.append_errors.append(ErrorCode.KAFKA_STORAGE_ERROR) if world.markers else None
    )
    producer.end(committed=True)
    world.after_write = lambda _: None
    assert world.transaction("x").state is S.PREPARE_COMMIT
    world.pass_ms(1_000)
    assert (len(world.markers), world.transaction("x").state) == (1, S.COMPLETE_COMMIT)


def test_an_outcome_that_could_not_be_written_is_none() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    world.append_errors.append(ErrorCode.KAFKA_STORAGE_ERROR)
    assert producer.end(committed=True) is ErrorCode.NOT_COORDINATOR
    assert (world.markers, world.transaction("x").state) == ([], S.ONGOING)
    assert producer.end(committed=False) is ErrorCode.NONE
    assert world.markers == [("t", 0, producer.key, "abort")]


def test_the_next_transaction_has_its_own_start_and_partitions() -> None:
    world = World()
    producer = world.init("x")
    producer.add(("t", 0))
    producer.end(committed=True)
    world.pass_ms(500)
    producer.add(("t", 1))
    described = world.describe("x")
    assert described.transaction_start_time_ms == START_WALL_MS + 500
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", (1,))]
