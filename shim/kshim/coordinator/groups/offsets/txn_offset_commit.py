"""TxnOffsetCommit: positions of a group that count once the producer's transaction commits.

Source: Kafka's KafkaApis.handleTxnOffsetCommitRequest (topics) and OffsetMetadataManager.commitTransactionalOffset (group,
values); KIP-98, KIP-447. That the producer may do so is for the transaction coordinator to say, before this is called.
"""

from __future__ import annotations

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim.coordinator.groups.offsets.offset_commit import require_may_commit
from kshim.coordinator.groups.offsets.offset_values import Errors, OffsetValues
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kshim_protocol.schema import ZERO_UUID

_ABORTABLE_SINCE = 4
_LOAD_IN_PROGRESS_SINCE = 2


def exists(shard: Shard, request: TxnOffsetCommitRequest) -> bool:
    """Whether any partition of the request exists; otherwise neither the group nor the transaction is checked."""
    return any(
        0 <= partition.partition_index < (shard.topics.partition_count(topic.name) or 0)
        for topic in request.topics
        for partition in topic.partitions
    )


def txn_offset_commit(
    shard: Shard, request: TxnOffsetCommitRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Check the group, then each value; answer once everything valid is written, as one batch of the producer.

    Raises KafkaError for all partitions that exist: INVALID_GROUP_ID, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID.
    """
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    group = shard.groups.get(request.group_id)
    if group is not None:
        _check_member(group, request)
    elif request.generation_id_or_member_epoch >= 0:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    values = OffsetValues(shard, request.group_id, context.now)
    for topic in request.topics:
        count = shard.topics.partition_count(topic.name) or 0
        values.add(topic.name, shard.topics.topic_id(topic.name) or ZERO_UUID, count, topic.partitions)
    response = response_of(shard, request, ErrorCode.NONE, context.api_version, values.errors)
    if not values.pairs:
        step.reply(ticket, response)
        return

    def put(group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        shard.put_pending_offset(request.producer_id, group_id, topic, partition, offset)

    def written(base_offset: int, step: Step) -> None:
        values.apply(base_offset, put)
        step.reply(ticket, response)

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, response_of(shard, request, append_error(error), context.api_version))

    producer = (request.producer_id, request.producer_epoch)
    shard.append(step, values.pairs, context.now, written=written, failed=failed, producer=producer)


def _check_member(group: Group, request: TxnOffsetCommitRequest) -> None:
    """Clients from before KIP-447 do not identify themselves, which is accepted in every state of the group.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    generation_id = request.generation_id_or_member_epoch
    if generation_id >= 0 or request.member_id or request.group_instance_id is not None:
        require_may_commit(group, request.member_id, request.group_instance_id, generation_id)


def response_of(
    shard: Shard, request: TxnOffsetCommitRequest, error: ErrorCode, api_version: int, errors: Errors | None = None
) -> TxnOffsetCommitResponse:
    """`error` on all partitions that exist, except those with their own in `errors`."""
    returned = _returned(error, api_version)
    own = errors or {}
    topics = []
    for topic in request.topics:
        count = shard.topics.partition_count(topic.name) or 0
        partitions = tuple(
            TxnOffsetCommitResponsePartition(
                partition_index=partition.partition_index,
                error_code=own.get(partition.committed_metadata or "", returned)
                if 0 <= partition.partition_index < count
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for partition in topic.partitions
        )
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return TxnOffsetCommitResponse(topics=tuple(topics))


def _returned(error: ErrorCode, api_version: int) -> ErrorCode:
    """How Kafka names the errors here. Checked live on 4.4, but for those of loading."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < _LOAD_IN_PROGRESS_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
