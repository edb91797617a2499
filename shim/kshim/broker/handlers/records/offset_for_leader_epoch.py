"""OffsetForLeaderEpoch: where a leader's epoch ended, so that a consumer can detect truncation."""

from __future__ import annotations

from kshim.broker.leader_checks import check_leader
from kshim.broker.node import Node
from kshim.broker.request import PendingReply, answered, handles
from kshim.coordinator.step import RequestContext, Step
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@handles(OffsetForLeaderEpochRequest)
def offset_for_leader_epoch(
    node: Node, request: OffsetForLeaderEpochRequest, context: RequestContext, ticket: PendingReply
) -> Step:
    """Answer each partition with the end of the epoch asked for (KIP-101, KIP-320).

    An epoch ends where the next one begins, the newest at the end of the log. Of one in which nothing was written the one
    before is told. A later one is unknown: epoch -1, offset -1, no error.
    """
    topics = tuple(
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple(_answer(node, request, topic.topic, wanted) for wanted in topic.partitions),
        )
        for topic in request.topics
    )
    return answered(ticket, OffsetForLeaderEpochResponse(topics=topics))


def _answer(
    node: Node, request: OffsetForLeaderEpochRequest, topic: str, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    try:
        epoch, end_offset = _end_of_epoch(node, topic, wanted)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    except LogError as error:
        node.cluster.report(error, request)
        return EpochEndOffset(error_code=ErrorCode.KAFKA_STORAGE_ERROR, partition=wanted.partition)
    return EpochEndOffset(
        error_code=ErrorCode.NONE, partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset
    )


def _end_of_epoch(node: Node, topic: str, wanted: OffsetForLeaderPartition) -> tuple[int, int]:
    """Raises KafkaError, LogError."""
    partition = node.cluster.topics.partition(topic, wanted.partition)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    check_leader(node, partition, wanted.current_leader_epoch)
    return partition.end_of_epoch(wanted.leader_epoch)
