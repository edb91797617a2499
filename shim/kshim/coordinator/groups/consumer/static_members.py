"""Who may join: whether there is room, and, of static members, who owns a group instance id, and how another process takes it over.

Source: Kafka's GroupMetadataManager.getOrMaybeSubscribeStaticConsumerMember; KIP-345, KIP-848.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kshim.coordinator.groups.consumer.group import LEFT_FOR_NOW_EPOCH, ConsumerGroup
from kshim.coordinator.groups.consumer.plan import Plan
from kshim.coordinator.groups.events import Cause, Trigger
from kshim.coordinator.groups.shard import Shard
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.consumer_group import ConsumerGroupMemberMetadataValue
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def require_room(shard: Shard, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    """Raises KafkaError: GROUP_MAX_SIZE_REACHED, unless the member is in the group or takes a place there."""
    max_size = shard.config.group_consumer_max_size
    if instance_id in group.static_members or member_id in group.members or len(group.members) < max_size:
        return
    raise KafkaError(
        ErrorCode.GROUP_MAX_SIZE_REACHED, f"The consumer group has reached its maximum capacity of {max_size} members."
    )


def require_owner(static_members: Mapping[str, str], instance_id: str, member_id: str) -> None:
    """`static_members` has the member of each instance id.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (another member has the instance id now).
    """
    owner_id = static_members.get(instance_id)
    if owner_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if owner_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {owner_id}.",
        )


def unreleased(instance_id: str, member_id: str, owner_id: str) -> KafkaError:
    """The error of who joins with an instance id that its owner has not left."""
    return KafkaError(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is "
        f"owned by {owner_id} member.",
    )


def take_over_or_join(
    plan: Plan,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    metadata: Callable[[ConsumerGroup], ConsumerGroupMemberMetadataValue],
    trigger: Callable[[Cause], Trigger],
) -> None:
    """A static member joins. What one of its instance id has left for now is its, or has at all if that speaks the classic
    protocol.

    Raises KafkaError: UNRELEASED_INSTANCE_ID as long as that one is there, even if it is the same member.
    """
    group, instance_id = plan.group, request.instance_id
    assert instance_id is not None
    owner_id = group.static_members.get(instance_id)
    if owner_id is None:
        plan.put_member(member_id, metadata(plan.group), trigger(Cause.MEMBER_JOINED))
        return
    owner = group.members[owner_id]
    if owner.current.epoch != LEFT_FOR_NOW_EPOCH and not owner.is_classic:
        raise unreleased(instance_id, member_id, owner_id)
    replaced = trigger(Cause.STATIC_MEMBER_REPLACED)
    plan.take_over(owner_id, member_id, replaced)
    plan.put_member(member_id, metadata(plan.group), replaced)
