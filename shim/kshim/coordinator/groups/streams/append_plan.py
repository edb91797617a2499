"""How a plan of a streams group becomes true: its records in one batch, and what follows once they are in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kshim.coordinator.groups.epoch_report import Look, Report, Seat
from kshim.coordinator.groups.events import AppendFailed, Cause, Trigger
from kshim.coordinator.groups.kinds import Pair
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.streams.group import (
    LEFT_FOR_NOW_EPOCH,
    MEMBER_TIMERS,
    StreamsGroup,
    StreamsMember,
)
from kshim.coordinator.groups.streams.plan import StreamsPlan
from kshim.coordinator.groups.streams.state import MemberState, StreamsGroupState
from kshim.coordinator.groups.streams.updates import (
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    TargetEpoch,
    build_streams_update,
)
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode

_ASSIGNOR: Final = "sticky"


def append_streams_plan(
    shard: Shard,
    plan: StreamsPlan,
    now: Now,
    step: Step,
    *,
    written: Callable[[Step], None],
    failed: Callable[[ErrorCode, Step], None],
) -> None:
    """Write a plan of at least one update; then `written` is called with the group changed, or else `failed`."""
    group_id = plan.base.group_id

    member_ids = dict.fromkeys(
        each.member_id for each in plan.updates if isinstance(each, (MemberCurrent, MemberTarget))
    )

    def applied(_base_offset: int, step: Step) -> None:
        before = _look(plan.base, member_ids)
        if plan.replaces is not None:
            shard.end_group(group_id)
            plan.replaces.has_ended(
                Trigger(cause=Cause.MEMBER_JOINED, detail="a streams group took its place"), now, step
            )
        for update in plan.updates:
            shard.apply_streams_update(group_id, update)
        group = shard.streams_group(group_id)
        _move_timers(shard, group, plan, now)
        _report(group, plan, before, _look(group, member_ids), now, step)
        written(step)

    def not_written(error: ErrorCode, step: Step) -> None:
        # What was found of the topology is not what the log says of it.
        plan.base.memory.topics_version = None
        step.events.append(AppendFailed(**plan.group.event(now), error=error, what="the changes of a heartbeat"))
        failed(error, step)

    pairs: list[Pair] = [] if plan.replaces is None else plan.replaces.tombstones()
    pairs += [build_streams_update(group_id, update) for update in plan.updates]
    shard.append(step, pairs, now, written=applied, failed=not_written)


def _look(group: StreamsGroup, member_ids: Iterable[str]) -> Look:
    members = [group.members[member_id] for member_id in member_ids if member_id in group.members]
    targets = {
        member.member_id: frozenset(
            (role, task) for role, tasks in group.target(member.member_id)._asdict().items() for task in tasks
        )
        for member in members
    }
    return Look(group.state, group.epoch, {member.member_id: _seat(member) for member in members}, targets)


def _seat(member: StreamsMember) -> Seat:
    """What a static member has that has left for now is only kept for it."""
    current = member.current
    if current.epoch == LEFT_FOR_NOW_EPOCH:
        return Seat(member.ref(), current.epoch, current.state)
    assigned, pending = current.assigned, current.pending_revocation
    return Seat(
        member.ref(),
        current.epoch,
        current.state,
        frozenset(assigned.active) | frozenset(pending.active),
        assigned.standby | assigned.warmup | pending.standby | pending.warmup,
        frozenset(pending.active) | pending.standby | pending.warmup,
    )


def _report(group: StreamsGroup, plan: StreamsPlan, before: Look, after: Look, now: Now, step: Step) -> None:
    has_target = any(isinstance(update, TargetEpoch) for update in plan.updates)
    is_assigned = after.state in (StreamsGroupState.RECONCILING, StreamsGroupState.STABLE)
    Report(group, before, after, plan.causes, now, step).tell(
        assignor=_ASSIGNOR if has_target else None,
        next_state=StreamsGroupState.ASSIGNING if is_assigned else after.state,
    )


def _move_timers(shard: Shard, group: StreamsGroup, plan: StreamsPlan, now: Now) -> None:
    for update in plan.updates:
        if isinstance(update, MemberCurrent):
            member = group.members.get(update.member_id)
            if member is not None and update.current is not None:
                _watch_revocation(shard, group.group_id, member, now)
        elif isinstance(update, MemberMetadata) and update.value is None:
            for name in MEMBER_TIMERS:
                shard.deadlines.cancel((name, group.group_id, update.member_id))


def restart_streams_session(shard: Shard, group_id: str, member_id: str, now: Now) -> None:
    """The member is alive now."""
    timeout_ms = shard.streams_settings_of(group_id).session_timeout_ms
    shard.deadlines.set(("session", group_id, member_id), now.mono_ms + timeout_ms)


def restart_streams_timers(shard: Shard, group: StreamsGroup, now: Now) -> None:
    """A group as it was read from the log: its members have all the time again."""
    for member in group.members.values():
        restart_streams_session(shard, group.group_id, member.member_id, now)
        _watch_revocation(shard, group.group_id, member, now)


def _watch_revocation(shard: Shard, group_id: str, member: StreamsMember, now: Now) -> None:
    """A member has just been told to give up tasks, or has nothing to give up any more."""
    key = ("rebalance", group_id, member.member_id)
    if member.current.state is MemberState.UNREVOKED_TASKS:
        shard.deadlines.set(key, now.mono_ms + member.metadata.rebalance_timeout_ms)
    else:
        shard.deadlines.cancel(key)
