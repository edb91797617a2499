"""SyncGroup: the leader sends the assignments, and every member receives its own.

Source: Kafka's classicGroupSyncToClassicGroup. One difference: when a member's second Sync arrives while its first is
parked, the newer one waits on and the older is answered REBALANCE_IN_PROGRESS (Kafka never answers it).
"""

from __future__ import annotations

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.classic.group import NOTHING, Group, with_entry
from kshim.coordinator.groups.classic.member import Member, ParkedSync
from kshim.coordinator.groups.classic.rebalance import append_failed, fail_syncs, restart_session, start_rebalance
from kshim.coordinator.groups.classic.replies import sync_error
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer import classic_members
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.events import AssignmentReceived, Cause, RebalanceCompleted, SyncCompleted, Trigger
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.records import build_group_metadata_key, build_group_metadata_value
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_REQUIRED_SINCE = 5


def sync_group(shard: Shard, request: SyncGroupRequest, context: RequestContext, ticket: Ticket, step: Step) -> None:
    """Answer or park a Sync.

    Raises KafkaError: INCONSISTENT_GROUP_PROTOCOL, INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
    """
    if context.api_version >= _PROTOCOL_REQUIRED_SINCE and (
        request.protocol_type is None or request.protocol_name is None
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    shard.require_loaded()
    now = context.now
    group = shard.groups.get(request.group_id)
    if not isinstance(group, Group):
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        step.reply(ticket, classic_members.sync(shard, group, request, now))
        return
    member = _require(group, request)
    match group.state:
        case GroupState.EMPTY | GroupState.DEAD:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        case GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        case GroupState.COMPLETING_REBALANCE:
            _park(group, member, ticket, now, step)
            _has_synced(shard, group, member)
            if member.member_id == group.leader_id:
                _store_assignments(shard, group, member, request, now, step)
        case GroupState.STABLE:
            if member.member_id in group.pending_syncs:
                _has_synced(shard, group, member)
                if not group.pending_syncs:
                    sync_ms = now.mono_ms - group.join_completed_ms
                    step.events.append(SyncCompleted(**group.event(now), member=member.ref(), sync_ms=sync_ms))
            step.reply(ticket, _response(group, member))  # does not restart the session, unlike older coordinators


def _require(group: Group, request: SyncGroupRequest) -> Member:
    member = group.require_member(request.member_id, request.group_instance_id)
    group.require_generation(request.generation_id)
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
        None,
        group.protocol_name,
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return member


def _park(group: Group, member: Member, ticket: Ticket, now: Now, step: Step) -> None:
    older = group.parked_syncs.get(member.member_id)
    if older is not None:
        step.reply(older.ticket, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    group.parked_syncs = with_entry(group.parked_syncs, member.member_id, ParkedSync(ticket, now.mono_ms))


def _has_synced(shard: Shard, group: Group, member: Member) -> None:
    group.has_synced(member.member_id)
    if not group.pending_syncs:
        shard.deadlines.cancel(group.sync_key)


def _store_assignments(
    shard: Shard, group: Group, leader: Member, request: SyncGroupRequest, now: Now, step: Step
) -> None:
    """Have the leader's assignments written; then the group is Stable and every parked Sync is answered."""
    assignments = {entry.member_id: entry.assignment for entry in request.assignments}
    step.events.append(_assignment_received(group, leader, assignments, now))
    value = group.metadata(assignments)

    def written(_base_offset: int, step: Step) -> None:
        group.apply_metadata(value)
        parked_syncs, group.parked_syncs = group.parked_syncs, NOTHING
        last, last_ms = leader, parked_syncs[leader.member_id].since_ms
        for member in group.members.values():
            parked = parked_syncs.get(member.member_id)
            if parked is not None:
                if parked.since_ms > last_ms:
                    last, last_ms = member, parked.since_ms
                step.reply(parked.ticket, _response(group, member))
                restart_session(shard, member, now)
        trigger = Trigger(
            cause=Cause.ASSIGNMENT_RECEIVED,
            detail=f"assignment received from leader {leader.member_id}",
            member=leader.ref(),
        )
        group.move_to(GroupState.STABLE, trigger=trigger, now=now, step=step)
        step.events.append(_rebalance_completed(group, last, last_ms, now))

    def failed(error: ErrorCode, step: Step) -> None:
        answer = append_error(error)
        step.events.append(append_failed(group, error, "the assignments", now))
        fail_syncs(shard, group, answer, now, step)
        trigger = Trigger(
            cause=Cause.APPEND_FAILED,
            detail=f"{answer.name} when storing the assignments of leader {leader.member_id}",
            member=leader.ref(),
        )
        start_rebalance(shard, group, trigger, now, step)

    pair = (build_group_metadata_key(group.group_id), build_group_metadata_value(value))
    shard.append(step, [pair], now, written=written, failed=failed)


def _response(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def _assignment_received(group: Group, leader: Member, assignments: dict[str, bytes], now: Now) -> AssignmentReceived:
    return AssignmentReceived(
        **group.event(now),
        member=leader.ref(),
        member_count=len(group.members),
        static_member_count=len(group.static_members),
        unassigned=tuple(member_id for member_id in group.members if member_id not in assignments),
    )


def _rebalance_completed(group: Group, last: Member, last_ms: int, now: Now) -> RebalanceCompleted:
    return RebalanceCompleted(
        **group.event(now),
        member_count=len(group.members),
        join_ms=group.join_completed_ms - group.rebalance_started_ms,
        sync_ms=now.mono_ms - group.join_completed_ms,
        last_to_sync=last.ref(),
        last_sync_ms=last_ms - group.join_completed_ms,
        pending_sync_count=len(group.pending_syncs),
    )
