"""Static members (KIP-345): a known instance id without a member id takes over the slot."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import AppendFailed, MemberReplaced
from kshim_protocol.errors import ErrorCode
from tests.coordinator.peers import GroupSim, Peer, a_group, subscription
from tests.coordinator.rules import covers


def come_back(sim: GroupSim, name: str, **changes: object) -> Peer:
    """The same instance, started again: it knows its instance id only."""
    old = sim[name]
    options = {
        "instance_id": old.instance_id,
        "protocols": old.protocols,
        "session_timeout_ms": old.session_timeout_ms,
        "version": old.version,
        **changes,
    }
    return sim.peer(f"{name} again", **options)


@covers(
    "join.static.replaces",
    "join.static.stable-same-vote",
    "join.static.stable-same-vote.follower",
    "join.dispatch.known-static-without-id",
)
def test_a_follower_coming_back_in_stable_takes_its_slot_without_a_rebalance() -> None:
    sim = a_group().stable("a", "b", static=["a", "b"])
    before = len(sim.transitions())
    again = come_back(sim, "b", protocols={"range": subscription("audit")})  # other bytes, same vote
    reply = again.take(again.send_join())
    assert (reply.generation_id, reply.members, reply.skip_assignment) == (2, (), False)
    assert reply.leader == sim["a"].member_id
    assert again.member_id == "b-instance-uuid-3"
    assert list(sim.group.members) == [sim["a"].member_id, again.member_id]
    assert sim.group.static_members["b-instance"] == again.member_id
    assert len(sim.transitions()) == before
    record = sim.records()[-1].value
    assert record.generation == 2
    assert [(member.member_id, member.assignment) for member in record.members] == [
        (sim["a"].member_id, b"a"),
        (again.member_id, b"b"),
    ]
    assert record.members[1].subscription == subscription("audit")
    assert again.send_sync().reply.assignment == b"b"
    [event] = [event for event in sim.events if isinstance(event, MemberReplaced)]
    assert event.replaced_member_id == sim["b"].member_id


@covers("join.static.stable-same-vote.leader-v9")
def test_a_leader_coming_back_is_told_from_v9_on_to_leave_the_assignment_alone() -> None:
    sim = a_group().stable("a", "b", static=["a"])
    again = come_back(sim, "a")
    reply = again.take(again.send_join())
    assert reply.skip_assignment
    assert reply.leader == again.member_id
    assert {member.member_id for member in reply.members} == {again.member_id, sim["b"].member_id}
    assert sim.group.leader_id == again.member_id
    assert sim.records()[-1].value.leader == again.member_id


@covers("join.static.stable-same-vote.leader-below-v9")
@pytest.mark.parametrize("version", [5, 8])
def test_a_leader_coming_back_before_v9_is_made_to_follow(version: int) -> None:
    sim = a_group().stable("a", "b", static=["a"])
    old_id = sim["a"].member_id
    again = come_back(sim, "a", version=version)
    reply = again.take(again.send_join())
    assert (reply.leader, reply.members, reply.skip_assignment) == (old_id, (), False)
    assert sim.group.leader_id == again.member_id


@covers("join.static.stable-other-vote")
def test_coming_back_with_another_favourite_rebalances_when_that_changes_the_vote() -> None:
    sim = a_group().stable("a", "b", static=["a", "b"], protocols={"range": b"", "sticky": b""})
    again = come_back(sim, "a", protocols={"sticky": b""})
    assert again.send_join().is_parked
    assert sim.transitions()[-1] == "Stable -> PreparingRebalance static-member-replaced"
    assert sim.records()[-1].value.members[0].member_id == sim["a"].member_id  # the new id is not written yet


@covers("join.static.stable-same-vote")
def test_the_vote_is_taken_with_the_new_ballot_in_the_place_of_the_old() -> None:
    both = {"range": subscription("orders"), "sticky": b""}
    sim = a_group().stable("a", "b", "c", static=["a"], protocols=both)
    assert sim.group.protocol_name == "range"
    again = come_back(sim, "a", protocols={"sticky": b"", "range": subscription("orders")})  # one vote of three
    assert again.take(again.send_join()).generation_id == 2
    assert sim.group.state is GroupState.STABLE


@pytest.mark.parametrize(("before", "after"), [("range", "sticky"), ("sticky", "range")])
def test_any_change_of_the_vote_rebalances(before: str, after: str) -> None:
    protocols = {before: subscription("orders"), after: subscription("orders")}
    sim = a_group().stable("a", static=["a"], protocols=protocols)
    again = come_back(sim, "a", protocols=dict(reversed(protocols.items())))
    assert again.take(again.send_join()).generation_id == 2
    assert sim.group.protocol_name == after


@covers("join.static.stable-same-vote.follower")
def test_a_follower_coming_back_leaves_the_leader_alone_whichever_id_sorts_first() -> None:
    sim = a_group().stable("z", "a", "zz", static=["z", "a", "zz"])
    for name in ("a", "zz"):
        again = come_back(sim, name)
        again.take(again.send_join())
        assert sim.records()[-1].value.leader == sim.group.leader_id == sim["z"].member_id


@covers("join.static.completing", "join.static.preparing")
@pytest.mark.parametrize("state", ["completing", "preparing"])
@pytest.mark.parametrize("follower", ["a", "z"])
def test_a_follower_coming_back_in_a_rebalance_leaves_the_leader_alone(state: str, follower: str) -> None:
    sim = getattr(a_group(), state)("m", follower, "n", static=["m", follower, "n"])
    come_back(sim, follower).send_join()
    assert sim.group.leader_id == sim["m"].member_id


@covers("join.static.completing", "join.static.old-parked-requests")
def test_coming_back_in_completing_rebalance_starts_over_and_fences_the_parked_sync() -> None:
    sim = a_group().completing("a", "b", static=["b"])
    parked = sim["b"].send_sync()
    again = come_back(sim, "b")
    assert again.send_join().is_parked
    assert parked.error is ErrorCode.FENCED_INSTANCE_ID
    assert sim.transitions()[-1] == "CompletingRebalance -> PreparingRebalance static-member-replaced"
    sim["a"].take(sim["a"].join())
    assert sim.group.state is GroupState.COMPLETING_REBALANCE


@covers("join.static.preparing", "join.static.old-parked-requests")
def test_coming_back_while_members_gather_fences_the_parked_join() -> None:
    sim = a_group().stable("a", "b", static=["a"])
    parked = sim["a"].send_join()
    again = come_back(sim, "a")
    call = again.send_join()
    assert parked.error is ErrorCode.FENCED_INSTANCE_ID
    assert parked.reply.member_id == sim["a"].member_id
    assert call.is_parked
    sim["b"].join()
    assert again.take(call).leader == again.member_id


@covers("join.static.preparing")
def test_coming_back_as_the_last_one_awaited_ends_the_join_phase() -> None:
    sim = a_group().preparing("a", "b", static=["b"])
    again = come_back(sim, "b")
    assert again.send_join().error is ErrorCode.NONE
    assert sim.group.state is GroupState.COMPLETING_REBALANCE


def test_each_record_is_the_whole_group_whoever_comes_back() -> None:
    sim = a_group().stable("a", "b", "c", static=["a", "b", "c"])
    for name in ("b", "a", "c", "b"):
        again = come_back(sim, name, protocols={"range": subscription(name)}, session_timeout_ms=7_000)
        if name == "c":
            sim.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS)
            assert again.send_join().error is not ErrorCode.NONE
        again.take(again.send_join())
        group = sim.group
        assert group.state is GroupState.STABLE
        members = group.members.values()
        assert sim.records()[-1].value == group.metadata({each.member_id: each.assignment for each in members})
    assert [member.session_timeout_ms for member in members] == [7_000] * 3
    assert group.leader_id == sim["a again"].member_id
    assert [member.assignment for member in members] == [b"a", b"b", b"c"]


@covers("join.static.write-failed", "session.replaced-or-loaded")
def test_a_replacement_that_cannot_be_written_never_happened() -> None:
    sim = a_group().stable("a", "b", static=["b"])
    sim.pass_ms(4_000)
    sim["a"].heartbeat()
    sim.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS)
    again = come_back(sim, "b", protocols={"range": subscription("audit")})
    reply = again.send_join().reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert sim["b"].member_id in sim.group.members
    assert sim.group.members[sim["b"].member_id].protocols == {"range": subscription("orders")}
    assert sim.deadline_ms("session", "g", sim["b"].member_id) == 10_000
    assert sim["b"].heartbeat() is ErrorCode.NONE
    assert [event.what for event in sim.events if isinstance(event, AppendFailed)] != []


@covers("join.static.old-id-with-instance", "join.static.old-id-without-instance")
def test_the_old_id_is_fenced_with_its_instance_id_and_unknown_without() -> None:
    sim = a_group().stable("a", "b", static=["b"])
    again = come_back(sim, "b")
    again.take(again.send_join())
    old = sim["b"]
    assert old.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert old.send_join().error is ErrorCode.FENCED_INSTANCE_ID
    assert old.send_sync().error is ErrorCode.FENCED_INSTANCE_ID
    assert set(old.commit({("orders", 0): 1}).values()) == {ErrorCode.FENCED_INSTANCE_ID}
    old.instance_id = None
    assert old.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@covers("session.replaced-or-loaded", "join.static.replaces")
def test_the_new_id_lives_one_session_of_the_old_and_then_its_own() -> None:
    sim = a_group().stable("a", "b", static=["b"])
    again = come_back(sim, "b", session_timeout_ms=20_000)
    again.take(again.send_join())
    assert sim.deadline_ms("session", "g", again.member_id) == 10_000
    assert sim.deadline_ms("session", "g", sim["b"].member_id) is None
    again.heartbeat()
    assert sim.deadline_ms("session", "g", again.member_id) == 20_000


def test_a_replaced_member_still_owes_the_sync_of_the_old_one() -> None:
    sim = a_group().completing("a", "b", static=["b"])
    sim["a"].send_sync({sim["a"].member_id: b"a", sim["b"].member_id: b"b"})
    assert sim.group.pending_syncs == {sim["b"].member_id}
    again = come_back(sim, "b")
    again.take(again.send_join())
    assert sim.group.pending_syncs == {again.member_id}
    assert again.send_sync().reply.assignment == b"b"
    assert sim.shard().deadlines.get(("sync", "g")) is None


@covers("leave.static-close")
def test_a_static_member_that_falls_silent_stays_for_its_session_and_then_goes() -> None:
    sim = a_group().stable("a", "b", static=["b"], session_timeout_ms=10_000)
    sim.pass_ms(9_000)
    assert sim["a"].heartbeat() is ErrorCode.NONE
    assert len(sim.group.members) == 2
    sim.pass_ms(1_000)
    assert list(sim.group.members) == [sim["a"].member_id]
