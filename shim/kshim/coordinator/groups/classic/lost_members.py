"""Members that were removed because nothing was heard of them, and whose processes are still there."""

from __future__ import annotations

from kshim.coordinator.groups.epoch_report import ref_of
from kshim.coordinator.groups.events import MemberRefused
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import RequestContext, Step
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.offset_commit import OffsetCommitRequest
from kshim_protocol.messages.sync_group import SyncGroupRequest


def tell_if_lost(
    shard: Shard,
    request: HeartbeatRequest | OffsetCommitRequest | SyncGroupRequest,
    error: KafkaError,
    context: RequestContext,
    step: Step,
) -> None:
    """A request of a member was refused. If it was lost, and this is the first that is heard of it since, say so."""
    group = shard.classic_groups.get(request.group_id) if error.code is ErrorCode.UNKNOWN_MEMBER_ID else None
    if group is not None and group.hears_again_of(request.member_id):
        member = ref_of(request.member_id, request.group_instance_id, context)
        fields = group.event(context.now)
        step.events.append(MemberRefused(**fields, state=group.state, member=member, error=error.code, detail=""))
