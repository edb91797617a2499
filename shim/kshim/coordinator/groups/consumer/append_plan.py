"""How a plan becomes true: its records in one batch, and what follows once they are in the log."""

from __future__ import annotations

from collections.abc import Callable

from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.consumer.plan import Plan
from kshim.coordinator.groups.consumer.state import ConsumerGroupState
from kshim.coordinator.groups.consumer.timers import forget_timers, watch_revocation
from kshim.coordinator.groups.consumer.updates import MemberCurrent, MemberMetadata, build_update
from kshim.coordinator.groups.events import (
    AppendFailed,
    MemberAdded,
    MemberRemoved,
    MemberReplaced,
)
from kshim.coordinator.groups.kinds import GroupKind, Pair, converted
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode


def append_plan(
    shard: Shard,
    plan: Plan,
    now: Now,
    step: Step,
    *,
    written: Callable[[Step], None],
    failed: Callable[[ErrorCode, Step], None],
) -> None:
    """Write a plan of at least one update; then `written` is called with the group changed, or else `failed`."""
    group_id = plan.group.group_id

    def applied(_base_offset: int, step: Step) -> None:
        before = _state(shard, group_id)
        if plan.replaces is not None:
            shard.end_group(group_id)
            step.events.append(converted(plan.replaces, GroupKind.CONSUMER, now))
        for update in plan.updates:
            shard.apply_update(group_id, update)
        group = shard.consumer_group(group_id)
        if plan.topics_version is not None:
            group.topics_version = plan.topics_version
        _move_timers(shard, group, plan, now)
        _report(group, plan, before, now, step)
        written(step)

    def not_written(error: ErrorCode, step: Step) -> None:
        step.events.append(AppendFailed(**plan.group.event(now), error=error, what="the changes of a heartbeat"))
        failed(error, step)

    pairs: list[Pair] = [] if plan.replaces is None else plan.replaces.tombstones()
    pairs += [build_update(group_id, update) for update in plan.updates]
    shard.append(step, pairs, now, written=applied, failed=not_written)


def _state(shard: Shard, group_id: str) -> ConsumerGroupState:
    group = shard.groups.get(group_id)
    return group.state if isinstance(group, ConsumerGroup) else ConsumerGroupState.EMPTY


def _move_timers(shard: Shard, group: ConsumerGroup, plan: Plan, now: Now) -> None:
    for update in plan.updates:
        match update:
            case MemberMetadata(member_id, None):
                forget_timers(shard, group.group_id, member_id)
            case MemberCurrent(member_id, current) if current is not None and member_id in group.members:
                watch_revocation(shard, group.group_id, group.members[member_id], now)
            case _:
                pass


def _report(group: ConsumerGroup, plan: Plan, before: ConsumerGroupState, now: Now, step: Step) -> None:
    """What happened to members, and the group's state before and after: the one place that compares them."""
    fields, after = group.event(now), group.state
    for member in plan.joined:
        step.events.append(MemberAdded(**fields, state=after, member=member, had_id=False))
    for member, old_id in plan.replaced:
        step.events.append(MemberReplaced(**fields, state=after, member=member, replaced_member_id=old_id))
    for member, cause in plan.removed:
        step.events.append(MemberRemoved(**fields, state=after, member=member, cause=cause, was_pending=False))
    if after is not before:
        trigger = plan.trigger or plan.occasion
        assert trigger is not None, f"{group.group_id}: {before} -> {after} without a cause"
        step.events.append(group.transition(before, after, trigger, now))
