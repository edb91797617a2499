"""OffsetFetch: in every version's shape; by name, by id, all; stable or not."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
)
from tests.coordinator.harness import Sim, topic_id
from tests.coordinator.peers import a_group, fetched
from tests.coordinator.rules import covers

ORDERS = ("orders", 0)


def fetched_by_id(sim: Sim, id_: bytes | None, partition: int = 0) -> list[tuple[bytes, OffsetFetchResponsePartitions]]:
    """OffsetFetch v10 of one partition; of all topics for None."""
    topics = None if id_ is None else (OffsetFetchRequestTopics(topic_id=id_, partition_indexes=(partition,)),)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=topics),))
    [group] = sim.ask(request, 10).groups
    return [(topic.topic_id, partition) for topic in group.topics for partition in topic.partitions]


@covers("fetch.unknown", "fetch.unknown-topic", "check.offset-fetch.empty-group-id")
@pytest.mark.parametrize("group_id", ["g", ""])
def test_what_was_never_committed_has_offset_minus_one(group_id: str) -> None:
    sim = a_group()
    for partition in (ORDERS, ("orders", 99), ("unheard-of", 0)):
        offset = fetched(sim, partition, group_id=group_id)[partition]
        assert (offset.committed_offset, offset.committed_leader_epoch) == (-1, -1)
        assert (offset.metadata, offset.error_code) == ("", ErrorCode.NONE)
    sim.peer("a", group_id=group_id).commit({ORDERS: 1})
    assert fetched(sim, ("orders", 1), group_id=group_id)["orders", 1].committed_offset == -1


@pytest.mark.parametrize("version", [1, 2, 5, 7])
def test_before_v8_one_group_is_asked_for(version: int) -> None:
    sim = a_group()
    sim.peer("a").send_commit({ORDERS: 5}, metadata="m", leader_epoch=3)
    request = OffsetFetchRequest(
        group_id="g", topics=(OffsetFetchRequestTopic(name="orders", partition_indexes=(0, 1)),)
    )
    reply = sim.ask(request, version)
    assert (reply.error_code, reply.topics[0].name) == (ErrorCode.NONE, "orders")
    [first, second] = reply.topics[0].partitions
    assert (first.committed_offset, first.metadata, second.committed_offset) == (5, "m", -1)
    assert first.committed_leader_epoch == (3 if version >= 5 else -1)


def test_from_v8_on_several_groups_are_asked_for_at_once() -> None:
    sim = a_group()
    for number, group_id in enumerate(("g", "h", "i")):
        sim.peer("a", group_id=group_id).commit({ORDERS: number})
    topics = (OffsetFetchRequestTopics(name="orders", partition_indexes=(0,)),)
    request = OffsetFetchRequest(
        groups=tuple(OffsetFetchRequestGroup(group_id=group_id, topics=topics) for group_id in ("i", "g", "x"))
    )
    reply = sim.ask(request, 8)
    assert [(group.group_id, group.topics[0].partitions[0].committed_offset) for group in reply.groups] == [
        ("i", 2),
        ("g", 0),
        ("x", -1),
    ]


@covers("fetch.member-ignored")
def test_member_id_and_epoch_are_ignored() -> None:
    sim = a_group().stable("a")
    sim["a"].commit({ORDERS: 5})
    topics = (OffsetFetchRequestTopics(name="orders", partition_indexes=(0,)),)
    group = OffsetFetchRequestGroup(group_id="g", member_id="whoever", member_epoch=99, topics=topics)
    [answer] = sim.ask(OffsetFetchRequest(groups=(group,)), 9).groups
    assert answer.error_code == ErrorCode.NONE
    assert answer.topics[0].partitions[0].committed_offset == 5


@covers("fetch.all-topics")
@pytest.mark.parametrize("version", [2, 7, 9])
def test_without_topics_all_that_is_committed_is_answered(version: int) -> None:
    sim = a_group()
    sim.peer("a").commit({ORDERS: 5, ("orders", 2): 6, ("audit", 1): 7})
    if version >= 8:
        assert {key: row.committed_offset for key, row in fetched(sim).items()} == {
            ORDERS: 5,
            ("orders", 2): 6,
            ("audit", 1): 7,
        }
    else:
        reply = sim.ask(OffsetFetchRequest(group_id="g", topics=None), version)
        assert {topic.name: len(topic.partitions) for topic in reply.topics} == {"orders": 2, "audit": 1}


@covers("fetch.unknown-topic-id", "fetch.other-topic-id")
def test_by_id_only_the_offset_of_that_very_topic_shows() -> None:
    sim = a_group()
    sim.peer("a").commit({ORDERS: 5})
    [(id_, offset)] = fetched_by_id(sim, topic_id("orders"))
    assert (id_, offset.committed_offset) == (topic_id("orders"), 5)
    sim.topics.topics["orders"] = (4, 1)  # made anew under its old name
    [(_, offset)] = fetched_by_id(sim, topic_id("orders"))
    assert (offset.committed_offset, offset.error_code) == (-1, ErrorCode.UNKNOWN_TOPIC_ID)
    [(_, offset)] = fetched_by_id(sim, topic_id("orders", life=1))
    assert (offset.committed_offset, offset.error_code) == (-1, ErrorCode.NONE)
    assert fetched(sim, ORDERS)[ORDERS].committed_offset == 5  # by name it is still there


@covers("fetch.all-topics")
def test_by_id_all_topics_are_those_that_exist() -> None:
    sim = a_group()
    sim.peer("a").commit({ORDERS: 5, ("audit", 1): 7})
    del sim.topics.topics["audit"]
    assert [(id_, row.committed_offset) for id_, row in fetched_by_id(sim, None)] == [(topic_id("orders"), 5)]


@covers("fetch.unstable", "fetch.pending-invisible", "fetch.all-topics.only-pending")
def test_an_open_transaction_shows_only_to_those_who_ask_for_stable_offsets() -> None:
    sim = a_group()
    sim.peer("a").commit({ORDERS: 5})
    pending = CommittedOffset.of(9, -1, "", 0, record_offset=10)
    for partition in (0, 1):
        sim.shard().put_pending_offset(77, "g", "orders", partition, pending)
    stable = fetched(sim, ORDERS, ("orders", 1), ("orders", 2), require_stable=True)
    assert stable[ORDERS].error_code == stable["orders", 1].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert stable[ORDERS].committed_offset == -1
    assert stable["orders", 2].error_code == ErrorCode.NONE
    assert {key: row.committed_offset for key, row in fetched(sim, ORDERS, ("orders", 1)).items()} == {
        ORDERS: 5,
        ("orders", 1): -1,
    }
    assert list(fetched(sim, require_stable=True)) == [ORDERS]
