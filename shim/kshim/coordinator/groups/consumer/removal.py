"""Members that are removed: they leave, are not heard of any more, or do not give up partitions in time.

Source: Kafka's GroupMetadataManager.consumerGroupFenceMember.
"""

from __future__ import annotations

from kshim.coordinator.groups.consumer.append_plan import append_plan
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.consumer.plan import Plan
from kshim.coordinator.groups.events import Cause, Trigger
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode

_RETRY_MS = 500


def removed_plan(shard: Shard, group: ConsumerGroup, member_id: str, trigger: Trigger) -> Plan:
    """A member goes, and its partitions are free."""
    plan = Plan(group, shard.hash_of_topics)
    plan.remove_member(member_id, trigger)
    return plan


def session_expired(shard: Shard, group: ConsumerGroup, member_id: str, now: Now, step: Step) -> None:
    """A member has not been heard of for its session timeout."""
    detail = f"removing member {member_id} because its session expired"
    _remove(shard, group, member_id, "session", Cause.SESSION_EXPIRED, detail, now, step)


def rebalance_expired(shard: Shard, group: ConsumerGroup, member_id: str, now: Now, step: Step) -> None:
    """A member still owns partitions that it was told to give up when its rebalance timeout is over."""
    member = group.members[member_id]
    detail = (
        f"removing member {member_id}, which has not given up its partitions in epoch {member.current.epoch} within "
        f"{member.metadata.rebalance_timeout_ms} ms"
    )
    _remove(shard, group, member_id, "rebalance", Cause.REBALANCE_TIMEOUT, detail, now, step)


def _remove(
    shard: Shard, group: ConsumerGroup, member_id: str, timer: str, cause: Cause, detail: str, now: Now, step: Step
) -> None:
    trigger = Trigger(cause=cause, detail=detail, member=group.members[member_id].ref())
    plan = removed_plan(shard, group, member_id, trigger)

    def written(step: Step) -> None:
        pass

    def failed(error: ErrorCode, step: Step) -> None:
        shard.deadlines.set((timer, group.group_id, member_id), now.mono_ms + _RETRY_MS)

    append_plan(shard, plan, now, step, written=written, failed=failed)
