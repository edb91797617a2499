"""DescribeGroups: state, members and assignments.

Source: Kafka's GroupMetadataManager.describeGroups.
"""

from __future__ import annotations

from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.classic.member import Member
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.runtime import FindShard
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_GROUP_ID_NOT_FOUND_SINCE = 6
NOT_ASKED = -2147483648
ALL_OPERATIONS = 3400
"""What Kafka answers without access control: every operation that exists for groups, as bits."""


def describe_groups(
    find_shard: FindShard[Shard], request: DescribeGroupsRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """One entry a group, each with its own error; a group that does not exist, or is not classic, is Dead."""
    groups = tuple(_describe(find_shard, group_id, request, context) for group_id in request.groups)
    step.reply(ticket, DescribeGroupsResponse(groups=groups))


def _describe(
    find_shard: FindShard[Shard], group_id: str, request: DescribeGroupsRequest, context: RequestContext
) -> DescribedGroup:
    try:
        shard = find_shard(group_id)
        shard.require_loaded()
    except KafkaError as error:
        return _without_group(group_id, error.code, "")
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    group = shard.classic_groups.get(group_id)
    if group is None:
        if context.api_version >= _GROUP_ID_NOT_FOUND_SINCE:
            is_other = group_id in shard.groups
            message = f"Group {group_id} is not a classic group." if is_other else f"Group {group_id} not found."
            return _without_group(group_id, ErrorCode.GROUP_ID_NOT_FOUND, str(GroupState.DEAD), message=message)
        return _without_group(group_id, ErrorCode.NONE, str(GroupState.DEAD), operations=operations)
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=str(group.state),
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=tuple(_member(group, member) for member in group.members.values()),
        authorized_operations=operations,
    )


def _without_group(
    group_id: str, error: ErrorCode, state: str, *, message: str | None = None, operations: int = NOT_ASKED
) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=operations,
    )


def _member(group: Group, member: Member) -> DescribedGroupMember:
    """Metadata shows only in Stable; the assignment is shown as it is stored, stale or not."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=group.chosen_metadata(member) if group.state is GroupState.STABLE else b"",
        member_assignment=member.assignment,
    )
