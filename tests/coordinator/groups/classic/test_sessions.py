"""Sessions: what restarts them and what follows when they end."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.classic.join_group import NEW_MEMBER_JOIN_TIMEOUT_MS
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import Cause, MemberRefused, MemberRemoved
from kshim_protocol.errors import ErrorCode
from tests.coordinator.peers import GroupSim, a_group, fetched
from tests.coordinator.rules import covers


@covers("session.new-member")
def test_a_new_members_parked_join_holds_for_five_minutes_whatever_its_session_timeout() -> None:
    sim = a_group().stable("a", rebalance_timeout_ms=600_000)
    call = sim.peer("b", version=0).send_join()
    for _ in range(59):
        sim.pass_ms(5_000)
        sim["a"].heartbeat()
    assert call.is_parked
    sim.pass_ms(5_000)
    assert NEW_MEMBER_JOIN_TIMEOUT_MS == 300_000
    assert (call.error, call.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert list(sim.group.members) == [sim["a"].member_id]


@covers("session.pending", "session.ends.pending")
def test_an_issued_id_is_good_for_the_session_timeout_of_its_join() -> None:
    sim = a_group()
    peer = sim.peer("a", session_timeout_ms=8_000)
    peer.member_id = peer.send_join().reply.member_id
    assert sim.deadline_ms("session", "g", peer.member_id) == 8_000
    sim.pass_ms(8_000)
    assert peer.send_join().error is ErrorCode.UNKNOWN_MEMBER_ID
    [event] = [event for event in sim.events if isinstance(event, MemberRemoved)]
    assert (event.was_pending, event.cause) == (True, Cause.SESSION_EXPIRED)
    assert event.member.client_id == "a"


@covers("session.commit", "timing.commits-keep-alive", "timing.heartbeats-keep-alive")
@pytest.mark.parametrize("kind", ["heartbeat", "commit"])
def test_heartbeats_and_commits_keep_a_member_alive(kind: str) -> None:
    sim = a_group(group_min_session_timeout_ms=1).stable("a", session_timeout_ms=1_000)
    for _ in range(8):
        sim.pass_ms(300)
        if kind == "heartbeat":
            assert sim["a"].heartbeat() is ErrorCode.NONE
        else:
            assert sim["a"].commit({("orders", 0): 1}) == {("orders", 0): ErrorCode.NONE}
    assert sim.group.state is GroupState.STABLE


@covers("timing.syncs-do-not", "timing.wrong-heartbeats-do-not", "timing.fetches-do-not")
@pytest.mark.parametrize("kind", ["sync", "wrong heartbeat", "fetch"])
def test_syncs_refused_heartbeats_and_fetches_do_not(kind: str) -> None:
    sim = a_group(group_min_session_timeout_ms=1).stable("a", session_timeout_ms=1_000)
    for _ in range(8):
        match kind:
            case "sync":
                sim["a"].send_sync()
            case "wrong heartbeat":
                sim["a"].heartbeat(generation_id=99)
            case _:
                fetched(sim)
        sim.pass_ms(300)
    assert sim.group.state is GroupState.EMPTY


@covers("session.ends.stable-or-completing")
@pytest.mark.parametrize("static", [(), ("b",)])
def test_a_silent_member_is_removed_at_its_session_timeout_and_the_others_rejoin(static: tuple[str, ...]) -> None:
    sim = a_group().stable("a", "b", static=static)
    sim.pass_ms(9_999)
    assert sim["a"].heartbeat() is ErrorCode.NONE
    sim.pass_ms(1)
    assert sim["a"].heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert sim.transitions()[-1] == "Stable -> PreparingRebalance session-expired"
    [event] = [event for event in sim.events if isinstance(event, MemberRemoved)]
    assert (event.member.member_id, event.cause) == (sim["b"].member_id, Cause.SESSION_EXPIRED)


@covers("session.ends.completing-silent")
def test_who_neither_syncs_nor_heartbeats_is_removed_at_its_session_timeout() -> None:
    sim = a_group().completing("a", "b")
    follower = sim["b"].send_sync()
    sim.pass_ms(10_000)
    assert follower.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(sim.group.members) == [sim["b"].member_id]
    assert sim.transitions()[-1] == "CompletingRebalance -> PreparingRebalance session-expired"


@covers("session.ends.preparing")
def test_a_silent_member_holds_a_rebalance_for_its_session_only() -> None:
    sim = a_group(group_min_session_timeout_ms=1).stable("a", "b", session_timeout_ms=1_000)
    call = sim["a"].send_join()
    sim.pass_ms(999)
    assert call.is_parked
    sim.pass_ms(1)
    assert call.reply.generation_id == 3


@covers("session.ends.parked")
def test_who_waits_for_its_assignment_counts_as_alive() -> None:
    sim = a_group().completing("a", "b")
    follower = sim["b"].send_sync()
    for _ in range(5):
        sim.pass_ms(5_000)
        sim["a"].heartbeat()
    assert follower.is_parked
    assert sim["b"].member_id in sim.group.members
    sim["a"].send_sync({sim["b"].member_id: b"2"})
    assert follower.reply.assignment == b"2"
    assert sim.deadline_ms("session", "g", sim["b"].member_id) == 10_000


def test_when_nobody_looked_in_time_whatever_was_due_first_happens_first() -> None:
    sim = a_group().stable("a", "b")
    sim["a"].heartbeat()
    sim.pass_ms(1)
    sim["b"].heartbeat()
    sim.jump_ms(50_000)
    removed = [event.member.member_id for event in sim.events if isinstance(event, MemberRemoved)]
    assert removed == [sim["a"].member_id, sim["b"].member_id]
    assert sim.group.state is GroupState.EMPTY


def refused(sim: GroupSim) -> list[str]:
    """The members of which it was told that they are still there."""
    return [event.member.member_id for event in sim.events if isinstance(event, MemberRefused)]


@pytest.mark.parametrize("kind", ["heartbeat", "commit", "sync"])
def test_that_a_member_is_still_there_whose_session_has_expired_is_told_once(kind: str) -> None:
    sim = a_group().stable("a", session_timeout_ms=10_000)
    a = sim["a"]
    sim.pass_ms(10_000)
    for _ in range(2):
        match kind:
            case "heartbeat":
                assert a.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
            case "commit":
                assert a.commit({("orders", 0): 1}) == {("orders", 0): ErrorCode.UNKNOWN_MEMBER_ID}
            case _:
                assert a.send_sync().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(sim) == [a.member_id]


def test_a_member_that_left_or_never_was_one_is_not_told_of() -> None:
    sim = a_group().stable("a", "b")
    sim["a"].leave()
    assert sim["a"].heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    stranger = sim.peer("c")
    stranger.member_id = "stranger"
    assert stranger.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(sim) == []


def test_of_many_lost_members_the_newest_64_are_remembered() -> None:
    names = [f"m{number}" for number in range(66)]
    sim = a_group().stable(*names, session_timeout_ms=10_000)
    sim.pass_ms(10_000)
    for name in names:
        sim[name].heartbeat()
    assert refused(sim) == [sim[name].member_id for name in names[2:]]


def test_that_a_member_is_still_there_that_did_not_join_again_in_time_is_told() -> None:
    sim = a_group().stable("a", "b", rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    sim["a"].send_join()
    sim.pass_ms(20_000)
    assert sim["b"].heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(sim) == [sim["b"].member_id]


def test_that_a_member_is_still_there_that_did_not_sync_in_time_is_told() -> None:
    sim = a_group().stable("a", "b", rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    a, b = sim["a"], sim["b"]
    a.send_join()
    a.take(b.join())
    sim.pass_ms(20_000)
    assert b.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert b.member_id in refused(sim)
