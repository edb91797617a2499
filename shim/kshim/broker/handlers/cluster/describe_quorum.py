"""DescribeQuorum: the controllers, as a Kafka whose brokers are its controllers describes them (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kshim.broker.request import PendingReply, answered, handles
from kshim.coordinator.step import RequestContext, Step
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    PartitionDataResponse,
    ReplicaState,
    TopicDataResponse,
)
from kshim_protocol.messages.describe_quorum import (
    Node as QuorumNode,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node

METADATA_TOPIC: Final = "__cluster_metadata"
_EPOCH: Final = 1
_NODES_SINCE: Final = 2
_RECORD_EVERY_MS: Final = 500
"""What a quorum without changes writes, to show that it lives (`metadata.max.idle.interval.ms`)."""


@handles(DescribeQuorumRequest)
def describe_quorum(node: Node, request: DescribeQuorumRequest, context: RequestContext, ticket: PendingReply) -> Step:
    """All nodes are voters, and none is behind: there is no log that one could be behind of.

    UNKNOWN_TOPIC_OR_PARTITION for all that is asked for, unless that is the one partition of the cluster's metadata.
    """
    if [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in request.topics] != [
        (METADATA_TOPIC, [0])
    ]:
        return answered(ticket, _unknown(request))
    cluster = node.cluster
    end_offset = context.real_ms // _RECORD_EVERY_MS + 1
    now_ms = context.now.wall_ms
    listener_name = ticket.connection.listener_name
    partition = PartitionDataResponse(
        partition_index=0,
        error_code=ErrorCode.NONE,
        leader_id=cluster.leadership.controller_id,
        leader_epoch=_EPOCH,
        high_watermark=end_offset,
        current_voters=tuple(
            ReplicaState(
                replica_id=other.node_id,
                log_end_offset=end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for other in cluster.nodes
        ),
        observers=(),
    )
    nodes = []
    for other in cluster.nodes if context.api_version >= _NODES_SINCE else ():
        host, port = other.address(listener_name)
        nodes.append(QuorumNode(node_id=other.node_id, listeners=(Listener(name=listener_name, host=host, port=port),)))
    topic = TopicDataResponse(topic_name=METADATA_TOPIC, partitions=(partition,))
    return answered(ticket, DescribeQuorumResponse(error_code=ErrorCode.NONE, topics=(topic,), nodes=tuple(nodes)))


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        topics=tuple(
            TopicDataResponse(
                topic_name=topic.topic_name,
                partitions=tuple(
                    PartitionDataResponse(
                        partition_index=one.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        leader_id=0,
                        leader_epoch=0,
                        high_watermark=0,
                        current_voters=(),
                        observers=(),
                    )
                    for one in topic.partitions
                ),
            )
            for topic in request.topics
        ),
        nodes=(),
    )
