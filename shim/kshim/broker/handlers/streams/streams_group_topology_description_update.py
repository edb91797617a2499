"""StreamsGroupTopologyDescriptionUpdate: there is no plugin that could keep a description, and no member is asked for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.features import STREAMS_VERSION
from kshim.broker.request import PendingReply, handles, needs_feature
from kshim.coordinator.step import RequestContext, Step
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


@needs_feature(STREAMS_VERSION)
@handles(StreamsGroupTopologyDescriptionUpdateRequest)
def streams_group_topology_description_update(
    node: Node, request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext, ticket: PendingReply
) -> Step:
    """Raises KafkaError: UNSUPPORTED_VERSION, as Kafka without group.streams.topology.description.plugin.class."""
    raise KafkaError(
        ErrorCode.UNSUPPORTED_VERSION, "The broker has no streams group topology description plugin configured."
    )
