"""TxnOffsetCommit: positions of a group that count once the producer's transaction commits.

Source: Kafka's KafkaApis.handleTxnOffsetCommitRequest (topics) and OffsetMetadataManager.commitTransactionalOffset (group,
values); KIP-98, KIP-447. That the producer may do so is for the transaction coordinator to say, before this is called.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.kinds import Sender
from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim.coordinator.groups.offsets.offset_rows import OffsetRows
from kshim.coordinator.groups.offsets.offset_values import OffsetValues
from kshim.coordinator.groups.offsets.requested_topics import RequestedTopic, partitions_to_commit, requested_topics
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kshim_protocol.rows import layout_of

_ABORTABLE_SINCE = 4
_LOAD_IN_PROGRESS_SINCE = 2
_TOPIC_ID_SINCE = 6

_ANSWERS = layout_of(TxnOffsetCommitResponsePartition, 6, is_flexible=True)

Topics = list[RequestedTopic[TxnOffsetCommitRequestTopic]]


def topics_of(catalog: TopicCatalog, request: TxnOffsetCommitRequest, api_version: int) -> Topics:
    """What there is of the topics of a request."""
    return requested_topics(catalog, request.topics, {}, by_id=api_version >= _TOPIC_ID_SINCE)


def txn_offset_commit(
    shard: Shard,
    request: TxnOffsetCommitRequest,
    topics: Topics,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """Check the group, then each value; answer once everything valid is written, as one batch of the producer.

    Raises KafkaError for all partitions that exist: INVALID_GROUP_ID, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID.
    """
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    group = shard.groups.get(request.group_id)
    if group is not None:
        max_size = shard.config.offset_metadata_max_bytes
        group.require_may_commit(_sender(request, context), lambda: partitions_to_commit(topics, max_size))
    elif request.generation_id_or_member_epoch >= 0:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    values = OffsetValues(shard, request.group_id, context.now)
    for topic in topics:
        values.add(topic)
    response = response_of(topics, ErrorCode.NONE, context.api_version, values.refused)
    if not values.records:
        step.reply(ticket, response)
        return

    def put(group_id: str, topic: str, offsets: Mapping[int, CommittedOffset] | OffsetRows) -> None:
        single = offsets.offsets() if isinstance(offsets, OffsetRows) else offsets
        for partition, offset in single.items():
            shard.put_pending_offset(request.producer_id, group_id, topic, partition, offset)

    def written(base_offset: int, step: Step) -> None:
        values.apply(base_offset, put)
        step.reply(ticket, response)

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, response_of(topics, append_error(error), context.api_version))

    producer = (request.producer_id, request.producer_epoch)
    shard.append_all(step, values.records, context.now, written=written, failed=failed, producer=producer)


def _sender(request: TxnOffsetCommitRequest, context: RequestContext) -> Sender:
    return Sender(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        context.api_version,
        is_transactional=True,
    )


def response_of(
    topics: Topics, error: ErrorCode, api_version: int, refused: Collection[bytes] = ()
) -> TxnOffsetCommitResponse:
    """`error` on all partitions that exist, but for positions that were `refused`."""
    returned = _returned(error, api_version)
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.requested.topic_id,
                partitions=topic.answers(_ANSWERS, returned, refused),
            )
            for topic in topics
        )
    )


def _returned(error: ErrorCode, api_version: int) -> ErrorCode:
    """How Kafka names the errors here. Checked live on 4.4, but for those of loading."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < _LOAD_IN_PROGRESS_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
