"""CreatePartitions: raise the number of partitions of topics; none is ever taken away."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.partitions.partition import INTERNAL_TOPICS
from kshim.partitions.topic_validator import MAX_PARTITIONS_PER_REQUEST, check_assignment
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(CreatePartitionsRequest)
def create_partitions(node: Node, request: CreatePartitionsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """Grow the topics and answer in the order of the request; a topic given twice is refused once.

    Groups notice by themselves: their leader reads Metadata and joins again. Differs from Kafka on purpose:
    `__consumer_offsets` cannot grow (INVALID_PARTITIONS); in Kafka that moves groups away from their offsets.
    """
    counts = Counter(topic.name for topic in request.topics)
    if _added_in_all(node, request, counts) > MAX_PARTITIONS_PER_REQUEST:
        reason = f"a request adds at most {MAX_PARTITIONS_PER_REQUEST} partitions"
        return answered(ticket, request.error_response(ErrorCode.POLICY_VIOLATION, context.api_version, reason))
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if counts[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            _check(node, topic)
            if not request.validate_only:
                _grow(node, topic, request)
            results.append(CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.NONE))
        except KafkaError as error:
            results.append(
                CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            )
    return answered(ticket, CreatePartitionsResponse(results=tuple(results)))


def _added_in_all(node: Node, request: CreatePartitionsRequest, counts: Counter[str]) -> int:
    single = [topic for topic in request.topics if counts[topic.name] == 1 and topic.name in node.cluster.topics]
    return sum(max(0, topic.count - (node.cluster.topics.partition_count(topic.name) or 0)) for topic in single)


def _check(node: Node, wanted: CreatePartitionsTopic) -> None:
    """Raises KafkaError."""
    topic = node.cluster.topics.named(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    additional = wanted.count - len(topic.partitions)
    if additional <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"the topic {wanted.name} currently has {len(topic.partitions)} partition(s); {wanted.count} would not be an increase",
        )
    if topic.name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"the number of partitions of {topic.name} cannot be changed")
    if wanted.assignments is None:
        return
    if len(wanted.assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{additional} partition(s) would be added, but {len(wanted.assignments)} assignment(s) were specified",
        )
    node_ids = [other.node_id for other in node.cluster.nodes]
    for assignment in wanted.assignments:
        check_assignment(assignment.broker_ids, node_ids)
        if len(assignment.broker_ids) > 1:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the partitions of this topic must have one replica")


def _grow(node: Node, wanted: CreatePartitionsTopic, request: CreatePartitionsRequest) -> None:
    """Raises KafkaError KAFKA_STORAGE_ERROR."""
    topic = node.cluster.topics.named(wanted.name)
    assert topic is not None
    try:
        leader_ids = wanted.assignments and [assignment.broker_ids[0] for assignment in wanted.assignments]
        node.cluster.topics.grow(topic, wanted.count, leader_ids or None)
    except LogError as error:
        node.cluster.report(error, request)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
