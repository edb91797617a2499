"""OffsetCommit: store the positions of a group.

Source: Kafka's KafkaApis.handleOffsetCommitRequest (topics) and OffsetMetadataManager.commitOffset (group, values).
"""

from __future__ import annotations

from functools import lru_cache

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.kinds import Sender
from kshim.coordinator.groups.offsets.offset_values import NEVER, Errors, OffsetValues
from kshim.coordinator.groups.offsets.requested_topics import (
    RequestedTopic,
    any_exists,
    partitions_to_commit,
    requested_topics,
)
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_TOPIC_ID_SINCE = 10
_GROUP_ID_NOT_FOUND_SINCE = 9
_NO_RETENTION = -1
_LAST_TIMESTAMP_MS = (1 << 63) - 1


_Topics = list[RequestedTopic[OffsetCommitRequestTopic]]


def offset_commit(
    shard: Shard, request: OffsetCommitRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Check topics, then the group, then each value; answer once everything valid is written, as one batch.

    An error of the group is returned for every partition that exists; without any, the group is not checked.
    """
    topics = requested_topics(shard.topics, request.topics, by_id=context.api_version >= _TOPIC_ID_SINCE)
    if any_exists(topics):
        try:
            shard.require_loaded()
            _check_group(shard, request, topics, context)
        except KafkaError as error:
            step.reply(ticket, _response(topics, error.code))
        else:
            _store(shard, request, topics, context.now, ticket, step)
    else:
        step.reply(ticket, _response(topics, ErrorCode.NONE))


# The group


def _check_group(shard: Shard, request: OffsetCommitRequest, topics: _Topics, context: RequestContext) -> None:
    group = shard.groups.get(request.group_id)
    generation_id = request.generation_id_or_member_epoch
    if group is None:
        if generation_id >= 0:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND
                if context.api_version >= _GROUP_ID_NOT_FOUND_SINCE
                else ErrorCode.ILLEGAL_GENERATION
            )
        return
    sender = Sender(
        request.member_id, request.group_instance_id, generation_id, context.api_version, is_transactional=False
    )
    max_size = shard.config.offset_metadata_max_bytes
    group.require_may_commit(sender, lambda: partitions_to_commit(topics, max_size))
    group.has_committed(request.member_id, shard.deadlines, context.now)


# The values


def _store(shard: Shard, request: OffsetCommitRequest, topics: _Topics, now: Now, ticket: Ticket, step: Step) -> None:
    """Have everything valid written; answer then, or at once when nothing is."""
    expire_timestamp_ms = NEVER
    if request.retention_time_ms != _NO_RETENTION:
        # Java's sum would wrap round, and an offset that is to stay for ever would go at once.
        expire_timestamp_ms = min(now.wall_ms + request.retention_time_ms, _LAST_TIMESTAMP_MS)
    values = OffsetValues(shard, request.group_id, now, expire_timestamp_ms=expire_timestamp_ms)
    for topic in topics:
        values.add(topic.name, topic.topic_id, topic.partition_count, topic.requested.partitions)
    errors = values.errors
    if not values.pairs:
        step.reply(ticket, _response(topics, ErrorCode.NONE, errors))
        return

    def written(base_offset: int, step: Step) -> None:
        values.apply(base_offset, shard.put_offset)
        step.reply(ticket, _response(topics, ErrorCode.NONE, errors))

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, _response(topics, append_error(error)))

    shard.append(step, values.pairs, now, written=written, failed=failed)


# The answer


def _response(topics: _Topics, error: ErrorCode, errors: Errors | None = None) -> OffsetCommitResponse:
    """`error` on all partitions that exist, except those with their own in `errors`."""
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.requested.topic_id,
                partitions=_partition_responses(topic, error, errors),
            )
            for topic in topics
        )
    )


def _partition_responses(
    topic: RequestedTopic[OffsetCommitRequestTopic], error: ErrorCode, errors: Errors | None
) -> tuple[OffsetCommitResponsePartition, ...]:
    count, missing = topic.partition_count, topic.missing
    if not errors:
        return tuple(
            [
                _partition_response(index, error if 0 <= index < count else missing)
                for index in [partition.partition_index for partition in topic.requested.partitions]
            ]
        )
    return tuple(
        [
            _partition_response(partition.partition_index, _partition_error(topic, partition, error, errors))
            for partition in topic.requested.partitions
        ]
    )


def _partition_error(
    topic: RequestedTopic[OffsetCommitRequestTopic],
    partition: OffsetCommitRequestPartition,
    error: ErrorCode,
    errors: Errors,
) -> ErrorCode:
    if not topic.has(partition.partition_index):
        return topic.missing
    return errors.get(partition.committed_metadata or "", error)


@lru_cache(maxsize=4096)
def _partition_response(index: int, error: ErrorCode) -> OffsetCommitResponsePartition:
    """Shared by all responses, which are never modified."""
    return OffsetCommitResponsePartition(partition_index=index, error_code=error)
