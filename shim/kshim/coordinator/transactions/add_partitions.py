"""AddPartitionsToTxn and AddOffsetsToTxn: a transaction is going to write to these partitions.

Source: Kafka's KafkaApis.handleAddPartitionsToTxnRequest, TransactionCoordinator.handleAddPartitionsToTransaction; KIP-98.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.runtime import FindShard
from kshim.coordinator.step import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    Now,
    RequestContext,
    Step,
    Ticket,
)
from kshim.coordinator.transactions.end_txn import require_producer, require_room_for_client_version
from kshim.coordinator.transactions.events import TransactionCause
from kshim.coordinator.transactions.shard import TransactionShard
from kshim.coordinator.transactions.state import TransactionState
from kshim.coordinator.transactions.transaction import TransactionPartition
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kshim_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

_INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC)


def add_partitions_to_txn(
    shard: TransactionShard, request: AddPartitionsToTxnRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Add the partitions of a request (v0-3), which exist. Raises KafkaError as `_add` does."""
    partitions = frozenset(
        (topic.name, partition) for topic in request.v3_and_below_topics for partition in topic.partitions
    )
    producer = (
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
    )

    def done(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(error, context.api_version))

    _add(shard, producer, partitions, context.now, step, done)


def add_batches_to_txn(
    find: FindShard[TransactionShard],
    topics: TopicCatalog,
    request: AddPartitionsToTxnRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """Add the partitions of many transactions (v4 and later), or say whether they have them (`verify_only`).

    Answered when all records are written; what is wrong with one transaction does not touch the others.
    """
    errors: list[dict[TransactionPartition, ErrorCode]] = [{} for _ in request.transactions]
    open_count = len(request.transactions)

    def settled(index: int, outcome: dict[TransactionPartition, ErrorCode], step: Step) -> None:
        nonlocal open_count
        errors[index] = outcome
        open_count -= 1
        if not open_count:
            step.reply(ticket, _batched_response(request, errors))

    for index, batch in enumerate(request.transactions):
        places = [(topic.name, partition) for topic in batch.topics for partition in topic.partitions]
        missing = {
            (name, partition) for name, partition in places if not 0 <= partition < (topics.partition_count(name) or 0)
        }
        if missing:
            settled(
                index,
                {
                    place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    if place in missing
                    else ErrorCode.OPERATION_NOT_ATTEMPTED
                    for place in places
                },
                step,
            )
            continue

        def done(error: ErrorCode, step: Step, index: int = index, places: list[TransactionPartition] = places) -> None:
            settled(index, dict.fromkeys(places, error), step)

        producer = (batch.transactional_id, batch.producer_id, batch.producer_epoch)
        try:
            if not batch.transactional_id:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "empty transactional id")
            shard = find(batch.transactional_id)
            if batch.verify_only:
                settled(index, verified(shard, producer, places), step)
            else:
                _add(shard, producer, frozenset(places), context.now, step, done, client_version=2)
        except KafkaError as error:
            done(error.code, step)
    if not request.transactions:
        step.reply(ticket, _batched_response(request, errors))


def verified(
    shard: TransactionShard, producer: tuple[str, int, int], places: Iterable[TransactionPartition]
) -> dict[TransactionPartition, ErrorCode]:
    """Whether a producer may write to partitions: NONE when its transaction has them, TRANSACTION_ABORTABLE otherwise.

    Raises KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS (markers are being written).
    Kafka: TransactionCoordinator.handleVerifyPartitionsInTransaction.
    """
    transactional_id, producer_id, producer_epoch = producer
    transaction = shard.require(transactional_id)
    require_producer(transaction, producer_id, producer_epoch)
    if transaction.state.is_decided:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    added = transaction.facts.partitions
    return {place: ErrorCode.NONE if place in added else ErrorCode.TRANSACTION_ABORTABLE for place in places}


def _batched_response(
    request: AddPartitionsToTxnRequest, errors: list[dict[TransactionPartition, ErrorCode]]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=tuple(
            AddPartitionsToTxnResult(
                transactional_id=batch.transactional_id,
                topic_results=tuple(
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=tuple(
                            AddPartitionsToTxnPartitionResult(
                                partition_index=partition, partition_error_code=outcome[topic.name, partition]
                            )
                            for partition in topic.partitions
                        ),
                    )
                    for topic in batch.topics
                ),
            )
            for batch, outcome in zip(request.transactions, errors, strict=True)
        )
    )


def add_offsets_to_txn(
    shard: TransactionShard, request: AddOffsetsToTxnRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Add the partition that holds the offsets of the request's group. Raises KafkaError as `_add` does."""
    partitions = frozenset({(OFFSETS_TOPIC, shard.offsets_partition_for(request.group_id))})
    producer = (request.transactional_id, request.producer_id, request.producer_epoch)

    def done(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(error, context.api_version))

    _add(shard, producer, partitions, context.now, step, done)


def _add(
    shard: TransactionShard,
    producer: tuple[str, int, int],
    partitions: frozenset[TransactionPartition],
    now: Now,
    step: Step,
    done: Callable[[ErrorCode, Step], None],
    *,
    client_version: int = 0,
) -> None:
    """Have them in the transaction of `producer` (transactional id, producer id, epoch), which begins if none is open.

    `done` hears how that went, at once when they are in it already.
    Raises KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, and of clients of version 2
    UNSUPPORTED_VERSION.
    """
    transactional_id, producer_id, producer_epoch = producer
    transaction = shard.require(transactional_id)
    require_producer(transaction, producer_id, producer_epoch)
    facts = transaction.facts
    if facts.state.is_decided:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_open = facts.state is TransactionState.ONGOING
    if is_open and partitions <= facts.partitions:
        done(ErrorCode.NONE, step)
        return
    if client_version:
        require_room_for_client_version(shard)
    after = facts._replace(
        state=TransactionState.ONGOING,
        partitions=facts.partitions | partitions,
        start_ms=facts.start_ms if is_open else now.wall_ms,
        update_ms=now.wall_ms,
        client_version=client_version,
    )

    def written(_base_offset: int, step: Step) -> None:
        shard.change(transaction, after, TransactionCause.PARTITIONS_ADDED, now, step)
        done(ErrorCode.NONE, step)

    def failed(error: ErrorCode, step: Step) -> None:
        done(append_error(error), step)

    shard.append(step, transactional_id, after, now, written=written, failed=failed)


def partition_errors(topics: TopicCatalog, request: AddPartitionsToTxnRequest) -> dict[TransactionPartition, ErrorCode]:
    """What is wrong with partitions of a request (v0-3), by partition; empty when nothing is.

    As in Kafka internal topics are refused to clients: offsets of a group are added by AddOffsetsToTxn.
    """
    errors: dict[TransactionPartition, ErrorCode] = {}
    for topic in request.v3_and_below_topics:
        count = topics.partition_count(topic.name) or 0
        for partition in topic.partitions:
            if topic.name in _INTERNAL_TOPICS:
                errors[topic.name, partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not 0 <= partition < count:
                errors[topic.name, partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors


def refused(
    request: AddPartitionsToTxnRequest, errors: dict[TransactionPartition, ErrorCode]
) -> AddPartitionsToTxnResponse:
    """The answer to a request with `errors`: the other partitions were not tried."""
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=tuple(
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=partition,
                        partition_error_code=errors.get((topic.name, partition), ErrorCode.OPERATION_NOT_ATTEMPTED),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        )
    )
