"""OffsetDelete: whose offsets may go, and the tombstones."""

from __future__ import annotations

from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.coordinator.harness import Call, Sim
from tests.coordinator.peers import a_group, fetched, subscription
from tests.coordinator.rules import covers

ORDERS = ("orders", 0)


def send_delete(sim: Sim, *partitions: tuple[str, int], group_id: str = "g") -> Call[OffsetDeleteResponse]:
    """One OffsetDelete."""
    topics = tuple(
        OffsetDeleteRequestTopic(name=name, partitions=(OffsetDeleteRequestPartition(partition_index=index),))
        for name, index in partitions
    )
    return sim.send(OffsetDeleteRequest(group_id=group_id, topics=topics), 0)


def errors_of(call: Call[OffsetDeleteResponse]) -> list[ErrorCode]:
    """The error of each partition."""
    assert call.error is ErrorCode.NONE
    return [ErrorCode(row.error_code) for topic in call.reply.topics for row in topic.partitions]


@covers("check.offset-delete.empty-group-id", "offset-delete.unknown-group")
def test_the_group_must_exist() -> None:
    sim = a_group()
    assert send_delete(sim, ORDERS, group_id="").error is ErrorCode.INVALID_GROUP_ID
    assert send_delete(sim, ORDERS).error is ErrorCode.GROUP_ID_NOT_FOUND


@covers("offset-delete.non-empty-other-type")
def test_members_that_are_no_consumers_keep_all_offsets() -> None:
    sim = a_group().stable("a", protocol_type="connect")
    sim["a"].commit({ORDERS: 1})
    assert send_delete(sim, ORDERS).error is ErrorCode.NON_EMPTY_GROUP
    sim["a"].leave()
    assert errors_of(send_delete(sim, ORDERS)) == [ErrorCode.NONE]


@covers("offset-delete.subscribed", "offset-delete.done")
def test_offsets_of_topics_nobody_subscribes_to_go_at_once() -> None:
    sim = a_group().stable("a", protocols={"range": subscription("orders", version=3)})
    sim["a"].commit({ORDERS: 1, ("audit", 0): 2, ("audit", 1): 3})
    errors = errors_of(send_delete(sim, ORDERS, ("audit", 0), ("audit", 0), ("unheard-of", 0)))
    assert errors == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert list(fetched(sim)) == [ORDERS, ("audit", 1)]
    assert (sim.records()[-1].key.topic, sim.records()[-1].value) == ("audit", None)


@covers("offset-delete.unparsable")
def test_metadata_that_cannot_be_read_counts_as_subscribed_to_everything() -> None:
    sim = a_group().stable("a", "b")
    sim["b"].protocols = {"range": b"\0"}
    call = sim["b"].send_join()
    sim["a"].take(sim["a"].join())
    sim["b"].take(call)
    sim.settle()
    sim["a"].commit({("audit", 0): 2})
    assert errors_of(send_delete(sim, ("audit", 0))) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


@covers("offset-delete.done")
def test_partitions_beyond_the_last_or_below_zero_do_not_exist() -> None:
    sim = a_group().empty()
    errors = errors_of(send_delete(sim, *(("orders", index) for index in (-1, 0, 3, 4, 5))))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == [unknown, ErrorCode.NONE, ErrorCode.NONE, unknown, unknown]


@covers("offset-delete.done")
def test_deleting_what_is_not_there_writes_nothing() -> None:
    sim = a_group().empty()
    before = len(sim.records())
    assert errors_of(send_delete(sim, ORDERS)) == [ErrorCode.NONE]
    assert len(sim.records()) == before


def test_what_an_open_transaction_has_written_goes_too() -> None:
    sim = a_group()
    sim.peer("a").commit({ORDERS: 1})
    sim.shard().put_pending_offset(77, "g", "orders", 1, CommittedOffset.of(9, -1, "", 0, record_offset=10))
    assert errors_of(send_delete(sim, ("orders", 1))) == [ErrorCode.NONE]
    assert not sim.shard().offsets.has_pending("g", "orders", 1)


def test_a_tombstone_that_cannot_be_written_deletes_nothing() -> None:
    sim = a_group()
    sim.peer("a").commit({ORDERS: 1})
    sim.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    assert send_delete(sim, ORDERS).error is ErrorCode.NOT_COORDINATOR
    assert list(fetched(sim)) == [ORDERS]


def test_a_topic_named_without_partitions_is_answered_only_when_it_is_unknown() -> None:
    sim = a_group().stable("a")
    topics = tuple(OffsetDeleteRequestTopic(name=name, partitions=()) for name in ("orders", "unheard-of"))
    reply = sim.ask(OffsetDeleteRequest(group_id="g", topics=topics), 0)
    assert [(topic.name, topic.partitions) for topic in reply.topics] == [("unheard-of", ())]
