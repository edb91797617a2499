"""The deadlines of members: their sessions, and the time they have to give up partitions.

Source: Kafka's GroupMetadataManager (scheduleConsumerGroupSessionTimeout, scheduleConsumerGroupRebalanceTimeout).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.coordinator.groups.consumer.state import MemberState

if TYPE_CHECKING:
    from kshim.coordinator.groups.consumer.group import ConsumerGroup, Member
    from kshim.coordinator.groups.shard import Shard
    from kshim.coordinator.step import Now


def restart_session(shard: Shard, group_id: str, member_id: str, now: Now) -> None:
    """The member is alive now."""
    timeout_ms = shard.settings_of(group_id).session_timeout_ms
    shard.deadlines.set(("session", group_id, member_id), now.mono_ms + timeout_ms)


def restart_timers(shard: Shard, group: ConsumerGroup, member: Member, now: Now) -> None:
    """A member as it was read from the log: it has all the time again."""
    restart_session(shard, group.group_id, member.member_id, now)
    watch_revocation(shard, group.group_id, member, now)


def watch_revocation(shard: Shard, group_id: str, member: Member, now: Now) -> None:
    """A member has just been told to give up partitions, or has nothing to give up any more."""
    key = ("rebalance", group_id, member.member_id)
    if member.current.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
        shard.deadlines.set(key, now.mono_ms + member.metadata.rebalance_timeout_ms)
    else:
        shard.deadlines.cancel(key)


def forget_timers(shard: Shard, group_id: str, member_id: str) -> None:
    """The member is gone."""
    shard.deadlines.cancel(("session", group_id, member_id))
    shard.deadlines.cancel(("rebalance", group_id, member_id))
