"""The rebalance of a classic group: how it starts, how the join phase ends, and what timers do to it.

Source: Kafka's GroupMetadataManager (prepareRebalance, completeClassicGroupJoin, expirePendingSync and what they call).
"""

from __future__ import annotations

from kshim.coordinator.groups.classic.group import NOBODY, NOTHING, Group, InitialDelay, vote
from kshim.coordinator.groups.classic.member import Member
from kshim.coordinator.groups.classic.replies import join_error, sync_error
from kshim.coordinator.groups.classic.state import VALID_PREVIOUS, GroupState
from kshim.coordinator.groups.events import (
    AppendFailed,
    Arrivals,
    Cause,
    JoinCompleted,
    LeaderReplaced,
    MemberRef,
    MemberRemoved,
    Trigger,
)
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.group_metadata import GroupMetadataValue
from kshim_protocol.internal.records import build_group_metadata_key, build_group_metadata_value
from kshim_protocol.messages.join_group import JoinGroupResponse

_NULL_PROTOCOL_NAME_SINCE = 7
_TIMERS = frozenset({Cause.REBALANCE_TIMEOUT, Cause.INITIAL_DELAY_OVER})
_LOST = frozenset({Cause.SESSION_EXPIRED, Cause.REBALANCE_TIMEOUT, Cause.SYNC_TIMEOUT})
"""Why members are removed of which nothing was heard."""
_MOST_LOST_IDS = 64


def rebalance_or_complete_join(shard: Shard, group: Group, trigger: Trigger, now: Now, step: Step) -> None:
    """After members changed: start a rebalance where the state allows one, else see whether the join phase is over.

    While a group that was Empty waits for further members, the phase does not end early.
    """
    if group.state in VALID_PREVIOUS[GroupState.PREPARING_REBALANCE]:
        start_rebalance(shard, group, trigger, now, step)
    elif group.initial_delay is None:
        complete_join_if_all_joined(shard, group, trigger, now, step)


def start_rebalance(shard: Shard, group: Group, trigger: Trigger, now: Now, step: Step) -> None:
    """Go to PreparingRebalance; ends the join phase at once if no member is missing."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        fail_syncs(shard, group, ErrorCode.REBALANCE_IN_PROGRESS, now, step)
    shard.deadlines.cancel(group.sync_key)
    was_empty = group.state is GroupState.EMPTY
    group.rebalance_started_ms = now.mono_ms
    group.told_ms = None
    group.move_to(GroupState.PREPARING_REBALANCE, trigger=trigger, now=now, step=step)
    group.pending_syncs = NOBODY
    if not was_empty:
        if group.has_everybody_joined:
            _complete_join(shard, group, trigger, now, step)
        else:
            shard.deadlines.set(group.join_key, now.mono_ms + group.rebalance_timeout_ms)
        return
    delay_ms = shard.config.group_initial_rebalance_delay_ms
    if delay_ms <= 0:
        _complete_join(shard, group, trigger, now, step)
    else:
        group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        shard.deadlines.set(group.join_key, now.mono_ms + delay_ms)


def complete_join_if_all_joined(shard: Shard, group: Group, trigger: Trigger, now: Now, step: Step) -> None:
    """End the join phase if there is one and no member is missing."""
    if group.state is GroupState.PREPARING_REBALANCE and group.has_everybody_joined:
        _complete_join(shard, group, trigger, now, step)


def _complete_join(shard: Shard, group: Group, trigger: Trigger, now: Now, step: Step) -> None:
    """End the join phase: remove missing members, elect, vote, respond. A group without members becomes Empty."""
    shard.deadlines.cancel(group.join_key)
    group.initial_delay = None
    for member in list(group.members.values()):
        if not member.is_static and member.member_id not in group.parked_joins:
            remove_member(shard, group, member, Cause.REBALANCE_TIMEOUT, now, step)
    if not group.members:
        _become_empty(shard, group, trigger, now, step)
    elif _has_joined_leader(group, now, step):
        _open_sync_phase(shard, group, trigger, now, step)
    else:  # only static members, none of them back: wait for them, or for their sessions to end
        shard.deadlines.set(group.join_key, now.mono_ms + group.rebalance_timeout_ms)


def _has_joined_leader(group: Group, now: Now, step: Step) -> bool:
    """Whether the leader is parked in Join; if not, the first member that is becomes leader."""
    assert group.leader_id is not None
    if group.leader_id in group.parked_joins:
        return True
    elected = next((member for member in group.members.values() if member.member_id in group.parked_joins), None)
    if elected is None:
        return False
    step.events.append(LeaderReplaced(**group.event(now), member=elected.ref(), previous_leader_id=group.leader_id))
    group.leader_id = elected.member_id
    return True


def _become_empty(shard: Shard, group: Group, trigger: Trigger, now: Now, step: Step) -> None:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id + 1,
        protocol=None,
        leader=None,
        current_state_timestamp=now.wall_ms,
        members=(),
    )

    def written(_base_offset: int, step: Step) -> None:
        group.apply_metadata(value)
        group.read_topics()
        group.move_to(GroupState.EMPTY, trigger=trigger, now=now, step=step)

    def failed(error: ErrorCode, step: Step) -> None:
        # As in Kafka the group is Empty nevertheless: no member is left that could be informed or retry.
        written(-1, step)
        step.events.append(append_failed(group, error, "the empty group", now))

    pair = (build_group_metadata_key(group.group_id), build_group_metadata_value(value))
    shard.append(step, [pair], now, written=written, failed=failed)


def _open_sync_phase(shard: Shard, group: Group, trigger: Trigger, now: Now, step: Step) -> None:
    """A new generation: vote, answer every parked Join, wait for the Syncs."""
    group.generation_id += 1
    group.protocol_name = vote(member.protocols for member in group.members.values())
    group.read_topics()
    if trigger.cause not in _TIMERS:
        trigger = Trigger(cause=Cause.ALL_JOINED, detail=trigger.detail, member=trigger.member)
    group.move_to(GroupState.COMPLETING_REBALANCE, trigger=trigger, now=now, step=step)
    group.join_completed_ms = now.mono_ms
    step.events.append(_join_completed(group, now))
    group.told_ms = None
    parked_joins, group.parked_joins = group.parked_joins, NOTHING
    group.pending_syncs = set(group.members)
    for member in group.members.values():
        parked = parked_joins.get(member.member_id)
        if parked is not None:
            step.reply(parked.ticket, join_response(group, member, parked.api_version))
        restart_session(shard, member, now)
        member.is_new = False
    shard.deadlines.set(group.sync_key, now.mono_ms + group.rebalance_timeout_ms)


def append_failed(group: Group, error: ErrorCode, what: str, now: Now) -> AppendFailed:
    """The event of a record of `group` that could not be written."""
    return AppendFailed(**group.event(now), error=error, what=what)


def join_response(group: Group, member: Member, api_version: int) -> JoinGroupResponse:
    """The JoinGroup response of `member` for the current generation: only the leader gets the members.

    A protocol may have the empty name; where null can be said Kafka then says null.
    """
    is_leader = member.member_id == group.leader_id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or (None if api_version >= _NULL_PROTOCOL_NAME_SINCE else ""),
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=group.members_for_leader() if is_leader else (),
    )


def _join_completed(group: Group, now: Now) -> JoinCompleted:
    assert group.leader_id is not None
    assert group.protocol_name is not None
    parked, began_ms = group.parked_joins, group.rebalance_started_ms
    joined = [member for member in group.members.values() if member.member_id in parked]
    since_ms = [parked[member.member_id].since_ms for member in joined]
    told_ms = group.told_ms or {}
    return JoinCompleted(
        **group.event(now),
        member_count=len(group.members),
        leader_id=group.leader_id,
        protocol_name=group.protocol_name,
        join_ms=now.mono_ms - group.rebalance_started_ms,
        waits=tuple([(member.member_id, now.mono_ms - at_ms) for member, at_ms in zip(joined, since_ms, strict=True)]),
        arrivals=Arrivals(
            tuple([member.ref() for member in joined]),
            tuple([at_ms - began_ms for at_ms in since_ms]),
            bytes([member.is_new for member in joined]),
            {member_id: at_ms - began_ms for member_id, at_ms in told_ms.items()},
        ),
    )


# Members going


def remove_member(
    shard: Shard,
    group: Group,
    member: Member,
    cause: Cause,
    now: Now,
    step: Step,
    *,
    client_reason: str | None = None,
    is_by_instance_id: bool = False,
) -> None:
    """Take a member out of the group and nothing more. What it has parked is answered UNKNOWN_MEMBER_ID."""
    member_id = member.member_id
    parked_join = group.parked_joins.pop(member_id, None)
    if parked_join is not None:
        step.reply(parked_join.ticket, join_error(ErrorCode.UNKNOWN_MEMBER_ID, "", parked_join.api_version))
    parked_sync = group.parked_syncs.pop(member_id, None)
    if parked_sync is not None:
        step.reply(parked_sync.ticket, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    shard.deadlines.cancel(member.session_key)
    group.remove_member(member)
    if cause in _LOST:
        group.has_lost(member_id, most=_MOST_LOST_IDS)
    step.events.append(
        MemberRemoved(
            **group.event(now),
            state=group.state,
            member=member.ref(client_reason),
            cause=cause,
            was_pending=False,
            is_by_instance_id=is_by_instance_id,
        )
    )


def remove_pending(
    shard: Shard,
    group: Group,
    member_id: str,
    cause: Cause,
    now: Now,
    step: Step,
    *,
    client_reason: str | None = None,
) -> MemberRef:
    """Forget an id that was issued and never used. Returns whose it was."""
    issued_to = group.pending_joins.pop(member_id)
    shard.deadlines.cancel(("session", group.group_id, member_id))
    ref = MemberRef(
        member_id=member_id,
        client_id=issued_to.client_id,
        client_host=issued_to.client_host,
        client_reason=client_reason,
    )
    step.events.append(MemberRemoved(**group.event(now), state=group.state, member=ref, cause=cause, was_pending=True))
    return ref


def fail_syncs(shard: Shard, group: Group, error: ErrorCode, now: Now, step: Step) -> None:
    """Answer every parked Sync with `error` and take all assignments back; the answered members' sessions restart."""
    for member in group.members.values():
        member.assignment = b""
        parked = group.parked_syncs.pop(member.member_id, None)
        if parked is not None:
            step.reply(parked.ticket, sync_error(error))
            restart_session(shard, member, now)


def restart_session(shard: Shard, member: Member, now: Now) -> None:
    """The member is alive now."""
    shard.deadlines.set(member.session_key, now.mono_ms + member.session_timeout_ms)


# Timers


def join_timer_fired(shard: Shard, group: Group, now: Now, step: Step) -> None:
    """The join phase has lasted long enough, or the initial delay is over, unless it is to be extended."""
    assert group.state is GroupState.PREPARING_REBALANCE, f"{group.group_id}: {group.state}"
    delay = group.initial_delay
    if delay is not None and delay.has_new_member and delay.remaining_ms != 0:
        group.initial_delay = InitialDelay(
            min(shard.config.group_initial_rebalance_delay_ms, delay.remaining_ms),
            max(delay.remaining_ms - delay.delay_ms, 0),
        )
        shard.deadlines.set(group.join_key, now.mono_ms + group.initial_delay.delay_ms)
        return
    if delay is not None:
        trigger = Trigger(cause=Cause.INITIAL_DELAY_OVER, detail="the initial rebalance delay is over")
    else:
        trigger = Trigger(cause=Cause.REBALANCE_TIMEOUT, detail="the rebalance timeout is over")
    _complete_join(shard, group, trigger, now, step)


def sync_timer_fired(shard: Shard, group: Group, now: Now, step: Step) -> None:
    """Members that have not synced in time, static ones too, are removed; a rebalance starts."""
    assert group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE), f"{group.group_id}: {group.state}"
    late = [member for member in group.members.values() if member.member_id in group.pending_syncs]
    if not late:
        return
    names = ", ".join(member.member_id for member in late)
    trigger = Trigger(cause=Cause.SYNC_TIMEOUT, detail=f"no SyncGroup in time from {names}", member=late[0].ref())
    for member in late:
        remove_member(shard, group, member, Cause.SYNC_TIMEOUT, now, step)
    start_rebalance(shard, group, trigger, now, step)


def session_expired(shard: Shard, group: Group, member_id: str, now: Now, step: Step) -> None:
    """A member has not been heard of for its session timeout, or an issued member id has not come back.

    A member that is parked in JoinGroup or SyncGroup counts as alive (the response restarts the session), except a new member, whose session
    bounds how long a Join of a client that is gone can hold up the group.
    """
    if member_id in group.pending_joins:
        ref = remove_pending(shard, group, member_id, Cause.SESSION_EXPIRED, now, step)
        trigger = Trigger(
            cause=Cause.SESSION_EXPIRED, detail=f"{member_id} did not come back with the id it was given", member=ref
        )
        complete_join_if_all_joined(shard, group, trigger, now, step)
        return
    member = group.members[member_id]
    if not member.is_new and (member_id in group.parked_joins or member_id in group.parked_syncs):
        return
    trigger = Trigger(
        cause=Cause.SESSION_EXPIRED,
        detail=f"removing member {member_id} on heartbeat expiration",
        member=member.ref(),
    )
    remove_member(shard, group, member, Cause.SESSION_EXPIRED, now, step)
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_join_if_all_joined(shard, group, trigger, now, step)
    else:
        start_rebalance(shard, group, trigger, now, step)
