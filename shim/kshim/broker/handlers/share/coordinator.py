"""The APIs of share groups that a coordinator answers by itself. Level 0 of share.version switches them off."""

from __future__ import annotations

from typing import Final

from kshim.broker.features import SHARE_VERSION
from kshim.broker.relay import relay, relay_of_member
from kshim.broker.request import Handler, needs_feature
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.share_state.coordinator import ShareStateCoordinator
from kshim.coordinator.step import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from kshim_protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kshim_protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kshim_protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kshim_protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kshim_protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from kshim_protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kshim_protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kshim_protocol.messages.write_share_group_state import WriteShareGroupStateRequest

_States = ShareStateCoordinator

# fmt: off
_RELAYS: Final[tuple[Handler, ...]] = (
    relay_of_member(OFFSETS_TOPIC, ShareGroupHeartbeatRequest,  GroupCoordinator.share_group_heartbeat),
    relay(OFFSETS_TOPIC,     ShareGroupDescribeRequest,         GroupCoordinator.share_group_describe),
    relay(OFFSETS_TOPIC,     AlterShareGroupOffsetsRequest,     GroupCoordinator.alter_share_group_offsets),
    relay(OFFSETS_TOPIC,     DeleteShareGroupOffsetsRequest,    GroupCoordinator.delete_share_group_offsets),
    relay(SHARE_STATE_TOPIC, InitializeShareGroupStateRequest,  _States.initialize_share_group_state),
    relay(SHARE_STATE_TOPIC, ReadShareGroupStateRequest,        _States.read_share_group_state),
    relay(SHARE_STATE_TOPIC, WriteShareGroupStateRequest,       _States.write_share_group_state),
    relay(SHARE_STATE_TOPIC, DeleteShareGroupStateRequest,      _States.delete_share_group_state),
    relay(SHARE_STATE_TOPIC, ReadShareGroupStateSummaryRequest, _States.read_share_group_state_summary),
)
# fmt: on
HANDLERS = tuple(map(needs_feature(SHARE_VERSION), _RELAYS))
