"""The classic APIs, where a group is one of the new protocol.

Members of the classic protocol in such a group are to come; what is here is LeaveGroup, by which administrators remove
members of any kind. Source: Kafka's GroupMetadataManager.classicGroupLeaveToConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kshim.coordinator.groups.consumer.append_plan import append_plan
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.consumer.plan import Plan
from kshim.coordinator.groups.consumer.static_members import require_owner
from kshim.coordinator.groups.events import Cause, Trigger
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.leave_group import MemberIdentity


def leave(
    shard: Shard,
    group: ConsumerGroup,
    leaving: Sequence[MemberIdentity],
    now: Now,
    step: Step,
    *,
    answered: Callable[[Sequence[ErrorCode], Step], None],
    failed: Callable[[ErrorCode, Step], None],
) -> None:
    """Remove each member named, with one new epoch; `answered` gets the error of each."""
    plan = Plan(group, shard.hash_of_topics)
    errors = [_leave(plan, entry) for entry in leaving]
    if plan.updates:
        append_plan(shard, plan, now, step, written=lambda step: answered(errors, step), failed=failed)
    else:
        answered(errors, step)


def _leave(plan: Plan, entry: MemberIdentity) -> ErrorCode:
    group, member_id, instance_id = plan.group, entry.member_id, entry.group_instance_id
    try:
        if instance_id is not None:
            member_id = member_id or group.static_members.get(instance_id, "")
            require_owner(group, instance_id, member_id)
        member = group.require_member(member_id)
    except KafkaError as error:
        return error.code
    reason = entry.reason or "not provided"
    detail = f"explicit `LeaveGroup` request for ({member_id}); client reason: {reason}"
    plan.remove_member(member_id, Trigger(cause=Cause.MEMBER_LEFT, detail=detail, member=member.ref(entry.reason)))
    return ErrorCode.NONE
