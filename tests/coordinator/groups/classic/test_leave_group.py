"""LeaveGroup: one member, several, and static ones removed by an administrator."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import Cause, MemberRemoved, Transition
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.coordinator.peers import GroupSim, a_group
from tests.coordinator.rules import covers


def leave(sim: GroupSim, *entries: tuple[str, str | None], group_id: str = "g") -> list[ErrorCode]:
    """The errors of one LeaveGroup of (member id, instance id) entries."""
    request = LeaveGroupRequest(
        group_id=group_id,
        members=tuple(MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in entries),
    )
    reply = sim.ask(request, 5)
    assert reply.error_code == ErrorCode.NONE
    assert [(result.member_id, result.group_instance_id) for result in reply.members] == list(entries)
    return [ErrorCode(result.error_code) for result in reply.members]


@covers("check.leave.empty-group-id")
def test_a_leave_needs_a_group_id() -> None:
    request = LeaveGroupRequest(group_id="", members=())
    assert a_group().send(request, 5).error is ErrorCode.INVALID_GROUP_ID


@covers("leave.v3-top-level", "leave.unknown-member")
def test_from_v3_on_each_member_has_its_own_error_even_in_an_unknown_group() -> None:
    sim = a_group()
    assert leave(sim, ("x", None), ("y", None)) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    sim.stable("a")
    assert leave(sim, ("x", None), (sim["a"].member_id, None)) == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]


@covers("leave.v0-top-level")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_before_v3_the_members_error_is_the_answer(version: int) -> None:
    sim = a_group()
    request = LeaveGroupRequest(group_id="g", member_id="x")
    assert sim.send(request, version).error is ErrorCode.UNKNOWN_MEMBER_ID
    sim.stable("a")
    assert sim["a"].leave(version=version).error_code == ErrorCode.NONE
    assert sim.group.state is GroupState.EMPTY
    assert sim["a"].leave(version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@covers("leave.nobody")
def test_nobody_may_leave() -> None:
    sim = a_group().stable("a")
    assert leave(sim) == []
    assert sim.group.state is GroupState.STABLE


@covers("leave.by-instance", "leave.by-unknown-instance")
def test_an_administrator_removes_static_members_by_instance_id_alone() -> None:
    sim = a_group().stable("a", "b", static=["b"])
    errors = leave(sim, ("", "b-instance"), ("", "unheard-of"), ("", None))
    assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(sim.group.members) == [sim["a"].member_id]


@covers("leave.fenced-instance", "leave.unknown-member")
def test_an_instance_id_must_be_the_members_own() -> None:
    sim = a_group().stable("a", "b", static=["b"])
    errors = leave(sim, (sim["a"].member_id, "b-instance"), (sim["a"].member_id, "unheard-of"))
    assert errors == [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert sim.group.state is GroupState.STABLE


@covers("leave.pending")
def test_a_pending_id_may_leave() -> None:
    sim = a_group()
    sim.peer("a").send_join()
    assert leave(sim, ("a-uuid-1", None)) == [ErrorCode.NONE]
    assert not sim.group.pending_joins
    assert sim.shard().deadlines.get(("session", "g", "a-uuid-1")) is None
    assert sim.group.state is GroupState.EMPTY
    assert sim.transitions() == []


def test_a_pending_id_that_leaves_a_stable_group_rebalances_it_as_in_kafka() -> None:
    sim = a_group().stable("a", "b")
    sim.peer("c").send_join()
    assert leave(sim, ("c-uuid-3", None)) == [ErrorCode.NONE]
    assert sim.group.state is GroupState.PREPARING_REBALANCE


@covers("leave.parked-join")
def test_the_parked_join_of_who_leaves_is_answered() -> None:
    sim = a_group().stable("a", "b")
    call = sim["a"].send_join()
    sim["a"].leave()
    assert (call.error, call.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_the_parked_sync_of_who_leaves_is_answered() -> None:
    sim = a_group().completing("a", "b")
    call = sim["b"].send_sync()
    sim["b"].leave()
    assert call.error is ErrorCode.UNKNOWN_MEMBER_ID


@covers("leave.stable-or-completing")
@pytest.mark.parametrize("state", ["stable", "completing"])
def test_members_that_leave_together_cause_one_rebalance(state: str) -> None:
    sim = getattr(a_group(), state)("a", "b", "c")
    before = len(sim.transitions())
    leave(sim, (sim["b"].member_id, None), (sim["c"].member_id, None))
    assert len(sim.transitions()) == before + 1
    assert sim.transitions()[-1].endswith("-> PreparingRebalance member-left")


@covers("leave.preparing")
def test_the_last_one_awaited_may_end_the_join_phase_by_leaving() -> None:
    sim = a_group().stable("a", "b")
    call = sim["a"].send_join()
    sim["b"].leave()
    assert call.reply.generation_id == 3
    assert sim.group.state is GroupState.COMPLETING_REBALANCE


@covers("leave.preparing", "rebalance.initial-delay.not-cut-short")
def test_leaving_does_not_end_the_initial_delay() -> None:
    sim = a_group(group_initial_rebalance_delay_ms=3_000)
    call = sim.peer("a").join()
    sim.peer("b").join()
    sim["b"].leave()
    assert call.is_parked


@covers("leave.reason")
@pytest.mark.parametrize("reason", ["the consumer is being closed", "", None])
def test_the_clients_reason_is_kept_verbatim(reason: str | None) -> None:
    sim = a_group().stable("a", "b")
    sim["b"].leave(reason=reason)
    removed = [event for event in sim.events if isinstance(event, MemberRemoved)][-1]
    assert removed.member.client_reason == reason
    moved = [event for event in sim.events if isinstance(event, Transition)][-1]
    assert moved.member is not None
    assert moved.member.client_reason == reason
    assert moved.member.member_id == sim["b"].member_id
    assert moved.detail.endswith(f"client reason: {reason or 'not provided'}")


def test_a_member_named_twice_leaves_once() -> None:
    sim = a_group().stable("a", "b")
    member_id = sim["b"].member_id
    assert leave(sim, (member_id, None), (member_id, None)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]


def test_history_is_told_who_left_and_that_it_left_by_itself() -> None:
    sim = a_group().stable("a", "b")
    sim.peer("c").send_join()
    leave(sim, ("c-uuid-3", None), (sim["b"].member_id, None))
    removed = [event for event in sim.events if isinstance(event, MemberRemoved)]
    assert [(event.member.member_id, event.cause, event.was_pending) for event in removed] == [
        ("c-uuid-3", Cause.MEMBER_LEFT, True),
        (sim["b"].member_id, Cause.MEMBER_LEFT, False),
    ]
    assert removed[0].member.client_id == "c"


def test_when_several_leave_together_the_first_is_named_and_its_reason() -> None:
    sim = a_group().stable("a", "b", "c")
    members = tuple(MemberIdentity(member_id=sim[name].member_id, reason=f"{name} is done") for name in "bc")
    sim.ask(LeaveGroupRequest(group_id="g", members=members), 5)
    moved = [event for event in sim.events if isinstance(event, Transition)][-1]
    assert moved.member is not None
    assert (moved.member.member_id, moved.member.client_reason) == (sim["b"].member_id, "b is done")
    assert moved.detail.endswith(f"for ({sim['b'].member_id}, {sim['c'].member_id}); client reason: b is done")
