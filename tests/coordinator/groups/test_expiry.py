"""Expiry: which offsets and groups time takes away, and what goes with a deleted topic."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kshim.coordinator.groups.events import AppendFailed, OffsetsRemoved
from kshim.coordinator.groups.expiry import SLICE
from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.offset_commit import OffsetCommitKey
from kshim_protocol.records.batch import parse_batch_header
from tests.coordinator.harness import topic_id
from tests.coordinator.peers import GroupSim, a_group, fetched, subscription
from tests.coordinator.rules import covers

MINUTE_MS = 60_000
ORDERS = ("orders", 0)


def an_hour_of_retention() -> GroupSim:
    """Offsets are kept for an hour and looked at every ten minutes."""
    return a_group(offsets_retention_minutes=60)


def topics_deleted(sim: GroupSim, *names: str) -> int:
    """Have the offsets of these topics forgotten; returns in how many steps."""
    steps = 0
    for step in sim.coordinator.topics_deleted(names, sim.now):
        sim.apply(step)
        steps += 1
    return steps


def keep_alive(sim: GroupSim, name: str, minutes: int) -> None:
    """Let time pass while a member heartbeats."""
    for _ in range(minutes * 10):
        sim.pass_ms(6_000)
        assert sim[name].heartbeat() is ErrorCode.NONE


@covers("expiry.check", "expiry.simple", "expiry.group")
def test_a_simple_groups_offsets_go_after_the_retention_and_the_group_with_the_last_of_them() -> None:
    sim = an_hour_of_retention()
    sim.peer("a").commit({ORDERS: 1})
    sim.pass_ms(15 * MINUTE_MS)
    sim.peer("a").commit({("audit", 0): 2})
    sim.pass_ms(45 * MINUTE_MS - 1)
    assert list(fetched(sim)) == [ORDERS, ("audit", 0)]
    sim.pass_ms(1)  # the sixth check
    assert list(fetched(sim)) == [("audit", 0)]
    assert sim.find_group() is not None
    sim.pass_ms(20 * MINUTE_MS)
    assert sim.find_group() is None
    records = sim.records()[-2:]
    assert records[0].batch_number == records[1].batch_number
    assert isinstance(records[0].key, OffsetCommitKey)
    assert [record.value for record in records] == [None, None]
    assert not isinstance(records[1].key, OffsetCommitKey)
    assert sim.transitions() == ["Empty -> Dead expired"]
    assert [event.offset_count for event in sim.events if isinstance(event, OffsetsRemoved)] == [1, 1]


@covers("expiry.empty-with-type")
def test_an_empty_group_keeps_its_offsets_for_the_retention_after_its_last_member() -> None:
    sim = an_hour_of_retention().stable("a")
    sim["a"].commit({ORDERS: 1})
    keep_alive(sim, "a", 30)
    sim["a"].leave()
    sim.pass_ms(59 * MINUTE_MS)
    assert list(fetched(sim)) == [ORDERS]
    sim.pass_ms(MINUTE_MS)
    assert sim.find_group() is None


@covers("expiry.empty-with-type")
def test_a_group_without_a_known_time_of_becoming_empty_expires_from_its_commits() -> None:
    sim = an_hour_of_retention().empty()
    peer = sim.peer("x")
    sim.pass_ms(30 * MINUTE_MS)
    peer.commit({ORDERS: 1})
    sim.group.state_changed_ms = -1
    sim.pass_ms(59 * MINUTE_MS)
    assert list(fetched(sim)) == [ORDERS]
    sim.pass_ms(MINUTE_MS)
    assert fetched(sim) == {}


@covers("expiry.stable-consumer")
def test_a_stable_consumer_group_loses_what_nobody_subscribes_to() -> None:
    sim = an_hour_of_retention().stable("a", protocols={"range": subscription("orders")})
    sim["a"].commit({ORDERS: 1, ("audit", 0): 2})
    keep_alive(sim, "a", 59)
    assert list(fetched(sim)) == [ORDERS, ("audit", 0)]
    keep_alive(sim, "a", 1)
    assert list(fetched(sim)) == [ORDERS]


@covers("expiry.others")
def test_other_groups_lose_nothing() -> None:
    sim = an_hour_of_retention()
    sim.stable("a", protocol_type="connect")
    sim["a"].commit({("audit", 0): 2})
    keep_alive(sim, "a", 120)
    assert list(fetched(sim)) == [("audit", 0)]
    unreadable = an_hour_of_retention().stable("a", protocols={"range": b"?"})
    unreadable["a"].commit({("audit", 0): 2})
    keep_alive(unreadable, "a", 120)
    assert list(fetched(unreadable)) == [("audit", 0)]


@covers("expiry.explicit")
def test_an_expire_time_of_its_own_decides_alone() -> None:
    sim = an_hour_of_retention().stable("a", protocols={"range": subscription("orders")})
    sim["a"].commit({("audit", 0): 1}, retention_ms=15 * MINUTE_MS, version=4)
    sim["a"].commit({("audit", 1): 1}, retention_ms=150 * MINUTE_MS, version=4)
    keep_alive(sim, "a", 19)
    assert list(fetched(sim)) == [("audit", 0), ("audit", 1)]
    keep_alive(sim, "a", 101)
    assert list(fetched(sim)) == [("audit", 1)]
    keep_alive(sim, "a", 30)
    assert fetched(sim) == {}


@covers("expiry.pending")
def test_partitions_of_open_transactions_do_not_expire_nor_does_their_group() -> None:
    sim = an_hour_of_retention()
    sim.peer("a").commit({ORDERS: 1})
    sim.shard().put_pending_offset(77, "g", *ORDERS, CommittedOffset.of(9, -1, "", sim.wall_ms, record_offset=10))
    sim.shard().put_pending_offset(77, "g", "audit", 0, CommittedOffset.of(9, -1, "", sim.wall_ms, record_offset=11))
    sim.pass_ms(120 * MINUTE_MS)
    assert list(fetched(sim)) == [ORDERS]
    sim.shard().offsets.abort_transaction(77)
    sim.pass_ms(10 * MINUTE_MS)
    assert sim.find_group() is None


@covers("expiry.group")
def test_an_empty_group_that_never_had_an_offset_goes_at_the_next_check() -> None:
    sim = an_hour_of_retention()
    sim.peer("a").send_join()
    sim.pass_ms(10 * MINUTE_MS)
    assert sim.find_group() is None
    assert (sim.records()[-1].value, sim.records()[-1].batch_number) == (None, 1)


def test_what_cannot_be_written_does_not_expire_until_the_next_check() -> None:
    sim = an_hour_of_retention()
    sim.peer("a").commit({ORDERS: 1})
    sim.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    sim.pass_ms(60 * MINUTE_MS)
    assert list(fetched(sim)) == [ORDERS]
    [event] = [event for event in sim.events if isinstance(event, AppendFailed)]
    assert (event.group_id, event.generation_id, event.what) == ("", -1, "tombstones")
    assert event.error is ErrorCode.KAFKA_STORAGE_ERROR
    sim.pass_ms(10 * MINUTE_MS)
    assert sim.find_group() is None


@covers("expiry.topic-deleted")
def test_a_deleted_topic_takes_its_offsets_out_of_all_groups() -> None:
    sim = a_group()
    for group_id in ("g", "h"):
        sim.peer("a", group_id=group_id).commit({ORDERS: 1, ("audit", 0): 2})
    sim.shard().put_pending_offset(77, "g", "orders", 1, CommittedOffset.of(9, -1, "", 0, record_offset=10))
    del sim.topics.topics["orders"]
    topics_deleted(sim, "orders")
    for group_id in ("g", "h"):
        assert list(fetched(sim, group_id=group_id)) == [("audit", 0)]
    assert not sim.shard().offsets.has_open_transaction("g")
    assert sim.find_group() is not None


@covers("expiry.topic-deleted")
def test_an_offset_that_names_no_topic_id_goes_with_its_topic_too() -> None:
    sim = a_group()
    sim.peer("a").send_commit({ORDERS: 1, ("audit", 0): 2}, retention_ms=MINUTE_MS, version=4)
    del sim.topics.topics["orders"]
    topics_deleted(sim, "orders")
    assert list(fetched(sim)) == [("audit", 0)]


@covers("expiry.topic-deleted")
def test_what_is_pending_for_other_topics_stays_when_a_topic_goes() -> None:
    sim = a_group()
    sim.peer("a").commit({ORDERS: 1})
    for topic in ("audit", "orders", "zoo"):
        sim.shard().put_pending_offset(77, "g", topic, 0, CommittedOffset.of(9, -1, "", 0, record_offset=10))
    del sim.topics.topics["orders"]
    topics_deleted(sim, "orders")
    assert sim.shard().offsets.pending_partitions("g") == [("audit", 0), ("zoo", 0)]


@covers("expiry.topic-deleted")
def test_offsets_of_a_newer_topic_of_the_same_name_stay() -> None:
    sim = a_group()
    sim.peer("a").commit({ORDERS: 1})
    sim.topics.topics["orders"] = (4, 1)
    sim.peer("a").commit({("orders", 1): 2})
    topics_deleted(sim, "orders")
    assert list(fetched(sim)) == [("orders", 1)]


@covers("expiry.topic-deleted")
def test_what_is_pending_for_a_newer_topic_of_the_same_name_stays() -> None:
    sim = a_group()
    sim.peer("a").commit({("audit", 0): 1})
    newer = topic_id("orders", 1)
    sim.shard().put_pending_offset(
        77, "g", "orders", 0, CommittedOffset.of(9, -1, "", 0, topic_id=newer, record_offset=10)
    )
    sim.topics.topics["orders"] = (4, 1)
    topics_deleted(sim, "orders")
    assert sim.shard().offsets.pending_partitions("g") == [("orders", 0)]


def test_a_topic_nobody_has_offsets_of_is_deleted_without_a_record() -> None:
    sim = a_group()
    sim.peer("a").commit({("audit", 0): 1})
    record_count = len(sim.records())
    topics_deleted(sim, "orders")
    assert len(sim.records()) == record_count


def many_groups(count: int, topics: Iterable[str]) -> GroupSim:
    """Groups in one shard, each with one offset."""
    names = list(topics)
    sim = a_group(dict.fromkeys(names, 1), offsets_topic_num_partitions=1)
    fetched(sim)  # makes the shard
    for index in range(count):
        name = names[index % len(names)]
        sim.shard().put_offset(f"g-{index}", name, 0, CommittedOffset.of(1, -1, "", 0, index, topic_id=topic_id(name)))
    return sim


def tombstones_by_batch(sim: GroupSim) -> list[int]:
    return [parse_batch_header(batch).record_count for batch in sim.logs[0]]


@pytest.mark.parametrize("topic_count", [1, 300])
def test_the_work_of_deleting_topics_is_that_of_the_groups_however_many_topics_there_are(topic_count: int) -> None:
    names = [f"t-{index}" for index in range(topic_count)]
    sim = many_groups(900, names)
    sim.topics.topics.clear()
    steps = topics_deleted(sim, *names)
    assert steps == 900 * 2 // SLICE  # a group and its offset
    assert set(tombstones_by_batch(sim)) == {SLICE // 2}
    assert list(sim.shard().offsets.group_ids()) == []


def test_one_group_with_many_offsets_is_cut_into_slices_too() -> None:
    sim = a_group({"orders": 1000}, offsets_topic_num_partitions=1)
    fetched(sim)  # makes the shard
    for index in range(1000):
        sim.shard().put_offset(
            "g", "orders", index, CommittedOffset.of(1, -1, "", 0, index, topic_id=topic_id("orders"))
        )
    del sim.topics.topics["orders"]
    assert topics_deleted(sim, "orders") == 1 + 1000 // SLICE
    assert fetched(sim) == {}


def test_what_happens_between_two_slices_is_seen() -> None:
    sim = many_groups(3 * SLICE, ["orders"])
    del sim.topics.topics["orders"]
    steps = sim.coordinator.topics_deleted(["orders"], sim.now)
    sim.apply(next(steps))
    last = f"g-{3 * SLICE - 1}"
    sim.topics.topics["orders"] = (1, 1)  # made anew
    sim.peer("a", group_id=last).commit({ORDERS: 5})
    for step in steps:
        sim.apply(step)
    assert list(sim.shard().offsets.group_ids()) == [last]


def test_a_shard_that_is_loading_keeps_the_offsets_of_a_deleted_topic_as_in_kafka() -> None:
    sim = a_group(offsets_topic_num_partitions=1)
    sim.peer("a").commit({ORDERS: 5})
    sim.apply(sim.coordinator.unload(0))
    sim.coordinator.begin_load(0)
    assert topics_deleted(sim, "orders") == 0
    sim.coordinator.replay(0, sim.logs[0])
    sim.apply(sim.coordinator.finish_load(0, sim.now))
    assert list(fetched(sim)) == [ORDERS]


def test_a_shard_that_is_given_up_meanwhile_is_left_alone() -> None:
    sim = many_groups(3 * SLICE, ["orders"])
    del sim.topics.topics["orders"]
    steps = sim.coordinator.topics_deleted(["orders"], sim.now)
    sim.apply(next(steps))
    sim.apply(sim.coordinator.unload(0))
    assert list(steps) == []


def two_expired_groups() -> GroupSim:
    """In one shard: "g" with three offsets, then "h" with one."""
    sim = a_group(offsets_retention_minutes=60, offsets_topic_num_partitions=1)
    sim.peer("a").commit({ORDERS: 1, ("orders", 1): 1, ("audit", 0): 1})
    sim.peer("b", group_id="h").commit({ORDERS: 1})
    return sim


def test_a_group_goes_in_one_batch_with_its_offsets_where_not_all_tombstones_fit_in_one() -> None:
    sim = two_expired_groups()
    sim.fail_appends(ErrorCode.MESSAGE_TOO_LARGE)
    sim.pass_ms(60 * MINUTE_MS)
    assert sim.shard().groups == {}
    assert tombstones_by_batch(sim)[2:] == [4, 2]


def test_a_group_whose_offsets_could_not_be_removed_stays_until_the_next_check() -> None:
    sim = two_expired_groups()
    sim.fail_appends(ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.KAFKA_STORAGE_ERROR)
    sim.pass_ms(60 * MINUTE_MS)
    assert list(sim.shard().groups) == ["g"]
    assert sim.shard().offsets.count("g") == 3
    sim.pass_ms(10 * MINUTE_MS)
    assert sim.shard().groups == {}


def test_a_group_whose_tombstones_do_not_fit_in_one_batch_loses_its_offsets_first() -> None:
    sim = an_hour_of_retention()
    sim.peer("a").commit({ORDERS: 1, ("orders", 1): 1, ("audit", 0): 1})
    sim.fail_appends(ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.KAFKA_STORAGE_ERROR)
    sim.pass_ms(60 * MINUTE_MS)  # of the halves one is written
    group_id = sim.group.group_id
    assert sim.shard().offsets.count(group_id) == 2
    sim.pass_ms(10 * MINUTE_MS)
    assert sim.find_group() is None
    assert sim.shard().offsets.count(group_id) == 0


@pytest.mark.parametrize("error", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE])
def test_tombstones_that_do_not_fit_in_one_batch_are_written_in_several(error: ErrorCode) -> None:
    sim = many_groups(5, ["orders"])
    del sim.topics.topics["orders"]
    sim.fail_appends(error, error)
    topics_deleted(sim, "orders")
    assert list(sim.shard().offsets.group_ids()) == []
    assert tombstones_by_batch(sim) == [3, 1, 1]
    assert not any(isinstance(event, AppendFailed) for event in sim.events)


def test_a_single_tombstone_that_is_too_large_is_not_tried_again() -> None:
    sim = a_group()
    sim.peer("a").commit({ORDERS: 1})
    del sim.topics.topics["orders"]
    sim.fail_appends(ErrorCode.MESSAGE_TOO_LARGE)
    topics_deleted(sim, "orders")
    assert list(fetched(sim)) == [ORDERS]
    (event,) = (event for event in sim.events if isinstance(event, AppendFailed))
    assert (event.error, event.group_id, event.generation_id) == (ErrorCode.MESSAGE_TOO_LARGE, "", -1)


def test_the_history_says_how_many_offsets_of_how_many_groups_went_with_a_topic() -> None:
    sim = a_group()
    for name in ("a", "b", "c"):
        sim.peer(name, group_id="g" if name != "c" else "other").commit({ORDERS: 1, ("orders", 1): 1})
    del sim.topics.topics["orders"]
    topics_deleted(sim, "orders")
    removed = [event for event in sim.events if isinstance(event, OffsetsRemoved)]
    assert sum(event.group_count for event in removed) == 2
    assert sum(event.offset_count for event in removed) == 4
