"""AlterPartitionReassignments: have partitions led by other nodes (KIP-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(AlterPartitionReassignmentsRequest)
def alter_partition_reassignments(
    node: Node, request: AlterPartitionReassignmentsRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """Move each partition to the one node named, at once: nothing is copied, so none is ever under way.

    A partition has one log, whatever the number of nodes: several replicas are refused with
    INVALID_REPLICA_ASSIGNMENT, or, where the client will have no other replication factor, as Kafka does
    (INVALID_REPLICATION_FACTOR). So is a node that is stopped, for which Kafka would wait. To cancel is an error:
    NO_REASSIGNMENT_IN_PROGRESS. Kafka: ReplicationControlManager.alterPartitionReassignments.
    """
    return answered(
        ticket,
        AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_code=ErrorCode.NONE,
            error_message=None,
            responses=tuple(
                ReassignableTopicResponse(
                    name=topic.name,
                    partitions=tuple(_answer(node, request, topic, wanted) for wanted in topic.partitions),
                )
                for topic in request.topics
            ),
        ),
    )


def _answer(
    node: Node, request: AlterPartitionReassignmentsRequest, topic: ReassignableTopic, wanted: ReassignablePartition
) -> ReassignablePartitionResponse:
    error_code, message = ErrorCode.NONE, None
    try:
        _move(node, request, topic.name, wanted)
    except KafkaError as error:
        error_code, message = error.code, error.message
    except LogError as error:
        node.cluster.report(error, request)
        error_code, message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    return ReassignablePartitionResponse(
        partition_index=wanted.partition_index, error_code=error_code, error_message=message
    )


def _move(node: Node, request: AlterPartitionReassignmentsRequest, topic: str, wanted: ReassignablePartition) -> None:
    """Raises KafkaError, LogError."""
    cluster = node.cluster
    if cluster.topics.partition(topic, wanted.partition_index) is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {topic}-{wanted.partition_index} does not exist"
        )
    if wanted.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    _check(node, request, wanted.replicas)
    cluster.leader_election.move(topic, wanted.partition_index, wanted.replicas[0])


def _check(node: Node, request: AlterPartitionReassignmentsRequest, replicas: tuple[int, ...]) -> None:
    """Raises KafkaError."""
    cluster = node.cluster
    reason = None
    if not replicas:
        reason = "a partition needs a replica"
    elif min(replicas) < 0:
        reason = f"a broker id is not negative: {min(replicas)}"
    elif len(set(replicas)) < len(replicas):
        reason = f"a broker cannot hold a partition twice: {list(replicas)}"
    elif unknown := [broker_id for broker_id in replicas if broker_id not in cluster.known_nodes]:
        reason = f"there is no broker {unknown[0]}"
    elif len(replicas) > 1:
        if not request.allow_replication_factor_change:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"the replication factor cannot be changed from 1 to {len(replicas)}",
            )
        reason = "kshim keeps one log of each partition, for all its nodes: name the one that shall lead"
    elif replicas[0] not in cluster.leadership.live_ids:
        reason = f"broker {replicas[0]} is stopped"
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
