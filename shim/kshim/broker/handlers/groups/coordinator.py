"""The APIs that the group coordinator answers by itself."""

from __future__ import annotations

from kshim.broker.features import GROUP_VERSION
from kshim.broker.relay import relay, relay_of_commit, relay_of_member
from kshim.broker.request import needs_feature
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
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

_if_enabled = needs_feature(GROUP_VERSION)

# fmt: off
HANDLERS = (
    relay_of_member(OFFSETS_TOPIC, HeartbeatRequest,    GroupCoordinator.heartbeat),
    relay_of_member(OFFSETS_TOPIC, JoinGroupRequest,    GroupCoordinator.join_group),
    relay_of_member(OFFSETS_TOPIC, SyncGroupRequest,    GroupCoordinator.sync_group),
    relay(OFFSETS_TOPIC, LeaveGroupRequest,             GroupCoordinator.leave_group),
    relay_of_commit(OFFSETS_TOPIC, OffsetCommitRequest, GroupCoordinator.offset_commit),
    relay(OFFSETS_TOPIC, OffsetFetchRequest,            GroupCoordinator.offset_fetch),
    relay(OFFSETS_TOPIC, OffsetDeleteRequest,           GroupCoordinator.offset_delete),
    relay(OFFSETS_TOPIC, DescribeGroupsRequest,         GroupCoordinator.describe_groups),
    relay(OFFSETS_TOPIC, ListGroupsRequest,             GroupCoordinator.list_groups),
    relay(OFFSETS_TOPIC, DeleteGroupsRequest,           GroupCoordinator.delete_groups),
    _if_enabled(
        relay_of_member(
            OFFSETS_TOPIC, ConsumerGroupHeartbeatRequest, GroupCoordinator.consumer_group_heartbeat
        )
    ),
    _if_enabled(relay(OFFSETS_TOPIC, ConsumerGroupDescribeRequest, GroupCoordinator.consumer_group_describe)),
)
# fmt: on
