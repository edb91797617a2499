"""What happens to the groups of a shard when it has been read from its log, and when it is given up.

Source: Kafka's GroupMetadataManager.onLoaded and onUnloaded.
"""

from __future__ import annotations

from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.classic.rebalance import restart_session, start_rebalance
from kshim.coordinator.groups.classic.replies import refuse_parked
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.consumer.timers import restart_timers
from kshim.coordinator.groups.events import Cause, GroupLoaded, RecordsSkipped, Trigger
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.share.append_plan import restart_share_session
from kshim.coordinator.groups.share.group import ShareGroup
from kshim.coordinator.groups.streams.append_plan import restart_streams_timers
from kshim.coordinator.groups.streams.group import StreamsGroup
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode


def finish_load(shard: Shard, now: Now, step: Step) -> None:
    """Every member gets a full session; a classic group that is too large by now rebalances."""
    for key_type, count in sorted(shard.skipped.items()):
        step.events.append(RecordsSkipped(partition=shard.partition, now=now, key_type=key_type, count=count))
    shard.skipped.clear()
    for group in shard.groups.values():
        event = GroupLoaded(
            **group.event(now),
            state=group.state,
            member_count=group.member_count,
            protocol_type=group.protocol_type,
        )
        step.events.append(event)
        if isinstance(group, StreamsGroup):
            restart_streams_timers(shard, group, now)
        elif isinstance(group, ShareGroup):
            for member_id in group.members:
                restart_share_session(shard, group.group_id, member_id, now)
        elif isinstance(group, ConsumerGroup):
            for member in group.members.values():
                restart_timers(shard, group, member, now)
        elif isinstance(group, Group):
            _load_classic(shard, group, now, step)


def _load_classic(shard: Shard, group: Group, now: Now, step: Step) -> None:
    for member in group.members.values():
        restart_session(shard, member, now)
    max_size = shard.config.group_max_size
    if len(group.members) > max_size:
        detail = f"{len(group.members)} members were loaded, more than group.max.size {max_size}"
        start_rebalance(shard, group, Trigger(cause=Cause.GROUP_TOO_LARGE, detail=detail), now, step)


def release_parked(shard: Shard, error: ErrorCode, step: Step) -> None:
    """Answer everything that waits in this shard with `error`, so that clients look up the coordinator again."""
    for group in shard.classic_groups.values():
        refuse_parked(group, error, step)
