"""Members that are removed: they leave, are not heard of any more, or do not what they were told in time.

Source: Kafka's GroupMetadataManager.consumerGroupFenceMembers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kshim.coordinator.groups.consumer.append_plan import append_plan
from kshim.coordinator.groups.consumer.conversion import append_downgrade, is_downgraded
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.consumer.plan import Plan
from kshim.coordinator.groups.events import Cause, MemberRemoved, Trigger
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode, KafkaError

_RETRY_MS = 500


def remove_members(
    shard: Shard,
    group: ConsumerGroup,
    leaving: Mapping[str, Trigger],
    now: Now,
    step: Step,
    *,
    written: Callable[[Step], None],
    failed: Callable[[ErrorCode, Step], None],
) -> None:
    """Members, at least one, go with one new epoch, and their partitions are free.

    When only members of the classic protocol stay, the group becomes classic and rebalances. Raises as `downgraded`.
    """
    if not is_downgraded(shard, group, leaving):
        plan = Plan(group, shard.hash_of_topics)
        plan.remove_members(leaving)
        append_plan(shard, plan, now, step, written=written, failed=failed)
        return
    fields, state = group.event(now), group.state
    events = [
        MemberRemoved(**fields, state=state, member=why.member, cause=why.cause, was_pending=False)
        for why in leaving.values()
        if why.member is not None
    ]
    first = next(iter(leaving.values()))
    append_downgrade(
        shard,
        group,
        [
            (member, group.targets.get(member_id, frozenset()))
            for member_id, member in group.members.items()
            if member_id not in leaving
        ],
        group.tombstones(),
        now,
        step,
        rebalance=Trigger(
            cause=first.cause, detail=f"{first.detail}, and the group became classic", member=first.member
        ),
        events=events,
        written=written,
        failed=failed,
    )


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


def join_expired(shard: Shard, group: ConsumerGroup, member_id: str, now: Now, step: Step) -> None:
    """A member of the classic protocol was told to join again, and has not."""
    detail = f"removing member {member_id}, which has not joined again within the rebalance timeout"
    _remove(shard, group, member_id, "join", Cause.REBALANCE_TIMEOUT, detail, now, step)


def sync_expired(shard: Shard, group: ConsumerGroup, member_id: str, now: Now, step: Step) -> None:
    """A member of the classic protocol has joined, and has not asked for its assignment."""
    detail = f"removing member {member_id}, which has not sent its SyncGroup within the rebalance timeout"
    _remove(shard, group, member_id, "sync", Cause.SYNC_TIMEOUT, detail, now, step)


def _remove(
    shard: Shard, group: ConsumerGroup, member_id: str, timer: str, cause: Cause, detail: str, now: Now, step: Step
) -> None:
    leaving = {member_id: Trigger(cause=cause, detail=detail, member=group.members[member_id].ref())}

    def written(step: Step) -> None:
        pass

    def failed(error: ErrorCode, step: Step) -> None:
        shard.deadlines.set((timer, group.group_id, member_id), now.mono_ms + _RETRY_MS)

    try:
        remove_members(shard, group, leaving, now, step, written=written, failed=failed)
    except KafkaError as error:  # nobody could be answered: it is tried again, as what could not be written
        failed(error.code, step)
