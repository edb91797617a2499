"""ListOffsets: the offsets at both ends of a partition, or the first one at a time."""

from __future__ import annotations

from kshim.broker.leader_checks import check_leader
from kshim.broker.node import Node
from kshim.broker.request import PendingReply, answered, handles
from kshim.coordinator.step import RequestContext, Step
from kshim.partitions.partition import Partition
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.frame import ProtocolError
from kshim_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from kshim_protocol.records.compression import CompressionUnavailableError

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_NEVER = 1 << 15
_LEADER_EPOCH_FROM = 4
_NOTHING = (-1, -1)


@handles(ListOffsetsRequest)
def list_offsets(node: Node, request: ListOffsetsRequest, context: RequestContext, ticket: PendingReply) -> Step:
    """Answer each partition with an offset and, for look-ups, the timestamp of the record there.

    Below 0 a timestamp is a name (KIP-79, 734, 405, 1005, 1023); all others ask for the first record that is not
    older. Without tiered storage the local start is the start and nothing was or will be uploaded.
    Raises KafkaError UNKNOWN_SERVER_ERROR for an isolation level that does not exist.
    """
    if request.isolation_level not in (0, 1):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown isolation level {request.isolation_level}")
    topics = tuple(
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(_answers(node, request, topic, context.api_version)),
        )
        for topic in request.topics
    )
    return answered(ticket, ListOffsetsResponse(topics=topics))


def _answers(
    node: Node, request: ListOffsetsRequest, topic: ListOffsetsTopic, version: int
) -> list[ListOffsetsPartitionResponse]:
    indexes = [wanted.partition_index for wanted in topic.partitions]
    repeated = {index for index in indexes if indexes.count(index) > 1} if len(set(indexes)) < len(indexes) else set()
    answers = [
        _answer(node, request, topic.name, wanted, version)
        for wanted in topic.partitions
        if wanted.partition_index not in repeated
    ]
    answers += [
        ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.INVALID_REQUEST)
        for index in sorted(repeated)
    ]
    return answers


def _answer(
    node: Node, request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition, version: int
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    try:
        if wanted.timestamp < 0 and version < _SINCE_VERSION.get(wanted.timestamp, _NEVER):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partition = node.cluster.topics.partition(topic, index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        check_leader(node, partition, wanted.current_leader_epoch)
        end_offset = partition.last_stable_offset if request.isolation_level else partition.high_watermark
        offset, timestamp_ms = _found(partition, wanted.timestamp, end_offset)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
    except LogError as error:
        node.cluster.report(error, request)
        return ListOffsetsPartitionResponse(partition_index=index, error_code=_code_of(error))
    return ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        timestamp=timestamp_ms,
        offset=offset,
        leader_epoch=partition.epoch_at(offset) if offset >= 0 and version >= _LEADER_EPOCH_FROM else -1,
    )


def _found(partition: Partition, timestamp: int, end_offset: int) -> tuple[int, int]:
    """(offset, timestamp in ms), -1 each where there is none below `end_offset`. Raises LogError."""
    log = partition.log
    if timestamp >= 0:
        return _if_readable(log.offset_for_timestamp(timestamp), end_offset)
    if timestamp == LATEST:
        return end_offset, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1
    if timestamp == MAX_TIMESTAMP:
        return _if_readable(log.max_timestamp(), end_offset)
    return _NOTHING


def _if_readable(found: tuple[int, int] | None, end_offset: int) -> tuple[int, int]:
    """Kafka, too, finds no record behind the end, though an earlier one might do."""
    return _NOTHING if found is None or found[0] >= end_offset else found


def _code_of(error: LogError) -> ErrorCode:
    """Files may be better next time; a batch that cannot be decoded never will, so that is no retriable error."""
    match error.__cause__:
        case CompressionUnavailableError():
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        case ProtocolError():
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            return ErrorCode.KAFKA_STORAGE_ERROR
