"""The coordinator's events in words. What people grep for in a Kafka broker's log is worded and placed as there."""

from __future__ import annotations

from typing import NamedTuple

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import (
    AppendFailed,
    AssignmentReceived,
    Cause,
    GroupLoaded,
    JoinCompleted,
    LeaderReplaced,
    MemberAdded,
    MemberIdIssued,
    MemberRemoved,
    MemberReplaced,
    OffsetsRemoved,
    RebalanceCompleted,
    RecordsSkipped,
    SyncCompleted,
    Transition,
)
from kshim.coordinator.step import Event


class Line(NamedTuple):
    """One line: a level as Kafka names it, and the text, in which clients' own words stand as they came."""

    level: str
    text: str


def line_of(event: Event) -> Line | None:
    """The line for an event; None where another event of the same step says it already."""
    if isinstance(event, AppendFailed):
        return Line("ERROR", f"Could not write {event.what} of group {event.group_id}: {event.error.name}")
    if isinstance(event, RecordsSkipped):
        return Line("WARN", _skipped(event))
    text = _text(event)
    return None if text is None else Line("INFO", text)


def _skipped(event: RecordsSkipped) -> str:
    from kshim_protocol.internal.record_types import RECORD_TYPES

    known = RECORD_TYPES.get(event.key_type)
    if known is None:
        return f"Skipped {event.count} records of key type {event.key_type}, which nobody knows here"
    return f"Skipped {event.count} records of key type {event.key_type} ({known.name}), which are not kept here"


def _text(event: Event) -> str | None:
    match event:
        case Transition():
            return _transition(event)
        case MemberIdIssued() | MemberAdded() | MemberReplaced():
            return _arrival(event)
        case MemberRemoved():
            return _removal(event)
        case LeaderReplaced(group_id=group, generation_id=generation, member=member):
            return (
                f"Group {group} has a new leader in generation {generation}: member {member.member_id}, as "
                f"{event.previous_leader_id} did not rejoin in time"
            )
        case JoinCompleted(group_id=group, generation_id=generation, member_count=count):
            return f"Stabilized group {group} generation {generation} with {count} members."
        case AssignmentReceived(group_id=group, generation_id=generation, member=leader):
            return (
                f"Assignment received from leader {leader.member_id} for group {group} for generation {generation}. "
                f"The group has {event.member_count} members, {event.static_member_count} of which are static."
            )
        case RebalanceCompleted(group_id=group, generation_id=generation, member_count=count):
            return (
                f"Completed the rebalance of group {group} to generation {generation} with {count} members: "
                f"{event.join_ms} ms until all had joined, {event.sync_ms} ms until the assignment was there"
            )
        case GroupLoaded(group_id=group, state=state, member_count=count):
            return f"Loaded classic group {group} with {count} members in state {state}."
        case OffsetsRemoved():
            return f"Removed {event.offset_count} committed offsets of {event.group_count} groups ({event.cause})"
        case SyncCompleted():
            return None  # Kafka has no line for it
        case _:
            return repr(event)


def _transition(event: Transition) -> str | None:
    group, generation = event.group_id, event.generation_id
    match event.new:
        case GroupState.PREPARING_REBALANCE:
            return (
                f"Preparing to rebalance group {group} in state {event.new} with old generation {generation} "
                f"(reason: {event.detail})."
            )
        case GroupState.EMPTY:
            return f"Group {group} with generation {generation} is now empty."
        case GroupState.DEAD:
            return f"Group {group} with generation {generation} is gone ({event.cause})"
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            return None  # JoinCompleted and RebalanceCompleted


def _arrival(event: MemberIdIssued | MemberAdded | MemberReplaced) -> str:
    member = event.member
    where = f"group {event.group_id} in state {event.state}"
    who = f"{member.member_id} of client {member.client_id} at {member.client_host.removeprefix('/')}"
    match event:
        case MemberIdIssued():
            return f"Gave a new client the member id {who}; it has to join {where} with it"
        case MemberReplaced(replaced_member_id=replaced):
            return f"Static member {member.group_instance_id} is back in {where}: {who} replaces {replaced}"
        case MemberAdded():
            kind = "Member" if member.group_instance_id is None else f"Static member {member.group_instance_id},"
            return f"{kind} {who} joins {where}"


def _removal(event: MemberRemoved) -> str:
    member, group = event.member, event.group_id
    if event.was_pending:
        return f"Pending member {member.member_id} in group {group} has been removed ({event.cause})"
    match event.cause:
        case Cause.SESSION_EXPIRED:
            return f"Member {member.member_id} in group {group} has failed, removing it from the group."
        case Cause.MEMBER_LEFT:
            reason = member.client_reason or "not provided"
            return (
                f"[Group {group}] Member {member.member_id} has left group through explicit `LeaveGroup`; "
                f"client reason: {reason}"
            )
        case _:
            return f"Member {member.member_id} in group {group} has been removed ({event.cause})"
