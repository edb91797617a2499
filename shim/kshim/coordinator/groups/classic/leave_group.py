"""LeaveGroup: members go, or an administrator removes static ones.

Source: Kafka's classicGroupLeaveToClassicGroup.
"""

from __future__ import annotations

from collections.abc import Sequence

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.classic.rebalance import rebalance_or_complete_join, remove_member, remove_pending
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer import classic_members
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.events import Cause, MemberRef, Trigger
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_MANY_MEMBERS_SINCE = 3


def leave_group(shard: Shard, request: LeaveGroupRequest, context: RequestContext, ticket: Ticket, step: Step) -> None:
    """Remove each member named; the group reacts once, after all of them.

    From v3 on each entry has its own error and the whole request none; before, the one member's error is the answer.
    Raises KafkaError: INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS.
    """
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    shard.require_loaded()
    has_many = context.api_version >= _MANY_MEMBERS_SINCE
    leaving = request.members if has_many else (MemberIdentity(member_id=request.member_id),)
    group = shard.classic_groups.get(request.group_id)
    if isinstance(shard.groups.get(request.group_id), ConsumerGroup):
        _leave_consumer_group(shard, request, leaving, context, ticket, step)
        return
    gone: list[MemberRef] = []
    errors = [
        ErrorCode.UNKNOWN_MEMBER_ID if group is None else _leave(shard, group, entry, gone, context.now, step)
        for entry in leaving
    ]
    response = _response(leaving, errors) if has_many else LeaveGroupResponse(error_code=errors[0])
    if group is not None and gone and group.state is not GroupState.EMPTY:
        _react(shard, group, gone, context.now, step)
    if not step.appends:
        step.reply(ticket, response)
        return

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(append_error(error), context.api_version))

    # The group is empty now: the answer says whether that was written.
    step.appends[-1].then(lambda step: step.reply(ticket, response), failed)


def _leave_consumer_group(
    shard: Shard,
    request: LeaveGroupRequest,
    leaving: Sequence[MemberIdentity],
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """The same in a group of the new protocol."""

    def answered(errors: Sequence[ErrorCode], step: Step) -> None:
        has_many = context.api_version >= _MANY_MEMBERS_SINCE
        step.reply(ticket, _response(leaving, errors) if has_many else LeaveGroupResponse(error_code=errors[0]))

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(append_error(error), context.api_version))

    group = shard.consumer_group(request.group_id)
    classic_members.leave(shard, group, leaving, context.now, step, answered=answered, failed=failed)


def _leave(shard: Shard, group: Group, entry: MemberIdentity, gone: list[MemberRef], now: Now, step: Step) -> ErrorCode:
    """Remove one member or issued id; adds it to `gone`."""
    member_id, instance_id = entry.member_id, entry.group_instance_id
    if member_id in group.pending_joins:
        gone.append(remove_pending(shard, group, member_id, Cause.MEMBER_LEFT, now, step, client_reason=entry.reason))
        return ErrorCode.NONE
    is_by_instance_id = member_id == "" and instance_id is not None  # an administrator's request
    if is_by_instance_id:
        assert instance_id is not None
        member_id = group.static_members.get(instance_id, "")
    try:
        member = group.require_member(member_id, instance_id)
    except KafkaError as error:
        return error.code
    remove_member(
        shard,
        group,
        member,
        Cause.MEMBER_LEFT,
        now,
        step,
        client_reason=entry.reason,
        is_by_instance_id=is_by_instance_id,
    )
    gone.append(member.ref(entry.reason))
    return ErrorCode.NONE


def _react(shard: Shard, group: Group, gone: list[MemberRef], now: Now, step: Step) -> None:
    names = ", ".join(ref.member_id for ref in gone)
    reason = gone[0].client_reason or "not provided"
    trigger = Trigger(
        cause=Cause.MEMBER_LEFT,
        detail=f"explicit `LeaveGroup` request for ({names}); client reason: {reason}",
        member=gone[0],
    )
    rebalance_or_complete_join(shard, group, trigger, now, step)


def _response(leaving: Sequence[MemberIdentity], errors: Sequence[ErrorCode]) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=tuple(
            MemberResponse(member_id=entry.member_id, group_instance_id=entry.group_instance_id, error_code=error)
            for entry, error in zip(leaving, errors, strict=True)
        ),
    )
