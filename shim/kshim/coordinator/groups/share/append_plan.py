"""How a plan of a share group becomes true: its records in one batch, and what follows once they are in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.state import MemberState
from kshim.coordinator.groups.epoch_report import Look, NamedPlaces, Report, Seat
from kshim.coordinator.groups.events import AppendFailed
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.share.group import ShareGroup
from kshim.coordinator.groups.share.plan import SharePlan
from kshim.coordinator.groups.share.updates import (
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    TargetEpoch,
    build_share_update,
)
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode

_ASSIGNOR: Final = "simple"


def append_share_plan(
    shard: Shard,
    plan: SharePlan,
    now: Now,
    step: Step,
    *,
    written: Callable[[Step], None],
    failed: Callable[[ErrorCode, Step], None],
) -> None:
    """Write a plan of at least one update; then `written` is called with the group changed, or else `failed`."""
    group_id, topics = plan.base.group_id, shard.topics
    member_ids = dict.fromkeys(
        each.member_id for each in plan.updates if isinstance(each, (MemberCurrent, MemberTarget))
    )

    def applied(_base_offset: int, step: Step) -> None:
        before = _look(plan.base, member_ids, topics)
        for update in plan.updates:
            shard.apply_share_update(group_id, update)
            if isinstance(update, MemberMetadata) and update.value is None:
                shard.deadlines.cancel(("session", group_id, update.member_id))
        group = shard.share_group(group_id)
        if plan.topics_version is not None:
            group.topics_version = plan.topics_version
        after = _look(group, member_ids, topics)
        Report(group, before, after, plan.causes, now, step).tell(
            assignor=_ASSIGNOR if any(isinstance(update, TargetEpoch) for update in plan.updates) else None,
            next_state=group.state,
        )
        written(step)

    def not_written(error: ErrorCode, step: Step) -> None:
        step.events.append(AppendFailed(**plan.group.event(now), error=error, what="the changes of a heartbeat"))
        failed(error, step)

    pairs = [build_share_update(group_id, update) for update in plan.updates]
    shard.append(step, pairs, now, written=applied, failed=not_written)


def _look(group: ShareGroup, member_ids: Iterable[str], topics: TopicCatalog) -> Look:
    """Members of share groups are always Stable, and have nothing to give up first."""
    members = [group.members[member_id] for member_id in member_ids if member_id in group.members]
    seats = {
        member.member_id: Seat(
            member.ref(), member.current.epoch, MemberState.STABLE, _named(member.current.assigned, topics)
        )
        for member in members
    }
    targets = {
        member.member_id: frozenset(
            ("", place) for place in _named(group.targets.get(member.member_id, frozenset()), topics)
        )
        for member in members
    }
    return Look(group.state, group.epoch, seats, targets)


def _named(places: Iterable[TopicPartition], topics: TopicCatalog) -> NamedPlaces:
    """With the names of topics; the ids of those that are deleted."""
    return frozenset((topics.topic_name(topic_id) or topic_id.hex(), index) for topic_id, index in places)


def restart_share_session(shard: Shard, group_id: str, member_id: str, now: Now) -> None:
    """The member is alive now."""
    timeout_ms = shard.share_settings_of(group_id).session_timeout_ms
    shard.deadlines.set(("session", group_id, member_id), now.mono_ms + timeout_ms)
