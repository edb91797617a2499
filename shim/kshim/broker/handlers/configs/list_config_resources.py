"""ListConfigResources: what has a configuration, or could have one (KIP-1142)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kshim.broker.alter_configs.kinds import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


_KINDS = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)


@handles(ListConfigResourcesRequest)
def list_config_resources(
    node: Node, request: ListConfigResourcesRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """All topics and brokers, and the groups and subscriptions for which something is set; v0 only the latter."""
    kinds: Iterable[int] = (CLIENT_METRICS,)
    if context.api_version >= 1:
        if not set(request.resource_types) <= set(_KINDS):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        kinds = [kind for kind in _KINDS if kind in request.resource_types or not request.resource_types]
    return answered(
        ticket,
        ListConfigResourcesResponse(
            error_code=ErrorCode.NONE,
            config_resources=tuple(
                ConfigResource(resource_name=name, resource_type=kind) for kind in kinds for name in _names(node, kind)
            ),
        ),
    )


def _names(node: Node, kind: int) -> Iterable[str]:
    cluster = node.cluster
    if kind == TOPIC:
        return [topic.name for topic in cluster.topics]
    if kind == GROUP:
        return cluster.dynamic_configs.names("groups")
    if kind == CLIENT_METRICS:
        return cluster.dynamic_configs.names("clientMetrics")
    return [str(other.node_id) for other in cluster.nodes]
