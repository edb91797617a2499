"""How a plan becomes true: its records in one batch, and what follows once they are in the log."""

from __future__ import annotations

from collections.abc import Callable, Set

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.classic.replies import refuse_parked
from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.group import LEFT_FOR_NOW_EPOCH, NOT_JOINED_YET, ConsumerGroup
from kshim.coordinator.groups.consumer.plan import Plan
from kshim.coordinator.groups.consumer.reconciliation import Current
from kshim.coordinator.groups.consumer.timers import forget_timers, restart_classic_session, watch_revocation
from kshim.coordinator.groups.consumer.updates import (
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    TargetEpoch,
    build_update,
)
from kshim.coordinator.groups.epoch_report import transition
from kshim.coordinator.groups.events import (
    AppendFailed,
    EpochRaised,
    MemberAdded,
    MemberReconciled,
    MemberRemoved,
    MemberReplaced,
    TargetChange,
    TargetComputed,
    TopicPartitions,
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
    group_id = plan.base.group_id

    def applied(_base_offset: int, step: Step) -> None:
        before = _Before(plan)
        if plan.replaces is not None:
            refuse_parked(plan.replaces, ErrorCode.REBALANCE_IN_PROGRESS, step)
            shard.end_group(group_id)
            step.events.append(converted(plan.replaces, GroupKind.CONSUMER, now))
        group = plan.base
        if shard.groups.get(group_id) is group:
            for update in plan.updates:
                group.apply(update)
        else:  # it is new, or takes the place of another one
            for update in plan.updates:
                shard.apply_update(group_id, update)
            group = shard.consumer_group(group_id)
        if plan.replaces is not None:
            for member_id in plan.replaces.members.keys() & group.members.keys():
                restart_classic_session(shard, group_id, group.members[member_id], now)
        if plan.topics_version is not None:
            group.topics_version = plan.topics_version
        _move_timers(shard, group, plan, now)
        _Report(group, plan, before, shard.topics, now, step).members().epoch().target().assignments().state()
        written(step)

    def not_written(error: ErrorCode, step: Step) -> None:
        step.events.append(AppendFailed(**plan.group.event(now), error=error, what="the changes of a heartbeat"))
        failed(error, step)

    pairs: list[Pair] = [] if plan.replaces is None else plan.replaces.tombstones()
    pairs += [build_update(group_id, update) for update in plan.updates]
    shard.append(step, pairs, now, written=applied, failed=not_written)


def _move_timers(shard: Shard, group: ConsumerGroup, plan: Plan, now: Now) -> None:
    for update in plan.updates:
        if isinstance(update, MemberCurrent):
            member = group.members.get(update.member_id)
            if member is not None and update.current is not None:
                watch_revocation(shard, group.group_id, member, now)
        elif isinstance(update, MemberMetadata) and update.value is None:
            forget_timers(shard, group.group_id, update.member_id)


# What is reported


class _Before:
    """What a plan changes, as it was. `targets` and `currents` are of the members that have other ones then."""

    def __init__(self, plan: Plan) -> None:
        group = plan.base
        self.group_state = group.state
        self.epoch = group.group_epoch
        self.has_target = False  # whether it has a new one
        self.targets: dict[str, Set[TopicPartition]] = {}
        self.currents: dict[str, Current] = {}
        for update in plan.updates:
            if isinstance(update, MemberCurrent):
                member = group.members.get(update.member_id)
                self.currents.setdefault(update.member_id, NOT_JOINED_YET.current if member is None else member.current)
            elif isinstance(update, MemberTarget):
                self.targets.setdefault(update.member_id, group.targets.get(update.member_id, frozenset()))
            elif isinstance(update, TargetEpoch):
                self.has_target = True


def _in_hands(current: Current) -> Set[TopicPartition]:
    """The partitions that a member owns. Those of a static member that has left for now are only kept for it."""
    if current.epoch == LEFT_FOR_NOW_EPOCH:
        return frozenset()
    if not current.pending_revocation:
        return current.assigned.keys()
    return current.assigned.keys() | current.pending_revocation.keys()


class _Report:
    """The events of a plan that has come true, in their order: the one place that compares before and after."""

    def __init__(
        self, group: ConsumerGroup, plan: Plan, before: _Before, topics: TopicCatalog, now: Now, step: Step
    ) -> None:
        self._group = group
        self._plan = plan
        self._before = before
        self._topics = topics
        self._now = now
        self._step = step
        self._fields = group.event(now)
        self._state = group.state

    def members(self) -> _Report:
        """Who came and went."""
        plan, fields, state = self._plan, self._fields, self._state
        for member in plan.joined:
            wish = plan.wishes.get(member.member_id)
            self._step.events.append(MemberAdded(**fields, state=state, member=member, had_id=False, offer=wish))
        for member, old_id in plan.replaced:
            self._step.events.append(MemberReplaced(**fields, state=state, member=member, replaced_member_id=old_id))
        for member, cause in plan.removed:
            revoked = self._named(_in_hands(self._before.currents[member.member_id]))
            self._step.events.append(
                MemberRemoved(**fields, state=state, member=member, cause=cause, was_pending=False, revoked=revoked)
            )
        return self

    def epoch(self) -> _Report:
        """Why the epoch rose, if it did."""
        trigger = self._plan.trigger
        if trigger is not None:
            self._step.events.append(
                EpochRaised(
                    **self._fields,
                    previous=self._before.group_state,
                    previous_epoch=self._before.epoch,
                    cause=trigger.cause,
                    detail=trigger.detail,
                    member=trigger.member,
                    member_count=self._group.member_count,
                    offer=None if trigger.member is None else self._plan.wishes.get(trigger.member.member_id),
                )
            )
        return self

    def target(self) -> _Report:
        """What a new target changes. That of an empty group says nothing."""
        group = self._group
        if self._before.has_target and not group.is_empty:
            changes = []
            for member_id, before in self._before.targets.items():
                after = group.targets.get(member_id, frozenset())
                if member_id in group.members and after != before:
                    ref = group.members[member_id].ref()
                    changes.append(TargetChange(ref, len(before - after), len(after - before)))
            event = TargetComputed(**self._fields, assignor=self._plan.assignor, changes=tuple(changes))
            self._step.events.append(event)
        return self

    def assignments(self) -> _Report:
        """How far members are."""
        for member_id, before in self._before.currents.items():
            member = self._group.members.get(member_id)
            if member is None or member.current == before:
                continue
            after, had, has = member.current, _in_hands(before), _in_hands(member.current)
            self._step.events.append(
                MemberReconciled(
                    **self._fields,
                    state=self._state,
                    member=member.ref(),
                    epoch=after.epoch,
                    previous=before.state,
                    new=after.state,
                    to_revoke=self._named(after.pending_revocation.keys() - before.pending_revocation.keys()),
                    revoked=self._named(had - has),
                    received=self._named(has - had),
                )
            )
        return self

    def state(self) -> None:
        """The group's, if it is another one."""
        before, after = self._before.group_state, self._state
        if after is not before:
            trigger = self._plan.trigger
            if trigger is None and self._plan.occasion is not None:
                trigger = self._plan.occasion()
            assert trigger is not None, f"{self._group.group_id}: {before} -> {after} without a cause"
            self._step.events.append(transition(self._group, before, after, trigger, self._now))

    def _named(self, partitions: Set[TopicPartition]) -> TopicPartitions:
        """With the names of topics; the ids of those that are deleted."""
        if not partitions:
            return ()
        found = [(self._topics.topic_name(topic_id) or topic_id.hex(), index) for topic_id, index in partitions]
        found.sort()
        return tuple(found)
