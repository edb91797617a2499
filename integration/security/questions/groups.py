"""Groups: members, lists."""

from __future__ import annotations

from collections.abc import Mapping

from integration.security.questions.things import GROUPS, NO_MEMBER, TRANSACTIONAL_IDS, Rows
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.sync_group import SyncGroupRequest


def memberships(ids: Mapping[str, bytes]) -> Rows:
    for group_id in GROUPS:
        yield (
            f"JoinGroup {group_id}",
            GroupMember(group_id, NO_MEMBER).join(
                9, [("range", b"")], session_timeout_ms=10_000, rebalance_timeout_ms=10_000
            ),
            9,
        )
        yield (
            f"SyncGroup {group_id}",
            SyncGroupRequest(group_id=group_id, generation_id=1, member_id=NO_MEMBER, assignments=()),
            5,
        )
        yield (
            f"SyncGroup with a protocol {group_id}",
            SyncGroupRequest(
                group_id=group_id,
                generation_id=1,
                member_id=NO_MEMBER,
                protocol_type="consumer",
                protocol_name="range",
                assignments=(),
            ),
            5,
        )
        yield f"Heartbeat {group_id}", HeartbeatRequest(group_id=group_id, generation_id=1, member_id=NO_MEMBER), 4
        yield (
            f"LeaveGroup {group_id}",
            LeaveGroupRequest(group_id=group_id, members=(MemberIdentity(member_id=NO_MEMBER),)),
            5,
        )


def listing_groups(ids: Mapping[str, bytes]) -> Rows:
    described = (*GROUPS, "group-missing")
    yield "DescribeGroups", DescribeGroupsRequest(groups=described, include_authorized_operations=True), 5
    yield "DescribeGroups", DescribeGroupsRequest(groups=described, include_authorized_operations=True), 6
    yield "ListGroups", ListGroupsRequest(), 4
    yield "DeleteGroups", DeleteGroupsRequest(groups_names=("group-missing", "nothing")), 2
    for kind, keys in ((0, GROUPS), (1, TRANSACTIONAL_IDS)):
        yield f"FindCoordinator of type {kind}", FindCoordinatorRequest(key_type=kind, coordinator_keys=keys), 4
        yield f"FindCoordinator of type {kind}", FindCoordinatorRequest(key_type=kind, key=keys[0]), 2
