"""OffsetCommit: store the positions of a group.

Source: Kafka's KafkaApis.handleOffsetCommitRequest (topics) and OffsetMetadataManager.commitOffset (group, values).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache, partial

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.classic.lost_members import tell_if_lost
from kshim.coordinator.groups.kinds import Sender
from kshim.coordinator.groups.offsets.offset_rows import PositionRows
from kshim.coordinator.groups.offsets.offset_values import NEVER, OffsetValues
from kshim.coordinator.groups.offsets.requested_topics import (
    RequestedTopic,
    any_exists,
    pack_answer,
    partitions_to_commit,
    requested_topics,
)
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kshim_protocol.rows import Rows, layout_of

_TOPIC_ID_SINCE = 10
_GROUP_ID_NOT_FOUND_SINCE = 9
_NO_RETENTION = -1
_LAST_TIMESTAMP_MS = (1 << 63) - 1

_ANSWERS = layout_of(OffsetCommitResponsePartition, 10, is_flexible=True)

_Topics = list[RequestedTopic[OffsetCommitRequestTopic]]

_SHARED_PARTITIONS = 128

_sender = partial(tuple.__new__, Sender)


def offset_commit(
    shard: Shard, request: OffsetCommitRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Check topics, then the group, then each value; answer once everything valid is written, as one batch.

    An error of the group is returned for every partition that exists; without any, the group is not checked.
    """
    known = shard.offsets.of_group(request.group_id)
    topics = requested_topics(shard.topics, request.topics, known, by_id=context.api_version >= _TOPIC_ID_SINCE)
    if any_exists(topics):
        try:
            shard.require_loaded()
            _check_group(shard, request, topics, context)
        except KafkaError as error:
            step.reply(ticket, _response(topics, error.code))
            tell_if_lost(shard, request, error, context, step)
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
    sender = _sender((request.member_id, request.group_instance_id, generation_id, context.api_version, False))
    group.require_may_commit(sender, partial(partitions_to_commit, topics, shard.config.offset_metadata_max_bytes))
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
        values.add(topic)
    refused = values.refused
    if not values.records:
        step.reply(ticket, _response(topics, ErrorCode.NONE, refused))
        return

    def written(base_offset: int, step: Step) -> None:
        values.apply(base_offset, shard.put_offsets)
        step.reply(ticket, _response(topics, ErrorCode.NONE, refused))

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, _response(topics, append_error(error)))

    shard.append_all(step, values.records, now, written=written, failed=failed)


# The answer


def _response(topics: _Topics, error: ErrorCode, refused: Collection[bytes] = ()) -> OffsetCommitResponse:
    """`error` on all partitions that exist, but for positions that were `refused`."""
    if error is ErrorCode.NONE and not refused and len(topics) == 1:
        topic = topics[0]
        positions = topic.positions
        if topic.existing is positions and len(positions) <= _SHARED_PARTITIONS:
            if type(positions) is PositionRows:
                indexes = positions.partitions.indexes
            else:
                indexes = tuple([index for index, _ in positions])
            return accepted(topic.name, topic.requested.topic_id, indexes)
    return OffsetCommitResponse(
        topics=tuple(
            [
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.requested.topic_id,
                    partitions=topic.answers(_ANSWERS, error, refused),
                )
                for topic in topics
            ]
        )
    )


@lru_cache(maxsize=1024)
def accepted(name: str, topic_id: bytes, indexes: tuple[int, ...]) -> OffsetCommitResponse:
    """The answer to most commits: nothing is wrong with the partitions of one topic. It is never modified."""
    answers = b"".join([pack_answer(index, ErrorCode.NONE) for index in indexes])
    partitions = Rows(_ANSWERS, len(indexes), answers)
    return OffsetCommitResponse(
        topics=(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions),)
    )
