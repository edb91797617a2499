"""The APIs of streams groups that the group coordinator answers by itself."""

from __future__ import annotations

from kshim.broker.features import STREAMS_VERSION
from kshim.broker.relay import relay
from kshim.broker.request import needs_feature
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

HANDLERS = (
    needs_feature(STREAMS_VERSION)(
        relay(OFFSETS_TOPIC, StreamsGroupDescribeRequest, GroupCoordinator.streams_group_describe)
    ),
)
