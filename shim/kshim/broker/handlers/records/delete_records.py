"""DeleteRecords: move the start of partitions up (KIP-107)."""

from __future__ import annotations

from kshim.broker.node import Node
from kshim.broker.request import PendingReply, answered, handles
from kshim.coordinator.step import RequestContext, Step
from kshim.partitions.cleaner_config import CleanerConfig
from kshim.partitions.partition import INTERNAL_TOPICS
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_HIGH_WATERMARK = -1


@handles(DeleteRecordsRequest)
def delete_records(node: Node, request: DeleteRecordsRequest, context: RequestContext, ticket: PendingReply) -> Step:
    """Delete what lies before an offset and answer with the partition's first offset (-1 with an error).

    There is one replica, so nothing is waited for. An offset below the start changes nothing. Topics that are only
    compacted keep their records. Kafka: ReplicaManager.deleteRecordsOnLocalLog; outcomes checked live on 4.4.
    """
    topics = tuple(
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(
                _answer(node, request, topic.name, index, offset)
                # Of a partition that is named twice the last offset counts, as in Kafka.
                for index, offset in {each.partition_index: each.offset for each in topic.partitions}.items()
            ),
        )
        for topic in request.topics
    )
    return answered(ticket, DeleteRecordsResponse(topics=topics))


def _answer(
    node: Node, request: DeleteRecordsRequest, topic: str, index: int, offset: int
) -> DeleteRecordsPartitionResult:
    low_watermark, error_code = -1, ErrorCode.NONE
    try:
        low_watermark = _deleted(node, topic, index, offset)
    except KafkaError as error:
        error_code = error.code
    except LogError as error:
        node.cluster.report(error, request)
        error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=error_code)


def _deleted(node: Node, topic: str, index: int, offset: int) -> int:
    """The first offset left. Raises KafkaError, LogError."""
    cluster = node.cluster
    partition = cluster.topics.partition(topic, index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not node.leads(partition):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if not CleanerConfig(cluster.config, partition.topic).deletes:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    high_watermark = partition.high_watermark
    if offset == _HIGH_WATERMARK:
        offset = high_watermark
    if not 0 <= offset <= high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if offset > partition.log.start_offset:
        partition.delete_before(offset)
    return partition.log.start_offset
