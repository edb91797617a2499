"""DescribeCluster: brokers, controller and cluster id, for admin clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from kshim.broker.request import PendingReply, answered, handles
from kshim.coordinator.step import RequestContext, Step
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from kshim.broker.leader_election import ClusterNode
    from kshim.broker.node import Node


BROKERS, CONTROLLERS = 1, 2


@handles(DescribeClusterRequest)
def describe_cluster(
    node: Node, request: DescribeClusterRequest, context: RequestContext, ticket: PendingReply
) -> Step:
    """Describe the brokers; this listener speaks for no controllers (endpoint type 2), as Kafka's broker listeners."""
    if request.endpoint_type != BROKERS:
        if request.endpoint_type == CONTROLLERS:
            error, reason = ErrorCode.MISMATCHED_ENDPOINT_TYPE, "the request was sent to a broker, not to a controller"
        else:
            error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            reason = f"there is no endpoint type {request.endpoint_type}"
        return answered(ticket, request.error_response(error, context.api_version, reason))
    return answered(
        ticket,
        DescribeClusterResponse(
            error_code=ErrorCode.NONE,
            cluster_id=node.cluster.cluster_id,
            controller_id=node.cluster.leadership.controller_id,
            brokers=tuple(_broker(other, ticket.connection.listener_name) for other in node.cluster.nodes),
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
            ),
        ),
    )


def _broker(node: ClusterNode, listener_name: str) -> DescribeClusterBroker:
    host, port = node.address(listener_name)
    return DescribeClusterBroker(broker_id=node.node_id, host=host, port=port, rack=node.rack)
