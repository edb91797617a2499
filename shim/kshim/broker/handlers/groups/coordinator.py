"""The APIs that the group coordinator answers by itself."""

from __future__ import annotations

from kshim.broker.relay import relay
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest
from kshim_protocol.messages.leave_group import LeaveGroupRequest
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.offset_commit import OffsetCommitRequest
from kshim_protocol.messages.offset_delete import OffsetDeleteRequest
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest
from kshim_protocol.messages.sync_group import SyncGroupRequest

# fmt: off
HANDLERS = (
    relay(OFFSETS_TOPIC, HeartbeatRequest,      GroupCoordinator.heartbeat),
    relay(OFFSETS_TOPIC, JoinGroupRequest,      GroupCoordinator.join_group),
    relay(OFFSETS_TOPIC, SyncGroupRequest,      GroupCoordinator.sync_group),
    relay(OFFSETS_TOPIC, LeaveGroupRequest,     GroupCoordinator.leave_group),
    relay(OFFSETS_TOPIC, OffsetCommitRequest,   GroupCoordinator.offset_commit),
    relay(OFFSETS_TOPIC, OffsetFetchRequest,    GroupCoordinator.offset_fetch),
    relay(OFFSETS_TOPIC, OffsetDeleteRequest,   GroupCoordinator.offset_delete),
    relay(OFFSETS_TOPIC, DescribeGroupsRequest, GroupCoordinator.describe_groups),
    relay(OFFSETS_TOPIC, ListGroupsRequest,     GroupCoordinator.list_groups),
    relay(OFFSETS_TOPIC, DeleteGroupsRequest,   GroupCoordinator.delete_groups),
)
# fmt: on
