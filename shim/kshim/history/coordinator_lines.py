"""Log lines for the events of the group coordinator, worded as in Kafka's log where it has the same line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer.state import ConsumerGroupState
from kshim.coordinator.groups.events import (
    AppendFailed,
    AssignmentReceived,
    Cause,
    DeliveryFailed,
    EpochRaised,
    GroupConverted,
    GroupLoaded,
    JoinCompleted,
    LeaderReplaced,
    MemberAdded,
    MemberIdIssued,
    MemberReconciled,
    MemberRefused,
    MemberRemoved,
    MemberReplaced,
    OffsetsRemoved,
    RebalanceCompleted,
    RecordsSkipped,
    SyncCompleted,
    TargetComputed,
    TopicPartitions,
    Transition,
)
from kshim.coordinator.groups.share.state import ShareGroupState
from kshim.coordinator.groups.streams.state import StreamsGroupState
from kshim.coordinator.step import Event
from kshim.wording import counted
from kshim_protocol.errors import ErrorCode

_KINDS: Final = {ConsumerGroupState: "consumer", ShareGroupState: "share", StreamsGroupState: "streams"}
"""Of groups with epochs, by their states: whose lines begin with the group in Kafka."""


class Line(NamedTuple):
    """One line: a level in Kafka's terms, and the text, with what clients sent unchanged."""

    level: str
    text: str


def line_of(event: Event) -> Line | None:
    """The line for an event; None if another event of the same step has the line."""
    kind = type(event)
    text = _WORDINGS.get(kind, repr)(event)
    return None if text is None else Line(_LEVELS.get(kind, "INFO"), text)


def _not_written(event: AppendFailed) -> str:
    return f"Could not write {event.what} of group {event.group_id}: {event.error.name}"


def _skipped(event: RecordsSkipped) -> str:
    from kshim_protocol.internal.record_types import RECORD_TYPES

    known = RECORD_TYPES.get(event.key_type)
    if known is None:
        return f"Skipped {event.count} records of key type {event.key_type}, which is unknown"
    return f"Skipped {event.count} records of key type {event.key_type} ({known.name}), which is not supported"


def _new_leader(event: LeaderReplaced) -> str:
    return (
        f"Group {event.group_id} has a new leader in generation {event.generation_id}: member {event.member.member_id}, as "
        f"{event.previous_leader_id} did not rejoin in time"
    )


def _joined(event: JoinCompleted) -> str:
    return f"Stabilized group {event.group_id} generation {event.generation_id} with {event.member_count} members."


def _assigned(event: AssignmentReceived) -> str:
    return (
        f"Assignment received from leader {event.member.member_id} for group {event.group_id} for generation "
        f"{event.generation_id}. The group has {event.member_count} members, {event.static_member_count} of which are static."
    )


def _completed(event: RebalanceCompleted) -> str:
    return (
        f"Completed the rebalance of group {event.group_id} to generation {event.generation_id} with {event.member_count} "
        f"members: {event.join_ms} ms in the join phase, {event.sync_ms} ms in the sync phase"
    )


def _loaded(event: GroupLoaded) -> str:
    kind = _KINDS.get(type(event.state), "classic")
    return f"Loaded {kind} group {event.group_id} with {event.member_count} members in state {event.state}."


def _converted(event: GroupConverted) -> str:
    empty = "" if event.member_count else "empty "
    return f"[GroupId {event.group_id}] Converted the {empty}{event.from_kind} group to a {event.to_kind} group."


def _not_delivered(event: DeliveryFailed) -> str:
    how_many = counted(event.record_count, "delivery", "deliveries")
    return (
        f"[GroupId {event.group_id}] {how_many} of {event.topic_name}-{event.topic_partition} to member "
        f"{event.member.member_id} did not succeed ({event.reason}): offsets {event.first_offset} to {event.last_offset}, "
        f"held for {event.held_ms} ms, delivery count {event.delivery_count}."
    )


def _offsets_removed(event: OffsetsRemoved) -> str:
    return f"Removed {event.offset_count} committed offsets of {event.group_count} groups ({event.cause})"


def _synced(event: SyncCompleted) -> None:
    """Kafka has no line for it."""


def _with_epoch(event: EpochRaised | TargetComputed | MemberReconciled | MemberRefused) -> str | None:
    """Of a group of the new protocol, whose lines begin with it in Kafka."""
    group, epoch = f"[GroupId {event.group_id}]", event.generation_id
    match event:
        case EpochRaised(detail=detail):
            return f"{group} Bumped group epoch to {epoch} (reason: {detail})."
        case TargetComputed(assignor=assignor, changes=changes):
            given = sum(change.gained for change in changes)
            what = "tasks" if assignor == "sticky" else "partitions"
            return (
                f"{group} Computed a new target assignment for epoch {epoch} with '{assignor}' assignor: "
                f"{given} {what} for {len(changes)} members change."
            )
        case MemberReconciled(member=member, epoch=-2):
            return (
                f"{group} Static member {member.member_id} with instance id {member.group_instance_id} temporarily left the "
                f"{_KINDS[type(event.state)]} group."
            )
        case MemberReconciled(member=member):
            between = "_" if isinstance(event.state, StreamsGroupState) else "-"
            received, revoked, to_revoke = (
                _listed(each, between) for each in (event.received, event.revoked, event.to_revoke)
            )
            return (
                f"{group}[MemberId {member.member_id}] Member is at epoch {event.epoch} in state {event.new.name}: "
                f"received={received}, revoked={revoked}, to revoke={to_revoke}."
            )
        case MemberRefused(state=GroupState()):
            return None  # Kafka has no line for it
        case MemberRefused(error=ErrorCode.UNRELEASED_INSTANCE_ID, detail=detail):
            return f"{group} {detail}"
        case MemberRefused(member=member):
            return f"{group}[MemberId {member.member_id}] Refused with {event.error.name}: {event.detail}"


def _listed(partitions: TopicPartitions, between: str) -> str:
    return "[" + ", ".join(f"{topic}{between}{index}" for topic, index in partitions) + "]"


def _transition(event: Transition) -> str | None:
    group, generation = event.group_id, event.generation_id
    new = event.new
    if new in (GroupState.DEAD, ConsumerGroupState.DEAD, StreamsGroupState.DEAD, ShareGroupState.DEAD):
        kind = "generation" if isinstance(new, GroupState) else "epoch"
        return f"Group {group} with {kind} {generation} has been removed ({event.cause})"
    match new:
        case ConsumerGroupState() | StreamsGroupState() | ShareGroupState():
            return (
                f"Group {group} with epoch {generation} went from {event.previous} to {new} (reason: {event.detail})."
            )
        case GroupState.PREPARING_REBALANCE:
            return (
                f"Preparing to rebalance group {group} in state {new.value} with old generation {generation} "
                f"(reason: {event.detail})."
            )
        case GroupState.EMPTY:
            return f"Group {group} with generation {generation} is now empty."
        case _:
            return None  # JoinCompleted and RebalanceCompleted


def _arrival(event: MemberIdIssued | MemberAdded | MemberReplaced) -> str:
    """Kafka's lines, with the client behind them, which Kafka's log does not have."""
    member = event.member
    if type(event.state) in _KINDS:
        return _arrival_with_epoch(event)
    where = f"joins group {event.group_id} in {event.state.value} state."
    client = f"client {member.client_id} at {member.client_host.removeprefix('/')}"
    unknown = (
        "Dynamic member with unknown member id"
        if member.group_instance_id is None
        else f"Static member with groupInstanceId={member.group_instance_id} and unknown member id"
    )
    created = f"Created a new member id {member.member_id}"
    match event:
        case MemberIdIssued():
            return f"{unknown} {where} {created} and requesting the member to rejoin with this id. ({client})"
        case MemberReplaced(replaced_member_id=replaced):
            return (
                f"{unknown} {where} Replacing previously mapped member {replaced} with this groupInstanceId. "
                f"({client}, new member id {member.member_id})"
            )
        case MemberAdded(had_id=True):
            return f"Pending dynamic member with id {member.member_id} {where} Adding to the group now. ({client})"
        case MemberAdded():
            added = "and added the member to" if member.group_instance_id is None else "for this member and added to"
            return f"{unknown} {where} {created} {added} the group. ({client})"


def _arrival_with_epoch(event: MemberIdIssued | MemberAdded | MemberReplaced) -> str:
    """Of a group of the new protocol."""
    member, kind = event.member, _KINDS[type(event.state)]
    client = f"(client {member.client_id} at {member.client_host.removeprefix('/')})"
    named = f"with instance id {member.group_instance_id}"
    if isinstance(event, MemberReplaced):
        return (
            f"[GroupId {event.group_id}] Static member {named} re-joins the {kind} group using the {kind} protocol. "
            f"Created a new member {member.member_id} to replace the existing member {event.replaced_member_id}. {client}"
        )
    who = (
        f"Member {member.member_id}"
        if member.group_instance_id is None
        else f"Static member {member.member_id} {named}"
    )
    return f"[GroupId {event.group_id}] {who} joins the {kind} group using the {kind} protocol. {client}"


def _removal_with_epoch(event: MemberRemoved) -> str:
    """Of a group of the new protocol."""
    member, kind = event.member, _KINDS[type(event.state)]
    match event.cause:
        case Cause.MEMBER_LEFT if member.group_instance_id is None:
            return f"Member {member.member_id} left the {kind} group."
        case Cause.MEMBER_LEFT:
            return (
                f"Static member {member.member_id} with instance id {member.group_instance_id} left the {kind} group."
            )
        case Cause.SESSION_EXPIRED:
            return f"Member {member.member_id} fenced from the group because the member session expired."
        case Cause.REBALANCE_TIMEOUT:
            # Kafka says how long it had, too.
            return (
                f"Member {member.member_id} fenced from the group because it failed to transition from epoch "
                f"{event.generation_id} in time."
            )
        case _:
            return f"Member {member.member_id} has been removed from the group ({event.cause})."


def _removal(event: MemberRemoved) -> str:
    member, group = event.member, event.group_id
    if type(event.state) in _KINDS:
        return f"[GroupId {group}] {_removal_with_epoch(event)}"
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


_WORDINGS: Final[dict[type[Event], Callable[[Any], str | None]]] = {
    Transition: _transition,
    MemberIdIssued: _arrival,
    MemberAdded: _arrival,
    MemberReplaced: _arrival,
    MemberRemoved: _removal,
    EpochRaised: _with_epoch,
    TargetComputed: _with_epoch,
    MemberReconciled: _with_epoch,
    MemberRefused: _with_epoch,
    LeaderReplaced: _new_leader,
    JoinCompleted: _joined,
    AssignmentReceived: _assigned,
    RebalanceCompleted: _completed,
    SyncCompleted: _synced,
    GroupLoaded: _loaded,
    GroupConverted: _converted,
    DeliveryFailed: _not_delivered,
    OffsetsRemoved: _offsets_removed,
    AppendFailed: _not_written,
    RecordsSkipped: _skipped,
}
"""What words the events of each kind; others are logged as they are."""

_LEVELS: Final = {AppendFailed: "ERROR", RecordsSkipped: "WARN"}
"""Of what is more than information."""
