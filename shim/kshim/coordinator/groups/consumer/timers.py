"""The deadlines of members: their sessions, the time they have to give up partitions, and that to join and to sync.

Source: Kafka's GroupMetadataManager (scheduleConsumerGroupSessionTimeout, scheduleConsumerGroupRebalanceTimeout,
scheduleConsumerGroupJoinTimeoutIfAbsent, scheduleConsumerGroupSyncTimeout).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.coordinator.groups.consumer.group import TIMERS
from kshim.coordinator.groups.consumer.state import MemberState

if TYPE_CHECKING:
    from kshim.coordinator.groups.consumer.group import ConsumerGroup, Member
    from kshim.coordinator.groups.shard import Shard
    from kshim.coordinator.step import Now


def restart_session(shard: Shard, group_id: str, member_id: str, now: Now) -> None:
    """The member is alive now."""
    timeout_ms = shard.settings_of(group_id).session_timeout_ms
    shard.deadlines.set(("session", group_id, member_id), now.mono_ms + timeout_ms)


def restart_classic_session(shard: Shard, group_id: str, member: Member, now: Now) -> None:
    """The same of a member that speaks the classic protocol, which has a timeout of its own."""
    classic = member.metadata.classic_member_metadata
    assert classic is not None, member.member_id
    shard.deadlines.set(("session", group_id, member.member_id), now.mono_ms + classic.session_timeout_ms)


def restart_timers(shard: Shard, group: ConsumerGroup, member: Member, now: Now) -> None:
    """A member as it was read from the log, of either protocol: it has all the time again."""
    restart_session(shard, group.group_id, member.member_id, now)
    if member.current.state is MemberState.UNREVOKED_PARTITIONS:
        _await_revocation(shard, group.group_id, member, now)


def watch_revocation(shard: Shard, group_id: str, member: Member, now: Now) -> None:
    """A member has just been told to give up partitions, or has nothing to give up any more.

    Members of the classic protocol have the time until they must have joined instead.
    """
    if member.current.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
        _await_revocation(shard, group_id, member, now)
    else:
        shard.deadlines.cancel(("rebalance", group_id, member.member_id))


def _await_revocation(shard: Shard, group_id: str, member: Member, now: Now) -> None:
    key = ("rebalance", group_id, member.member_id)
    shard.deadlines.set(key, now.mono_ms + member.metadata.rebalance_timeout_ms)


def await_join(shard: Shard, group_id: str, member: Member, now: Now) -> None:
    """A member of the classic protocol was told to join again. Being told so again gives it no more time."""
    key = ("join", group_id, member.member_id)
    if shard.deadlines.get(key) is None:
        shard.deadlines.set(key, now.mono_ms + member.metadata.rebalance_timeout_ms)


def await_sync(shard: Shard, group_id: str, member: Member, now: Now) -> None:
    """A member of the classic protocol has joined."""
    shard.deadlines.cancel(("join", group_id, member.member_id))
    shard.deadlines.set(("sync", group_id, member.member_id), now.mono_ms + member.metadata.rebalance_timeout_ms)


def forget_timers(shard: Shard, group_id: str, member_id: str) -> None:
    """The member is gone."""
    for name in TIMERS:
        shard.deadlines.cancel((name, group_id, member_id))
