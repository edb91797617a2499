"""Events: what history is told, in order."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.events import (
    AssignmentReceived,
    JoinCompleted,
    MemberAdded,
    MemberIdIssued,
    MemberRef,
    MemberRefused,
    RebalanceCompleted,
    Transition,
)
from kshim.coordinator.step import Event
from kshim_protocol.errors import ErrorCode
from tests.coordinator.harness import START_WALL_MS
from tests.coordinator.peers import a_group


def names(events: list[Event]) -> list[str]:
    """What happened, shortly."""
    return [
        f"{event.previous} -> {event.new}" if isinstance(event, Transition) else type(event).__name__
        for event in events
    ]


def test_a_first_member_is_reported_from_its_id_to_the_stable_group() -> None:
    sim = a_group().stable("a")
    assert names(sim.events) == [
        "MemberIdIssued",
        "MemberAdded",
        "Empty -> PreparingRebalance",
        "PreparingRebalance -> CompletingRebalance",
        "JoinCompleted",
        "AssignmentReceived",
        "CompletingRebalance -> Stable",
        "RebalanceCompleted",
    ]
    assert [event.generation_id for event in sim.events if isinstance(event, Transition)] == [0, 1, 1]


def test_the_departure_of_the_last_member_is_reported_in_order() -> None:
    sim = a_group().stable("a")
    before = len(sim.events)
    sim["a"].leave()
    assert names(sim.events[before:]) == [
        "MemberRemoved",
        "Stable -> PreparingRebalance",
        "PreparingRebalance -> Empty",
    ]
    assert [event.generation_id for event in sim.events[before:] if isinstance(event, Transition)] == [1, 2]


def test_every_event_says_when_and_in_which_partition_of_the_offsets_topic() -> None:
    sim = a_group().stable("a")
    assert {event.partition for event in sim.events} == {sim.coordinator.partition_for("g")}
    assert {event.now.wall_ms for event in sim.events} == {START_WALL_MS}


def test_a_transition_names_the_member_behind_it_and_its_own_words() -> None:
    sim = a_group().stable("a", "b", reason="rebalance enforced by user")
    sim["a"].send_join()
    event = [event for event in sim.events if isinstance(event, Transition)][-1]
    assert event.member == MemberRef(
        member_id=sim["a"].member_id,
        client_id="a",
        client_host="/127.0.0.1",
        client_reason="rebalance enforced by user",
    )
    assert event.detail == (f"leader {sim['a'].member_id} re-joining; client reason: rebalance enforced by user")
    assert event.member_count == 2


@pytest.mark.parametrize("reason", [None, ""])
def test_a_client_that_gives_no_reason_is_said_to_have_given_none(reason: str | None) -> None:
    sim = a_group().stable("a", reason=reason)
    [first] = [event for event in sim.events if isinstance(event, Transition)][:1]
    assert first.detail == f"adding new member {sim['a'].member_id}; client reason: not provided"


def test_the_end_of_the_join_phase_says_who_waited_how_long() -> None:
    sim = a_group().stable("a", "b")
    sim.pass_ms(100)
    sim["a"].send_join()
    sim.pass_ms(400)
    sim["b"].take(sim["b"].join())
    event = [event for event in sim.events if isinstance(event, JoinCompleted)][-1]
    assert event.waits == ((sim["a"].member_id, 400), (sim["b"].member_id, 0))
    assert event.arrivals.wait_ms == (0, 400)
    assert (event.join_ms, event.protocol_name, event.leader_id) == (400, "range", sim["a"].member_id)


def test_newcomers_are_told_apart_by_whether_they_had_an_id() -> None:
    sim = a_group().stable("a", "s", static=["s"])
    assert [event.member.client_id for event in sim.events if isinstance(event, MemberIdIssued)] == ["a"]
    added = [event for event in sim.events if isinstance(event, MemberAdded)]
    assert [(event.member.client_id, event.had_id) for event in added] == [("a", True), ("s", False)]
    assert added[1].member.group_instance_id == "s-instance"


def test_a_new_member_is_reported_with_the_reason_of_its_first_join() -> None:
    sim = a_group().stable("a")
    late = sim.peer("b", reason="encountered UNKNOWN_MEMBER_ID from HEARTBEAT response")
    late.member_id = late.send_join().reply.member_id
    late.reason = f"need to re-join with the given member-id: {late.member_id}"
    late.send_join()
    added = [event for event in sim.events if isinstance(event, MemberAdded)][-1]
    assert added.member.client_reason == "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"


def test_the_assignment_says_how_many_members_are_static() -> None:
    sim = a_group().stable("a", "s", static=["s"])
    event = next(event for event in sim.events if isinstance(event, AssignmentReceived))
    assert (event.member_count, event.static_member_count, event.unassigned) == (2, 1, ())


def test_a_failed_write_is_reported_before_its_consequences() -> None:
    sim = a_group().completing("a")
    before = len(sim.events)
    sim.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    sim["a"].send_sync()
    assert names(sim.events[before:]) == [
        "AssignmentReceived",
        "AppendFailed",
        "CompletingRebalance -> PreparingRebalance",
    ]
    assert not any(isinstance(event, RebalanceCompleted) for event in sim.events)


def test_events_compare_and_print_by_what_they_say() -> None:
    first, second = MemberRef(member_id="a"), MemberRef(member_id="a")
    assert first == second
    for other in (MemberRef(member_id="b"), MemberRef(member_id="A"), MemberRef(member_id="a", client_id="c")):
        assert first != other
        assert other != first
    assert repr(MemberRef(member_id="a", client_id="c")) == "MemberRef(member_id='a', client_id='c')"


def test_who_may_not_join_is_reported_with_the_error_and_what_it_offers() -> None:
    full, other = a_group(group_max_size=1).stable("a"), a_group().stable("a")
    full.peer("b").send_join()
    other.peer("b", protocols={"sticky": b"s"}).send_join()
    told = [event for sim in (full, other) for event in sim.events if isinstance(event, MemberRefused)]
    assert [(event.error, event.detail) for event in told] == [
        (ErrorCode.GROUP_MAX_SIZE_REACHED, "group.max.size is 1"),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "its protocols are sticky, and all members of the group have range"),
    ]
    assert [event.offer is not None and list(event.offer.protocols) for event in told] == [["range"], ["sticky"]]
