"""Heartbeat: keep a member's session alive and inform it of a rebalance.

Source: Kafka's classicGroupHeartbeatToClassicGroup.
"""

from __future__ import annotations

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer import classic_members
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

# Shared by all responses, which are never modified.
_NONE = HeartbeatResponse(error_code=ErrorCode.NONE)
_REBALANCE_IN_PROGRESS = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def heartbeat(shard: Shard, request: HeartbeatRequest, now: Now) -> HeartbeatResponse:
    """Restart the member's session. While the shard is being loaded, the response is always NONE.

    CompletingRebalance answers NONE, although a comment in Kafka says otherwise: checked on a live 4.4.
    Raises KafkaError: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    if not request.group_id:  # as a name for offsets it is an ordinary one, so there may be such a group
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    group = shard.classic_groups.get(request.group_id)
    if group is None or shard.is_loading:
        return _without_group(shard, request, now)
    member = group.require_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    match group.state:
        case GroupState.STABLE | GroupState.COMPLETING_REBALANCE:
            response = _NONE
        case GroupState.PREPARING_REBALANCE:
            response = _REBALANCE_IN_PROGRESS
            if group.told_ms is None:
                group.told_ms = {}
            group.told_ms.setdefault(member.member_id, now.mono_ms)
        case GroupState.EMPTY | GroupState.DEAD:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    shard.deadlines.set(member.session_key, now.mono_ms + member.session_timeout_ms)
    return response


def _without_group(shard: Shard, request: HeartbeatRequest, now: Now) -> HeartbeatResponse:
    """Where there is no classic group, or nobody knows yet."""
    if shard.is_loading:
        return _NONE
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return HeartbeatResponse(error_code=classic_members.heartbeat(shard, group, request, now))
    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
