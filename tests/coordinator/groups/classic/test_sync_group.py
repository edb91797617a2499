"""SyncGroup: checks, the leader's assignments, stragglers, failed writes."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import (
    AssignmentReceived,
    Cause,
    MemberRemoved,
    RebalanceCompleted,
    SyncCompleted,
    Transition,
)
from kshim_protocol.errors import ErrorCode
from tests.coordinator.peers import a_group
from tests.coordinator.rules import covers


@covers("check.sync.v5-null-protocol")
@pytest.mark.parametrize(("type_", "name"), [(None, "range"), ("consumer", None), (None, None)])
def test_v5_must_name_type_and_protocol_even_before_a_group(type_: str | None, name: str | None) -> None:
    sim = a_group().completing("a")
    assert sim["a"].send_sync(protocol_type=type_, protocol_name=name).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    sim["a"].group_id = ""
    assert sim["a"].send_sync(protocol_type=type_, protocol_name=name).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@covers("check.sync.empty-group-id")
def test_a_sync_needs_a_group_id() -> None:
    assert a_group().peer("a", group_id="").send_sync().error is ErrorCode.INVALID_GROUP_ID


@covers("sync.unknown-group", "sync.empty", "sync.unknown-member")
def test_only_members_sync() -> None:
    sim = a_group()
    assert sim.peer("nobody").send_sync().error is ErrorCode.UNKNOWN_MEMBER_ID
    sim.empty()
    assert sim["gone"].send_sync().error is ErrorCode.UNKNOWN_MEMBER_ID
    sim.stable("a")
    pending = sim.peer("p")
    pending.member_id = pending.send_join().reply.member_id
    pending.generation_id = sim["a"].generation_id
    assert pending.send_sync().error is ErrorCode.UNKNOWN_MEMBER_ID


@covers("sync.fenced-instance")
def test_an_instance_id_must_be_the_members_own() -> None:
    sim = a_group().completing("a", "b", static=["a"])
    sim["b"].instance_id = "a-instance"
    assert sim["b"].send_sync().error is ErrorCode.FENCED_INSTANCE_ID
    sim["b"].instance_id = "unheard-of"
    assert sim["b"].send_sync().error is ErrorCode.UNKNOWN_MEMBER_ID


@covers("sync.other-generation")
@pytest.mark.parametrize("generation_id", [-1, 0, 1, 3])
def test_the_generation_must_be_the_groups(generation_id: int) -> None:
    sim = a_group().completing("a", "b")
    sim["b"].generation_id = generation_id
    assert sim["b"].send_sync().error is ErrorCode.ILLEGAL_GENERATION


@covers("sync.other-protocol")
def test_type_and_protocol_must_be_the_groups() -> None:
    sim = a_group().completing("a")
    assert sim["a"].send_sync(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sim["a"].send_sync(protocol_name="sticky").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sim["a"].send_sync(version=4).error is ErrorCode.NONE


@covers("sync.preparing")
def test_while_members_gather_a_sync_is_told_to_rejoin() -> None:
    sim = a_group().preparing("a", "b")
    assert sim["b"].send_sync().error is ErrorCode.REBALANCE_IN_PROGRESS


@covers("sync.completing-follower", "sync.completing-leader", "session.sync-answered")
def test_followers_wait_for_the_leader_whose_assignments_are_written_before_anybody_hears_of_them() -> None:
    sim = a_group().completing("a", "b", protocols={"range": b"r"})
    completing_since_ms = sim.wall_ms
    sim.pass_ms(3_000)
    follower = sim["b"].send_sync()
    assert follower.is_parked
    assert sim.group.pending_syncs == {sim["a"].member_id}
    sim.pass_ms(4_000)
    leader = sim["a"].send_sync({sim["a"].member_id: b"1", sim["b"].member_id: b"2"})
    assert (leader.reply.assignment, follower.reply.assignment) == (b"1", b"2")
    assert (leader.reply.protocol_type, leader.reply.protocol_name) == ("consumer", "range")
    assert sim.group.state is GroupState.STABLE
    value = sim.records()[-1].value
    assert (value.protocol_type, value.generation, value.protocol) == ("consumer", 2, "range")
    assert value.leader == sim["a"].member_id
    assert value.current_state_timestamp == completing_since_ms
    assert sim.records()[-1].timestamp_ms == sim.wall_ms
    [first, second] = value.members
    assert (first.member_id, first.client_id, first.client_host) == (sim["a"].member_id, "a", "/127.0.0.1")
    assert (first.session_timeout, first.rebalance_timeout, first.subscription) == (10_000, 60_000, b"r")
    assert (first.assignment, second.assignment) == (b"1", b"2")
    assert sim.deadline_ms("session", "g", sim["b"].member_id) == 10_000
    assert sim.shard().deadlines.get(("sync", "g")) is None


@covers("sync.assignment.missing-member", "sync.assignment.unknown-member")
def test_a_member_without_an_entry_gets_nothing_and_an_entry_without_a_member_is_dropped() -> None:
    sim = a_group().completing("a", "b")
    follower = sim["b"].send_sync()
    leader = sim["a"].send_sync({sim["a"].member_id: b"1", "stranger": b"3"})
    assert leader.reply.assignment == b"1"
    assert follower.reply.assignment == b""
    assert [member.assignment for member in sim.records()[-1].value.members] == [b"1", b""]
    [event] = [event for event in sim.events if isinstance(event, AssignmentReceived)]
    assert event.unassigned == (sim["b"].member_id,)


@covers("sync.stable")
def test_in_stable_a_sync_hears_the_stored_assignment_and_changes_nothing() -> None:
    sim = a_group().stable("a", "b")
    sim.pass_ms(4_000)
    reply = sim["b"].send_sync({sim["b"].member_id: b"mine"}).reply
    assert reply.assignment == b"b"
    assert sim.deadline_ms("session", "g", sim["b"].member_id) == 6_000
    assert sim["a"].send_sync({sim["b"].member_id: b"other"}).reply.assignment == b"a"
    assert len(sim.records()) == 2


@covers("sync.stable")
def test_a_straggler_gets_its_assignment_in_stable() -> None:
    sim = a_group().completing("a", "b")
    sim["a"].send_sync({sim["b"].member_id: b"late"})
    assert sim.group.state is GroupState.STABLE
    assert sim.deadline_ms("sync", "g") == 60_000
    assert sim["b"].send_sync().reply.assignment == b"late"
    assert sim.shard().deadlines.get(("sync", "g")) is None


def test_a_second_sync_of_the_same_member_takes_over_and_the_first_is_told_so() -> None:
    sim = a_group().completing("a", "b")
    first, second = sim["b"].send_sync(), sim["b"].send_sync()
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.is_parked
    sim["a"].send_sync({sim["b"].member_id: b"2"})
    assert second.reply.assignment == b"2"


@covers(
    "sync.write-failed.not-available",
    "sync.write-failed.not-coordinator",
    "sync.write-failed.too-large",
    "coordinator.not-available",
)
@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_assignments_that_cannot_be_written_are_taken_back_and_everybody_rejoins(
    error: ErrorCode, answer: ErrorCode
) -> None:
    sim = a_group().completing("a", "b")
    follower = sim["b"].send_sync()
    sim.fail_appends(error)
    leader = sim["a"].send_sync({sim["a"].member_id: b"1", sim["b"].member_id: b"2"})
    assert leader.error is follower.error is answer
    assert sim.group.state is GroupState.PREPARING_REBALANCE
    assert sim.transitions()[-1] == "CompletingRebalance -> PreparingRebalance append-failed"
    assert [member.assignment for member in sim.group.members.values()] == [b"", b""]
    for name in ("a", "b"):
        call = sim[name].join()
    sim["a"].generation_id = sim["b"].generation_id = call.reply.generation_id
    sim.settle()
    assert sim.transitions()[-1] == "CompletingRebalance -> Stable assignment-received"


# The sync timer


@covers("sync.timer", "timing.leader-never-syncs")
def test_a_leader_that_heartbeats_but_never_syncs_is_removed_and_the_others_rejoin() -> None:
    sim = a_group().completing("a", "b", rebalance_timeout_ms=3_000)
    follower = sim["b"].send_sync()
    for _ in range(2):
        sim.pass_ms(1_000)
        assert sim["a"].heartbeat() is ErrorCode.NONE
    sim.pass_ms(1_000)
    assert follower.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(sim.group.members) == [sim["b"].member_id]
    assert sim["a"].heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert sim.transitions()[-1] == "CompletingRebalance -> PreparingRebalance sync-timeout"


@covers("sync.timer")
def test_static_members_that_do_not_sync_are_removed_too() -> None:
    sim = a_group().completing("a", "b", static=["b"], rebalance_timeout_ms=3_000)
    sim["a"].send_sync()
    sim.pass_ms(3_000)
    assert list(sim.group.members) == [sim["a"].member_id]


@covers("sync.timer.in-stable")
def test_a_straggler_that_never_syncs_is_removed_from_a_stable_group() -> None:
    sim = a_group().completing("a", "b", rebalance_timeout_ms=3_000)
    sim["a"].send_sync()
    assert sim.group.state is GroupState.STABLE
    sim.pass_ms(3_000)
    assert list(sim.group.members) == [sim["a"].member_id]
    assert sim.transitions()[-1] == "Stable -> PreparingRebalance sync-timeout"


@covers("sync.timer")
def test_a_group_of_which_nobody_syncs_becomes_empty() -> None:
    sim = a_group().completing("a", "b", rebalance_timeout_ms=3_000)
    sim.pass_ms(3_000)
    assert sim.group.state is GroupState.EMPTY
    assert sim.transitions()[-2:] == [
        "CompletingRebalance -> PreparingRebalance sync-timeout",
        "PreparingRebalance -> Empty sync-timeout",
    ]


def test_history_names_the_first_of_those_that_did_not_sync() -> None:
    sim = a_group().completing("a", "b", "c", rebalance_timeout_ms=3_000)
    sim["a"].send_sync()
    sim.pass_ms(3_000)
    [moved] = [event for event in sim.events if isinstance(event, Transition) and event.cause is Cause.SYNC_TIMEOUT]
    assert moved.member is not None
    assert moved.member.member_id == sim["b"].member_id
    assert moved.detail == f"no SyncGroup in time from {sim['b'].member_id}, {sim['c'].member_id}"
    removed = [event for event in sim.events if isinstance(event, MemberRemoved)]
    assert [(event.member.client_id, event.cause) for event in removed] == [
        ("b", Cause.SYNC_TIMEOUT),
        ("c", Cause.SYNC_TIMEOUT),
    ]


def test_the_history_says_how_long_joining_and_syncing_took() -> None:
    sim = a_group().stable("a", "b")
    sim["a"].send_join()
    sim.pass_ms(700)
    sim["b"].take(sim["b"].join())
    sim["a"].generation_id = sim["b"].generation_id
    sim.pass_ms(300)
    sim.settle()
    event = [event for event in sim.events if isinstance(event, RebalanceCompleted)][-1]
    assert (event.generation_id, event.member_count, event.join_ms, event.sync_ms) == (3, 2, 700, 300)


@pytest.mark.parametrize("later_ms", [0, 300])
def test_the_history_names_the_leader_as_the_last_to_sync_because_the_others_wait_for_it(later_ms: int) -> None:
    sim = a_group().completing("a", "b")
    sim.pass_ms(100)
    sim["b"].send_sync()
    sim.pass_ms(later_ms)
    sim["a"].send_sync({})
    (event,) = (event for event in sim.events if isinstance(event, RebalanceCompleted))
    assert event.last_to_sync is not None
    assert (event.last_to_sync.member_id, event.last_sync_ms) == (sim["a"].member_id, 100 + later_ms)


def test_the_history_says_when_the_last_straggler_has_synced() -> None:
    sim = a_group().completing("a", "b", "c")
    sim["a"].send_sync({})
    sim.pass_ms(300)
    sim["b"].send_sync()
    assert not any(isinstance(event, SyncCompleted) for event in sim.events)
    sim.pass_ms(100)
    for _ in range(2):
        sim["c"].send_sync()
        (event,) = (event for event in sim.events if isinstance(event, SyncCompleted))
        assert event.member is not None
        assert (event.member.member_id, event.sync_ms) == (sim["c"].member_id, 400)
