"""StreamsGroupHeartbeat: the names of topics are looked at here, all else by the group coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.features import STREAMS_VERSION
from kshim.broker.relay import relay_of_member
from kshim.broker.request import PendingReply, handles, needs_feature
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.groups.streams.topology import require_permitted_names
from kshim.coordinator.groups.streams.updates import topology_of
from kshim.coordinator.step import OFFSETS_TOPIC, RequestContext, Step
from kshim.partitions.partition import INTERNAL_TOPICS
from kshim.partitions.topic_validator import name_problem
from kshim_protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node

_relay = relay_of_member(OFFSETS_TOPIC, StreamsGroupHeartbeatRequest, GroupCoordinator.streams_group_heartbeat)


def check_names(request: StreamsGroupHeartbeatRequest) -> tuple[str, ...]:
    """All topics that the topology of a request names. Raises KafkaError: STREAMS_INVALID_TOPOLOGY."""
    if request.topology is None:
        return ()
    topology = topology_of(request.topology)
    require_permitted_names(topology, INTERNAL_TOPICS, name_problem)
    return topology.named_topics()


@needs_feature(STREAMS_VERSION)
@handles(StreamsGroupHeartbeatRequest)
def streams_group_heartbeat(
    node: Node, request: StreamsGroupHeartbeatRequest, context: RequestContext, ticket: PendingReply
) -> Step:
    """Raises KafkaError: STREAMS_INVALID_TOPOLOGY."""
    check_names(request)
    return _relay(node, request, context, ticket)


HANDLERS = (streams_group_heartbeat,)
