"""DescribeProducers: the producers of partitions, and where open transactions begin (KIP-664)."""

from __future__ import annotations

from kshim.broker.node import Node
from kshim.broker.request import PendingReply, answered, handles
from kshim.coordinator.step import RequestContext, Step
from kshim.partitions.topic_validator import check_name
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from kshim_protocol.messages.describe_producers import (
    ProducerState as ActiveProducer,
)


@handles(DescribeProducersRequest)
def describe_producers(
    node: Node, request: DescribeProducersRequest, context: RequestContext, ticket: PendingReply
) -> Step:
    """List what each partition knows of its producers, by producer id."""
    topics = tuple(
        TopicResponse(
            name=topic.name,
            partitions=tuple(_answer(node, request, topic.name, index) for index in topic.partition_indexes),
        )
        for topic in request.topics
    )
    return answered(ticket, DescribeProducersResponse(topics=topics))


def _answer(node: Node, request: DescribeProducersRequest, topic: str, index: int) -> PartitionResponse:
    message = None
    try:
        producers = _producers(node, topic, index)
    except KafkaError as error:
        code, message = error.code, error.message
    except LogError as error:
        node.cluster.report(error, request)
        code, message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    else:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.NONE, active_producers=producers)
    return PartitionResponse(partition_index=index, error_code=code, error_message=message, active_producers=())


def _producers(node: Node, topic: str, index: int) -> tuple[ActiveProducer, ...]:
    """Raises KafkaError, LogError."""
    partition = node.cluster.topics.partition(topic, index)
    if partition is None:
        check_name(topic)
        message = None if topic in node.cluster.topics else "there is no such topic here"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if not node.leads(partition):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return tuple(
        ActiveProducer(
            producer_id=entry.producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp_ms,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.first_offset,
        )
        for entry in sorted(partition.require_producers(), key=lambda entry: entry.producer_id)
    )
