"""The rebalance itself: how it starts, the initial delay, the end of the join phase, vote and leader."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.classic.group import vote
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import AppendFailed, LeaderReplaced
from kshim.coordinator.step import Now
from kshim_protocol.errors import ErrorCode
from tests.coordinator.harness import Call
from tests.coordinator.peers import GroupSim, a_group, subscription
from tests.coordinator.rules import covers


def joins(sim: GroupSim, *names: str) -> list[Call]:  # type: ignore[type-arg]
    """Each known peer joins again."""
    return [sim[name].join() for name in names]


# The start


@covers("rebalance.start.all-in")
def test_a_lone_member_that_rejoins_waits_for_nobody() -> None:
    sim = a_group().stable("a")
    assert sim["a"].send_join().reply.generation_id == 2


@covers("rebalance.start.waits")
def test_the_join_phase_lasts_at_most_the_longest_rebalance_timeout() -> None:
    sim = a_group()
    sim.stable("a", "b", rebalance_timeout_ms=20_000)
    sim.group.members[sim["b"].member_id].rebalance_timeout_ms = 30_000
    sim["a"].send_join()
    assert sim.deadline_ms("join", "g") == 30_000


@covers("rebalance.pending-ids-hold", "rebalance.complete.by-pending", "session.ends.pending")
@pytest.mark.parametrize("end", ["joins", "leaves", "expires"])
def test_an_id_that_was_handed_out_holds_the_phase_until_it_joins_leaves_or_expires(end: str) -> None:
    sim = a_group().stable("a", "b")
    late = sim.peer("c", session_timeout_ms=7_000)
    late.member_id = late.send_join().reply.member_id
    first, second = joins(sim, "a", "b")
    assert first.is_parked
    assert second.is_parked
    match end:
        case "joins":
            assert late.send_join().error is ErrorCode.NONE
        case "leaves":
            assert late.leave().members[0].error_code == ErrorCode.NONE
        case _:
            sim.pass_ms(6_999)
            assert first.is_parked
            sim.pass_ms(1)
    assert first.error is second.error is ErrorCode.NONE
    assert not sim.group.pending_joins


@covers("rebalance.pending-ids-hold")
def test_a_pending_id_holds_the_phase_no_longer_than_the_join_timer() -> None:
    sim = a_group().stable("a", "b", rebalance_timeout_ms=5_000)
    late = sim.peer("c", session_timeout_ms=50_000)
    late.member_id = late.send_join().reply.member_id
    first, second = joins(sim, "a", "b")
    sim.pass_ms(5_000)
    assert first.reply.generation_id == second.reply.generation_id == 3
    assert late.member_id in sim.group.pending_joins


@covers("rebalance.pending-ids-hold")
def test_a_pending_id_does_not_hold_a_group_without_members() -> None:
    sim = a_group().stable("a")
    sim.peer("b").send_join()
    sim["a"].leave()
    assert sim.deadline_ms("join", "g") == 0
    sim.pass_ms(0)
    assert sim.group.state is GroupState.EMPTY


@covers("rebalance.start.from-completing")
def test_a_rebalance_in_completing_rebalance_sends_those_back_who_wait_for_their_assignment() -> None:
    sim = a_group().completing("a", "b")
    parked = sim["b"].send_sync()
    for _ in range(2):
        sim.pass_ms(6_000)
        sim["a"].heartbeat()
    assert sim.shard().deadlines.get(("session", "g", sim["b"].member_id)) is None  # over, but it waits
    sim.peer("c").join()
    assert parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert sim.group.pending_syncs == set()
    assert sim.shard().deadlines.get(("sync", "g")) is None
    assert sim.deadline_ms("session", "g", sim["b"].member_id) == 10_000


# The initial delay


@covers("rebalance.initial-delay", "rebalance.initial-delay.ends")
def test_an_empty_group_waits_for_further_members_before_its_first_generation() -> None:
    sim = a_group(group_initial_rebalance_delay_ms=3_000)
    first = sim.peer("a").join()
    assert first.is_parked
    assert sim.group.state is GroupState.PREPARING_REBALANCE
    sim.pass_ms(2_999)
    assert first.is_parked
    sim.pass_ms(1)
    assert first.reply.generation_id == 1
    assert sim.transitions()[-1] == "PreparingRebalance -> CompletingRebalance initial-delay-over"


@covers("rebalance.initial-delay.extends", "timing.initial-delay")
def test_newcomers_extend_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    sim = a_group(group_initial_rebalance_delay_ms=1_500)
    calls = [sim.peer("a", rebalance_timeout_ms=5_000).join()]
    sim.pass_ms(1_000)
    calls.append(sim.peer("b", rebalance_timeout_ms=5_000).join())
    sim.pass_ms(900)
    calls.append(sim.peer("c", rebalance_timeout_ms=5_000).join())
    sim.pass_ms(2_599)
    assert all(call.is_parked for call in calls)
    sim.pass_ms(1)  # 4.5 s after the first
    assert {call.reply.generation_id for call in calls} == {1}


@covers("rebalance.initial-delay.extends")
def test_the_initial_delay_never_outlasts_what_remains() -> None:
    sim = a_group(group_initial_rebalance_delay_ms=3_000)
    calls = [sim.peer("a", rebalance_timeout_ms=4_000).join()]
    for second in range(5):
        sim.pass_ms(1_000)
        if any(not call.is_parked for call in calls):
            break
        calls.append(sim.peer(f"b{second}", rebalance_timeout_ms=4_000).join())
    assert second == 3  # 3 s, then the 1 s that remained
    assert all(call.reply.generation_id == 1 for call in calls)


@covers("rebalance.initial-delay.extends", "rebalance.initial-delay.ends")
@pytest.mark.parametrize(("rebalance_timeout_ms", "end_ms"), [(2_000, 3_000), (4_000, 4_000)])
def test_an_initial_delay_that_may_not_be_extended_any_further_ends_when_it_is_over(
    rebalance_timeout_ms: int, end_ms: int
) -> None:
    sim = a_group(group_initial_rebalance_delay_ms=3_000)
    sim.peer("a", rebalance_timeout_ms=rebalance_timeout_ms).join()
    sim.peer("b", rebalance_timeout_ms=rebalance_timeout_ms).join()
    if end_ms > 3_000:
        sim.pass_ms(3_500)
        sim.peer("c", rebalance_timeout_ms=rebalance_timeout_ms).join()
        sim.pass_ms(end_ms - 3_500 - 1)
    else:
        sim.pass_ms(end_ms - 1)
    before = len(sim.transitions())
    sim.apply(sim.coordinator.advance(Now(sim.mono_ms + 1, sim.wall_ms + 1)))
    assert sim.transitions()[before:] == ["PreparingRebalance -> CompletingRebalance initial-delay-over"]


@covers("rebalance.initial-delay.extends")
def test_the_initial_delay_is_extended_by_the_last_millisecond_that_remains() -> None:
    sim = a_group(group_initial_rebalance_delay_ms=3_000)
    calls = [sim.peer(name, rebalance_timeout_ms=3_001).join() for name in "ab"]
    sim.pass_ms(3_000)
    assert all(call.is_parked for call in calls)
    sim.pass_ms(1)
    assert not any(call.is_parked for call in calls)


@covers("rebalance.initial-delay.not-cut-short")
def test_leaves_and_complete_attendance_do_not_end_the_initial_delay() -> None:
    sim = a_group(group_initial_rebalance_delay_ms=3_000)
    first, second = sim.peer("a").join(), sim.peer("b").join()
    sim["a"].leave()
    assert first.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert second.is_parked
    sim["b"].leave()
    assert sim.group.state is GroupState.PREPARING_REBALANCE
    sim.pass_ms(3_000)
    assert sim.group.state is GroupState.PREPARING_REBALANCE  # b came during the window, so it was extended
    sim.pass_ms(3_000)
    assert sim.transitions()[-1] == "PreparingRebalance -> Empty initial-delay-over"
    assert sim.group.generation_id == 1


@covers("rebalance.initial-delay.pending-expires")
def test_a_pending_id_that_expires_ends_the_initial_delay_when_all_others_are_there() -> None:
    sim = a_group(group_initial_rebalance_delay_ms=10_000)
    first = sim.peer("a").join()
    sim.peer("b", session_timeout_ms=6_000).send_join()
    sim.pass_ms(5_999)
    assert first.is_parked
    sim.pass_ms(1)
    assert first.reply.generation_id == 1
    assert sim.shard().deadlines.get(("join", "g")) is None


# The end of the join phase


@covers("rebalance.complete.dynamic-absent", "timing.non-rejoiner")
def test_a_dynamic_member_that_does_not_rejoin_is_removed_at_the_rebalance_timeout() -> None:
    sim = a_group(group_min_session_timeout_ms=1)
    sim.completing("a", session_timeout_ms=2_000, version=0)
    late = sim.peer("b", session_timeout_ms=6_000, version=0)
    call = late.join()
    for _ in range(5):
        sim.pass_ms(1_000)
        assert sim["a"].heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        assert call.is_parked
    sim.pass_ms(1_000)
    assert late.take(call).generation_id == 2
    assert list(sim.group.members) == [late.member_id]
    assert sim["a"].heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert sim.transitions()[-1] == "PreparingRebalance -> CompletingRebalance rebalance-timeout"


@covers("rebalance.complete.static-absent", "rebalance.complete.leader-absent")
def test_a_static_leader_that_does_not_rejoin_stays_a_member_and_loses_the_lead() -> None:
    sim = a_group().stable("a", "b", static=["a"], rebalance_timeout_ms=5_000)
    sim["b"].protocols = {"range": subscription("audit")}
    call = sim["b"].send_join()
    sim.pass_ms(5_000)
    reply = sim["b"].take(call)
    assert reply.leader == sim["b"].member_id
    assert {member.member_id for member in reply.members} == {sim["a"].member_id, sim["b"].member_id}
    [event] = [event for event in sim.events if isinstance(event, LeaderReplaced)]
    assert event.member.member_id == sim["b"].member_id
    assert event.previous_leader_id == sim["a"].member_id


@covers("rebalance.complete.nobody-parked")
def test_static_members_of_whom_none_comes_back_are_waited_for_again() -> None:
    sim = a_group().stable("a", "b", "c", static=["a", "b"], rebalance_timeout_ms=5_000, session_timeout_ms=60_000)
    sim["c"].leave()  # starts a rebalance for which nobody is there
    sim.pass_ms(5_000)
    assert sim.group.state is GroupState.PREPARING_REBALANCE
    assert sim.deadline_ms("join", "g") == 5_000
    assert len(sim.group.members) == 2
    calls = joins(sim, "a", "b")
    assert [call.error for call in calls] == [ErrorCode.NONE] * 2


@covers("rebalance.complete.empty", "rebalance.complete.generation", "leave.last-member")
def test_when_the_last_member_goes_the_empty_group_is_written_with_its_type_and_next_generation() -> None:
    sim = a_group().stable("a")
    sim.pass_ms(1_000)
    sim["a"].leave()
    assert sim.group.state is GroupState.EMPTY
    assert (sim.group.generation_id, sim.group.protocol_name, sim.group.leader_id) == (2, None, None)
    value = sim.records()[-1].value
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 2, None, None)
    assert (value.members, value.current_state_timestamp) == ((), sim.wall_ms)


def test_a_group_is_empty_even_if_that_cannot_be_written() -> None:
    sim = a_group().stable("a")
    sim.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    reply = sim["a"].leave()
    assert (reply.error_code, reply.members) == (ErrorCode.NOT_COORDINATOR, ())
    assert (sim.group.state, sim.group.generation_id) == (GroupState.EMPTY, 2)
    [event] = [event for event in sim.events if isinstance(event, AppendFailed)]
    assert event.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert sim.stable("b").group.generation_id == 3


@covers("rebalance.complete.answers", "rebalance.complete.generation", "session.join-answered")
def test_the_end_of_the_phase_answers_everybody_and_the_leader_alone_hears_of_the_members() -> None:
    sim = a_group().stable("a", "b", protocols={"range": b"r", "sticky": b"s"}, rebalance_timeout_ms=30_000)
    sim["b"].rebalance_timeout_ms = 40_000
    sim["a"].protocols = {"range": b"new", "sticky": b"s"}
    leader, follower = joins(sim, "a", "b")
    for reply in (leader.reply, follower.reply):
        assert (reply.generation_id, reply.protocol_type, reply.protocol_name) == (3, "consumer", "range")
        assert reply.leader == sim["a"].member_id
        assert not reply.skip_assignment
    metadata = {member.member_id: member.metadata for member in leader.reply.members}
    assert metadata == {sim["a"].member_id: b"new", sim["b"].member_id: b"r"}
    assert follower.reply.members == ()
    assert sim.group.state is GroupState.COMPLETING_REBALANCE
    assert sim.group.pending_syncs == {sim["a"].member_id, sim["b"].member_id}
    assert sim.deadline_ms("sync", "g") == 40_000
    assert sim.deadline_ms("session", "g", sim["a"].member_id) == 10_000


@covers("rebalance.complete.writes-nothing")
def test_nothing_of_a_generation_is_written_before_its_leader_syncs() -> None:
    sim = a_group().completing("a", "b")
    assert [record.value.generation for record in sim.records()] == [0]


# Vote and leader


@covers("rebalance.vote.candidates")
@pytest.mark.parametrize(
    ("ballots", "chosen"),
    [
        (["ab"], "a"),
        (["ab", "ba", "ba"], "b"),
        (["ac", "bc"], "c"),
        (["xab", "yba", "zba"], "b"),
        (["abc", "cba", "cab"], "c"),
        (["ab", "xba", "xba"], "b"),
    ],
)
def test_the_vote_is_for_the_name_most_members_want_of_those_all_offer(ballots: list[str], chosen: str) -> None:
    assert vote([dict.fromkeys(ballot, b"") for ballot in ballots]) == chosen


@covers("rebalance.vote.tie")
def test_a_tie_goes_to_the_first_members_favourite() -> None:
    assert vote([{"a": b"", "b": b""}, {"b": b"", "a": b""}]) == "a"
    assert vote([{"b": b"", "a": b""}, {"a": b"", "b": b""}]) == "b"


@covers("rebalance.vote.candidates")
def test_the_group_uses_the_protocol_that_was_voted_for() -> None:
    sim = a_group().completing("a", protocols={"range": b"", "sticky": b""})
    others = [sim.peer(name, protocols={"sticky": b"", "range": b""}).join() for name in "bc"]
    sim["a"].join()
    assert {call.reply.protocol_name for call in others} == {"sticky"}


@covers("rebalance.leader.first", "rebalance.leader.stays")
def test_who_came_first_leads_and_goes_on_leading() -> None:
    sim = a_group().stable("a", "b")
    assert sim.group.leader_id == sim["a"].member_id
    joins(sim, "b", "a")
    sim["b"].protocols = {"range": subscription("audit")}
    joins(sim, "b", "a")
    assert sim.group.leader_id == sim["a"].member_id


@covers("rebalance.leader.removed")
def test_a_leader_that_goes_is_followed_by_another_member() -> None:
    sim = a_group().stable("a", "b")
    sim["a"].leave()
    assert sim.group.leader_id == sim["b"].member_id
    assert sim["b"].join().reply.leader == sim["b"].member_id


@covers("rebalance.members-order")
def test_the_leader_hears_of_every_member_once() -> None:
    sim = a_group().stable("a", "b", "c")
    calls = joins(sim, "a", "b", "c")
    members = [member.member_id for member in calls[0].reply.members]
    assert sorted(members) == sorted(sim[name].member_id for name in "abc")


# Timing


@covers("timing.parked-behind-pending", "session.ends.parked")
def test_a_member_parked_behind_a_pending_id_outlives_its_session() -> None:
    sim = a_group(group_min_session_timeout_ms=1).stable("a", session_timeout_ms=1_000)
    sim.peer("b", session_timeout_ms=4_000).send_join()
    call = sim["a"].send_join()
    sim.pass_ms(3_999)
    assert call.is_parked
    assert sim["a"].member_id in sim.group.members
    sim.pass_ms(1)
    assert call.reply.generation_id == 2


@covers("state.timers")
def test_a_group_has_two_timers_of_its_own_and_one_for_each_member_and_pending_id() -> None:
    sim = a_group().preparing("a", "b")
    sim.peer("c").send_join()
    deadlines = sim.shard().deadlines
    assert deadlines.get(("join", "g")) is not None
    for member_id in (*sim.group.members, *sim.group.pending_joins):
        assert deadlines.get(("session", "g", member_id)) is not None
    assert len(deadlines) == 1 + 3 + 1  # and the shard's expiry check
