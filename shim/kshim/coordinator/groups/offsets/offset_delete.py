"""OffsetDelete: remove committed offsets of a group that are not in use.

Source: Kafka's KafkaApis.handleOffsetDeleteRequest and OffsetMetadataManager.deleteOffsets.
"""

from __future__ import annotations

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.kinds import CONSUMER_PROTOCOL_TYPE, AnyGroup, GroupKind, Pair
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.records import build_offset_commit_key
from kshim_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(
    shard: Shard, request: OffsetDeleteRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Write a tombstone for each offset that is there; offsets that are not there are no error.

    Raises KafkaError: INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    shard.require_loaded()
    group = shard.groups.get(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    knows_its_topics = group.kind is GroupKind.STREAMS or group.protocol_type == CONSUMER_PROTOCOL_TYPE
    if not group.is_empty and not knows_its_topics:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    deleted: list[tuple[str, int]] = []
    response = OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    _delete(shard, group, topic.name, partition.partition_index, deleted)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
            if topic.partitions or shard.topics.partition_count(topic.name) is None  # as Kafka, oddly
        ),
    )
    if not deleted:
        step.reply(ticket, response)
        return

    def written(_base_offset: int, step: Step) -> None:
        for topic, partition in deleted:
            shard.forget_offset(group.group_id, topic, partition)
        step.reply(ticket, response)

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(append_error(error), context.api_version))

    pairs: list[Pair] = [(build_offset_commit_key(group.group_id, *partition), None) for partition in deleted]
    shard.append(step, pairs, context.now, written=written, failed=failed)


def _delete(
    shard: Shard, group: AnyGroup, topic: str, index: int, deleted: list[tuple[str, int]]
) -> OffsetDeleteResponsePartition:
    """Check one partition; adds it to `deleted` when there is something to delete."""
    error = ErrorCode.NONE
    if not 0 <= index < (shard.topics.partition_count(topic) or 0):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif group.is_subscribed_to(topic):
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    elif (
        shard.offsets.get(group.group_id, topic, index) is not None
        or shard.offsets.has_pending(group.group_id, topic, index)
    ) and (topic, index) not in deleted:
        deleted.append((topic, index))
    return OffsetDeleteResponsePartition(partition_index=index, error_code=error)
