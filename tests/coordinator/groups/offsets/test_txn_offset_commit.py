"""TxnOffsetCommit and the end of transactions in the group coordinator. Errors are those of a live Kafka 4.4."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.step import RequestContext, Step
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kshim_protocol.records.batch import parse_batch_header
from tests.coordinator.harness import Call, Sim, topic_id
from tests.coordinator.peers import GroupSim, a_group
from tests.coordinator.rules import covers

ORDERS = ("orders", 0)
PRODUCER = (1000, 3)

Offsets = Mapping[tuple[str, int], int]


def agreed(_partition: int) -> ErrorCode:
    """The transaction has the group."""
    return ErrorCode.NONE


def commit(
    sim: Sim,
    offsets: Offsets,
    *,
    group_id: str = "g",
    member_id: str = "",
    generation_id: int = -1,
    instance_id: str | None = None,
    producer: tuple[int, int] = PRODUCER,
    metadata: str = "",
    version: int = 4,
    verify: Callable[[int], ErrorCode] = agreed,
) -> dict[tuple[str, int], ErrorCode]:
    """TxnOffsetCommit; the error of each partition."""
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=tuple(
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=metadata
                    ),
                ),
            )
            for (topic, partition), offset in offsets.items()
        ),
    )
    call = Call(request, version)
    context = RequestContext(version, "client", "/127.0.0.1", sim.now)
    sim.apply(sim.coordinator.txn_offset_commit(request, context, call, verify))
    return {
        (topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in call.reply.topics
        for partition in topic.partitions
    }


def commit_by_id(sim: Sim, *topics: tuple[bytes, tuple[int, ...]]) -> list[tuple[bytes, list[tuple[int, ErrorCode]]]]:
    """TxnOffsetCommit v6 of offset 7 to partitions of topic ids."""
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=PRODUCER[0],
        producer_epoch=PRODUCER[1],
        topics=tuple(
            TxnOffsetCommitRequestTopic(
                topic_id=id_,
                partitions=tuple(
                    TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata="")
                    for index in partitions
                ),
            )
            for id_, partitions in topics
        ),
    )
    call = Call(request, 6)
    sim.apply(
        sim.coordinator.txn_offset_commit(request, RequestContext(6, "client", "/127.0.0.1", sim.now), call, agreed)
    )
    return [
        (topic.topic_id, [(each.partition_index, ErrorCode(each.error_code)) for each in topic.partitions])
        for topic in call.reply.topics
    ]


def ended(
    sim: Sim,
    *,
    is_commit: bool,
    group_id: str = "g",
    producer: tuple[int, int] = PRODUCER,
    heard: list[ErrorCode] | None = None,
) -> Step:
    """Its marker is about to be written."""
    return sim.coordinator.end_transaction(
        sim.coordinator.partition_for(group_id),
        producer_id=producer[0],
        producer_epoch=producer[1],
        is_commit=is_commit,
        coordinator_epoch=0,
        now=sim.now,
        ended=([] if heard is None else heard).append,
    )


def end(sim: Sim, *, is_commit: bool, group_id: str = "g", producer: tuple[int, int] = PRODUCER) -> None:
    """Its marker arrives."""
    sim.apply(ended(sim, is_commit=is_commit, group_id=group_id, producer=producer))


def offset(sim: Sim, group_id: str = "g") -> int | None:
    committed = sim.shard(group_id).offsets.get(group_id, *ORDERS)
    return None if committed is None else committed.offset


def is_pending(sim: Sim, group_id: str = "g") -> bool:
    return sim.shard(group_id).offsets.has_pending(group_id, *ORDERS)


@covers("txn-commit.commit-marker", "txn-commit.abort-marker")
def test_offsets_are_pending_until_the_transaction_is_over_also_across_a_crash() -> None:
    for is_commit in (True, False):
        sim = a_group()
        assert commit(sim, {ORDERS: 5}) == {ORDERS: ErrorCode.NONE}
        sim.restart()
        assert (offset(sim), is_pending(sim)) == (None, True)
        end(sim, is_commit=is_commit)
        assert (offset(sim), is_pending(sim)) == (5 if is_commit else None, False)
        sim.restart()
        assert (offset(sim), is_pending(sim)) == (5 if is_commit else None, False)


def test_the_batch_is_the_producers() -> None:
    sim = a_group()
    commit(sim, {ORDERS: 5, ("audit", 1): 6})
    end(sim, is_commit=True)
    (log,) = sim.logs.values()
    pending, marker = (parse_batch_header(batch) for batch in log)
    assert (pending.producer_id, pending.producer_epoch, pending.base_sequence) == (*PRODUCER, 0)
    assert (pending.is_transactional, pending.is_control, pending.record_count) == (True, False, 2)
    assert (marker.producer_id, marker.producer_epoch, marker.is_control) == (*PRODUCER, True)


@covers("txn-commit.commit-marker")
def test_a_plain_commit_that_came_later_stays() -> None:
    sim = a_group()
    commit(sim, {ORDERS: 5})
    assert sim.peer("outside").commit({ORDERS: 9}) == {ORDERS: ErrorCode.NONE}
    end(sim, is_commit=True)
    assert offset(sim) == 9
    sim.restart()
    assert offset(sim) == 9


@covers("txn-commit.accepted")
def test_producers_do_not_end_each_others_transactions() -> None:
    sim = a_group()
    commit(sim, {ORDERS: 5}, producer=(1000, 0))
    commit(sim, {ORDERS: 6}, producer=(1001, 0))
    end(sim, is_commit=True, producer=(1001, 0))
    assert (offset(sim), is_pending(sim)) == (6, True)
    end(sim, is_commit=True, producer=(1000, 0))
    assert (offset(sim), is_pending(sim)) == (6, False)  # its record is the earlier one


def test_what_does_not_exist_fails_alone_and_before_anybody_is_asked() -> None:
    sim = a_group()
    errors = commit(sim, {ORDERS: 1, ("orders", 9): 1, ("nope", 0): 1})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == {ORDERS: ErrorCode.NONE, ("orders", 9): unknown, ("nope", 0): unknown}

    def nobody(_partition: int) -> ErrorCode:
        raise AssertionError

    assert commit(sim, {("nope", 0): 1}, verify=nobody, group_id="") == {("nope", 0): unknown}


def test_metadata_has_its_limit() -> None:
    assert commit(a_group(), {ORDERS: 1}, metadata="x" * 5_000) == {ORDERS: ErrorCode.OFFSET_METADATA_TOO_LARGE}


@covers("txn-commit.old-epoch", "txn-commit.not-in-transaction")
@pytest.mark.parametrize(
    ("answer", "version", "told"),
    [
        ("PRODUCER_FENCED", 4, "INVALID_PRODUCER_EPOCH"),
        ("PRODUCER_FENCED", 0, "INVALID_PRODUCER_EPOCH"),
        ("INVALID_PRODUCER_ID_MAPPING", 3, "INVALID_PRODUCER_ID_MAPPING"),
        ("TRANSACTION_ABORTABLE", 4, "TRANSACTION_ABORTABLE"),
        ("TRANSACTION_ABORTABLE", 3, "INVALID_TXN_STATE"),
        ("INVALID_REQUEST", 4, "INVALID_REQUEST"),
        ("COORDINATOR_LOAD_IN_PROGRESS", 4, "COORDINATOR_LOAD_IN_PROGRESS"),
        ("COORDINATOR_LOAD_IN_PROGRESS", 1, "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_who_may_not_write_is_told_as_kafka_does(answer: str, version: int, told: str) -> None:
    sim = a_group()
    assert commit(sim, {ORDERS: 1}, version=version, verify=lambda _: ErrorCode[answer]) == {ORDERS: ErrorCode[told]}
    assert not sim.logs


def members(sim: GroupSim) -> list[tuple[str, int, str | None, ErrorCode]]:
    """(member id, generation, instance id) and what a commit with these is answered in a Stable group."""
    a = sim["a"]
    return [
        ("", -1, None, ErrorCode.NONE),  # from before KIP-447
        (a.member_id, a.generation_id, None, ErrorCode.NONE),
        (a.member_id, a.generation_id - 1, None, ErrorCode.ILLEGAL_GENERATION),
        (a.member_id, -1, None, ErrorCode.ILLEGAL_GENERATION),
        ("nobody", a.generation_id, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", a.generation_id, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", a.generation_id, "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
    ]


@covers("txn-commit.nobody")
def test_members_are_held_to_member_id_and_generation_where_they_name_them() -> None:
    sim = a_group().stable("a")
    for member_id, generation_id, instance_id, error in members(sim):
        told = commit(sim, {ORDERS: 1}, member_id=member_id, generation_id=generation_id, instance_id=instance_id)
        assert told == {ORDERS: error}, (member_id, generation_id, instance_id)


def test_a_commit_is_no_sign_of_life() -> None:
    sim = a_group().stable("a", session_timeout_ms=10_000)
    a = sim["a"]
    sim.pass_ms(9_000)
    told = commit(sim, {ORDERS: 1}, member_id=a.member_id, generation_id=a.generation_id)
    assert told == {ORDERS: ErrorCode.NONE}
    sim.pass_ms(1_000)
    told = commit(sim, {ORDERS: 1}, member_id=a.member_id, generation_id=a.generation_id)
    assert told == {ORDERS: ErrorCode.UNKNOWN_MEMBER_ID}


@covers("txn-commit.completing")
def test_a_commit_may_come_while_the_group_rebalances() -> None:
    sim = a_group().completing("a")
    a = sim["a"]
    assert sim.group.state is GroupState.COMPLETING_REBALANCE
    told = commit(sim, {ORDERS: 1}, member_id=a.member_id, generation_id=a.generation_id)
    assert told == {ORDERS: ErrorCode.NONE}


@covers("check.txn-offset-commit.empty-group-id")
@pytest.mark.parametrize("generation_id", [0, 1, 3])
def test_a_generation_of_a_group_that_is_not_there_is_none(generation_id: int) -> None:
    sim = a_group()
    told = commit(sim, {ORDERS: 1}, group_id="new", generation_id=generation_id)
    assert told == {ORDERS: ErrorCode.ILLEGAL_GENERATION}
    assert commit(sim, {ORDERS: 1}, group_id="") == {ORDERS: ErrorCode.INVALID_GROUP_ID}


def test_what_could_not_be_written_is_not_pending() -> None:
    sim = a_group()
    sim.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    assert commit(sim, {ORDERS: 1}) == {ORDERS: ErrorCode.NOT_COORDINATOR}
    assert not is_pending(sim)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR])
def test_whoever_ends_a_transaction_hears_whether_the_marker_was_written(error: ErrorCode) -> None:
    sim = a_group()
    commit(sim, {ORDERS: 1})
    if error is not ErrorCode.NONE:
        sim.fail_appends(error)
    heard: list[ErrorCode] = []
    step = ended(sim, is_commit=True, heard=heard)
    assert heard == []
    assert [append.now_ms for append in step.appends] == [sim.wall_ms]  # when the producer was heard of
    sim.apply(step)
    assert heard == [error]
    assert (offset(sim), is_pending(sim)) == ((1, False) if error is ErrorCode.NONE else (None, True))


def test_a_loading_shard_takes_neither_commits_nor_markers() -> None:
    sim = a_group()
    commit(sim, {ORDERS: 1})
    partition = sim.coordinator.partition_for("g")
    sim.coordinator.unload(partition)
    assert commit(sim, {ORDERS: 1}) == {ORDERS: ErrorCode.NOT_COORDINATOR}
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        end(sim, is_commit=True)
    wanted: list[int] = []
    sim.coordinator.on_load_wanted = wanted.append
    sim.coordinator.begin_load(partition)
    assert commit(sim, {ORDERS: 1}) == {ORDERS: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        end(sim, is_commit=True)
    assert set(wanted) == {partition}


@covers("txn-commit.unknown-topic-id")
def test_topics_are_named_by_their_ids_from_version_6_on() -> None:
    sim = a_group()
    orders, other = topic_id("orders"), topic_id("orders", life=1)
    assert commit_by_id(sim, (other, (0,)), (orders, (0, 99))) == [
        (other, [(0, ErrorCode.UNKNOWN_TOPIC_ID)]),
        (orders, [(0, ErrorCode.NONE), (99, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]
    end(sim, is_commit=True)
    assert offset(sim) == 7
    assert commit_by_id(sim, (other, (0,))) == [(other, [(0, ErrorCode.UNKNOWN_TOPIC_ID)])]
