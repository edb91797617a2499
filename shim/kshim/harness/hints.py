"""Why a wait for a group did not end, as far as the broker can know: for the message of its time-out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer.group import LEFT_FOR_NOW_EPOCH, ConsumerGroup
from kshim.coordinator.groups.consumer.state import MemberState
from kshim.harness.groups import GroupView, committed, group_ids, group_view, shard_of

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.groups.classic.member import Member
    from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
    from kshim.coordinator.groups.shard import Shard
    from kshim.coordinator.step import Now

_SILENT_MS: Final = 4_000
"""A second more than between two heartbeats by default (heartbeat.interval.ms)."""
_LISTED_MAX: Final = 20


def hints(cluster: Cluster, group_id: str, now: Now) -> list[str]:
    """A sentence for each thing that may keep a group from going on; none when nothing stands out."""
    view = group_view(cluster, group_id)
    if view.state == GroupState.DEAD.value:
        others = group_ids(cluster)
        known = f"the groups there are: {', '.join(others[:_LISTED_MAX])}" if others else "there are no groups at all"
        return [f"There is no group {group_id}; {known}."]
    return [*_unassigned(view), *_waiting(cluster, group_id, now)][:_LISTED_MAX]


def hints_of_commit(cluster: Cluster, group_id: str, topic: str, partition: int) -> list[str]:
    """The same for a commit of a partition: what is committed, and whether there is such a partition."""
    found = committed(cluster, group_id)
    offset = found.get((topic, partition))
    what = f"Group {group_id} has committed "
    if offset is not None:
        sentences = [f"{what}offset {offset} of {topic}-{partition}."]
    else:
        others = ", ".join(f"{name}-{index}: {at}" for (name, index), at in list(found.items())[:_LISTED_MAX])
        sentences = [f"{what}nothing of {topic}-{partition}{f', but {others}' if others else ''}."]
    count = cluster.topics.partition_count(topic)
    if count is None:
        sentences.append(f"There is no topic {topic}.")
    elif not 0 <= partition < count:
        sentences.append(f"Topic {topic} has the partitions 0 to {count - 1}, and no {partition}.")
    return sentences


def _unassigned(view: GroupView) -> Iterator[str]:
    assigned = {topic for member in view.members for topic, _ in member.assignment}
    for topic in sorted({topic for topic, _ in view.unassigned} - assigned):
        yield (
            f"Members subscribe to {topic}, which exists, but no member has a partition of {topic}: the leader did not "
            "know the topic when it assigned, or may not describe it. It assigns again when its client has refreshed "
            "its metadata (metadata.max.age.ms); create topics before consumers start."
        )
    for topic, index in view.unassigned:
        if topic in assigned:
            yield (
                f"Of the members that subscribe to {topic}, nobody has {topic}-{index}, which a member has given up: "
                "it has still to join again, so that another one gets it."
            )


def _waiting(cluster: Cluster, group_id: str, now: Now) -> Iterator[str]:
    shard = shard_of(cluster, group_id)
    assert shard is not None
    group = shard.classic_groups.get(group_id)
    if group is None:
        newer = shard.groups[group_id]
        if isinstance(newer, ConsumerGroup):
            yield from _reconciling(cluster, newer)
        return
    for member in group.members.values():
        name = f"Member {member.member_id}"
        if member.member_id in group.parked_joins or member.member_id in group.parked_syncs:
            continue
        silent_ms = _silent_ms(shard, member, now)
        if group.state is GroupState.PREPARING_REBALANCE:
            yield f"{name} has still to send JoinGroup{_since(silent_ms)}: its client has to poll for that."
        elif group.state is GroupState.COMPLETING_REBALANCE and member.member_id in group.pending_syncs:
            yield f"{name} has still to send SyncGroup{_since(silent_ms)}."
        elif silent_ms is not None and silent_ms >= _SILENT_MS:
            left_ms = member.session_timeout_ms - silent_ms
            yield (
                f"{name} has sent no heartbeat for {silent_ms / 1_000:.1f} s by the broker's clock; "
                f"its session expires in {left_ms / 1_000:.1f} s."
            )
    if group.pending_joins:
        yield (
            f"Members that were given an id and have not joined with it yet: {', '.join(list(group.pending_joins)[:_LISTED_MAX])}."
        )


def _reconciling(cluster: Cluster, group: ConsumerGroup) -> Iterator[str]:
    """Of a group of the new protocol, what each member has still to do, which it does with a heartbeat."""
    targets = group.target_epoch == group.group_epoch
    if group.members and not targets:
        yield f"No target was computed for epoch {group.group_epoch} yet: a heartbeat of any member does it when it is due."
    for member_id, member in group.members.items():
        current = member.current
        if current.epoch == LEFT_FOR_NOW_EPOCH:
            yield f"Static member {member.metadata.instance_id} ({member_id}) has left for now, and is waited for."
        elif current.pending_revocation:
            yield f"Member {member_id} has still to give up {_listed(cluster, current.pending_revocation)}."
        elif current.state is MemberState.UNRELEASED_PARTITIONS:
            target = group.targets.get(member_id, frozenset())
            missing = [partition for partition in target if partition not in current.assigned]
            holders = sorted({group.holders[partition] for partition in missing if partition in group.holders})
            yield f"Member {member_id} waits for {_listed(cluster, missing)} of {', '.join(holders) or 'nobody'}."
        elif targets and not current.is_at(group.target_epoch):
            yield f"Member {member_id} is at epoch {current.epoch} and has still to send a heartbeat."


def _listed(cluster: Cluster, partitions: Iterable[TopicPartition]) -> str:
    names = sorted((cluster.topics.topic_name(topic_id) or topic_id.hex(), index) for topic_id, index in partitions)
    return ", ".join(f"{name}-{index}" for name, index in names[:_LISTED_MAX])


def _silent_ms(shard: Shard, member: Member, now: Now) -> int | None:
    """How long ago the last request came that kept the session alive; None when that cannot be told."""
    deadline_ms = shard.deadlines.get(member.session_key)
    if deadline_ms is None or member.is_new:
        return None
    return max(now.mono_ms - (deadline_ms - member.session_timeout_ms), 0)


def _since(silent_ms: int | None) -> str:
    return "" if silent_ms is None else f" (its last request came {silent_ms / 1_000:.1f} s ago)"
