"""Produce: append the batches of a request, each partition for itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from kshim.broker.cluster import Cluster
from kshim.broker.connection import ConnectionClosing
from kshim.broker.leader_checks import check_leader, endpoints
from kshim.broker.node import Node
from kshim.broker.request import PendingReply, answered, handles
from kshim.broker.transaction_partitions import Outcome, Place, after_adding_patiently
from kshim.coordinator.step import RequestContext, Step
from kshim.partitions.batch_validator import RejectedRecords
from kshim.partitions.partition import Partition, Topic
from kshim.partitions.record_validator import RecordValidator
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.frame import ProtocolError
from kshim_protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kshim_protocol.records.batch import BatchHeader, parse_batch_header
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.layout import OVERHEAD_BYTES, TRANSACTIONAL_BIT
from kshim_protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kshim.partitions.batch_validator import BatchValidator
    from kshim.partitions.producer_state import ProducerState
    from kshim.scheduling.background_tasks import BackgroundTask


_TOPIC_IDS_FROM = 13
_ZSTD_FROM = 7
_ABORTABLE_FROM = 11
_PARTITIONS_ADDED_FROM = 12
_LEADERS_NAMED_FROM = 10
_ANSWERED_WITHOUT_LOG_START = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
)
"""Kafka: what ReplicaManager.appendRecordsToLeader takes for an ordinary mistake of a client."""


@handles(ProduceRequest)
def produce(node: Node, request: ProduceRequest, context: RequestContext, ticket: PendingReply) -> Step:
    """Append one batch a partition and answer with its first offset. A failed partition does not touch the others.

    With `--fsync always` the answer waits until the batches are safe from power loss.

    acks=0 gets no answer; an error then closes the connection, which is all such a client can notice (checked live on
    4.4). Null records, to which Kafka never answers, get INVALID_RECORD. Of a partition named more than once the last
    batch counts. Records that take long to check are appended
    later. Raises ConnectionClosing.
    """
    request = _each_partition_once(request)
    checks = RecordValidator()
    topics = node.cluster.topics
    for data in request.topic_data:
        topic = topics.with_id(data.topic_id) if context.api_version >= _TOPIC_IDS_FROM else topics.named(data.name)
        if topic is not None:
            codec = topic.batch_validator(node.cluster.config).codec
            for partition in data.partition_data:
                if partition.records is not None:
                    checks.add((topic.name, partition.index), partition.records, codec)
    if checks.has_heavy:
        node.cluster.background_tasks.add(_produce_later(node, request, context, ticket, checks))
        return Step()
    return _begun(node, request, context, ticket, checks)


def _each_partition_once(request: ProduceRequest) -> ProduceRequest:
    """Kafka collects the batches by partition: there is one answer, and only the last batch is appended."""
    if len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1:
        return request
    topics: dict[tuple[str, bytes], dict[int, PartitionProduceData]] = {}
    for data in request.topic_data:
        batches = topics.setdefault((data.name, data.topic_id), {})
        batches.update((partition.index, partition) for partition in data.partition_data)
    if sum(map(len, topics.values())) == sum(len(data.partition_data) for data in request.topic_data):
        return request
    topic_data = tuple(
        TopicProduceData(name=name, topic_id=topic_id, partition_data=tuple(batches.values()))
        for (name, topic_id), batches in topics.items()
    )
    return replace(request, topic_data=topic_data)


def _produce_later(
    node: Node, request: ProduceRequest, context: RequestContext, ticket: PendingReply, checks: RecordValidator
) -> BackgroundTask:
    yield from checks.look_closer()
    _apply(node, request, ticket, lambda: _begun(node, request, context, ticket, checks))


def _apply(node: Node, request: ProduceRequest, ticket: PendingReply, work: Callable[[], Step]) -> None:
    """What the router does with a handler, for the part of a request that had to wait."""
    try:
        node.cluster.apply(work())
    except ConnectionClosing as closing:
        ticket.connection.hang_up(str(closing))
    except Exception as error:
        node.cluster.defect(error, request)
        if not ticket.is_answered:
            ticket.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)


def _begun(
    node: Node, request: ProduceRequest, context: RequestContext, ticket: PendingReply, checks: RecordValidator
) -> Step:
    """Add what is new to the transaction, for clients that leave it to the broker; then append. Raises ConnectionClosing."""
    places: dict[tuple[int, int], set[Place]] = {}
    if request.transactional_id is not None and context.api_version >= _PARTITIONS_ADDED_FROM:
        for partition, header in _beginnings(node, request, context.api_version):
            producer = (header.producer_id, header.producer_epoch)
            places.setdefault(producer, set()).add((partition.topic.name, partition.index))
    if not places:
        return _produced(node, request, context, ticket, checks, {})
    if len(places) > 1:
        every = {place for found in places.values() for place in found}
        mixed = dict.fromkeys(every, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return _produced(node, request, context, ticket, checks, mixed)
    ((producer, found),) = places.items()
    assert request.transactional_id is not None

    def produced(added: Outcome) -> Step:
        return _produced(node, request, context, ticket, checks, added)

    def produced_later(added: Outcome) -> None:
        _apply(node, request, ticket, lambda: produced(added))

    transactional_id = request.transactional_id
    return after_adding_patiently(node.cluster, transactional_id, producer, found, context, produced, produced_later)


def _beginnings(node: Node, request: ProduceRequest, api_version: int) -> Iterator[tuple[Partition, BatchHeader]]:
    """The partitions led here in which no transaction of the producer is open yet, with the batch that begins one."""
    topics = node.cluster.topics
    for data in request.topic_data:
        topic = topics.with_id(data.topic_id) if api_version >= _TOPIC_IDS_FROM else topics.named(data.name)
        for each in data.partition_data:
            if topic is None or each.records is None or not 0 <= each.index < len(topic.partitions):
                continue
            partition = topic.partitions[each.index]
            try:
                check_leader(node, partition)
                header = _beginning(request, partition, each.records)
            except (KafkaError, LogError):
                continue  # it is refused for that
            if header is not None:
                yield partition, header


def _produced(
    node: Node,
    request: ProduceRequest,
    context: RequestContext,
    ticket: PendingReply,
    checks: RecordValidator,
    added: Outcome,
) -> Step:
    """Raises ConnectionClosing."""
    topics = node.cluster.topics
    by_id = context.api_version >= _TOPIC_IDS_FROM
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    responses = []
    for data in request.topic_data:
        topic = topics.with_id(data.topic_id) if by_id else topics.named(data.name)
        answers = tuple(
            PartitionProduceResponse(index=partition.index, error_code=unknown, base_offset=-1)
            if topic is None
            else _answer(node, request, topic, partition, context, checks, added)
            for partition in data.partition_data
        )
        responses.append(TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=answers))
    if request.acks == 0:
        for response in responses:
            for answer in response.partition_responses:
                if answer.error_code:
                    raise ConnectionClosing(
                        f"Produce with acks=0 to {response.name or response.topic_id.hex()}-{answer.index} failed: "
                        f"{ErrorCode(answer.error_code).name}"
                    )
        return answered(ticket, None)
    node_endpoints = _name_leaders(node, responses, context.api_version, ticket.connection.listener_name)
    if node.cluster.durability.replies_wait:
        return _answered_when_durable(node.cluster, responses, node_endpoints, by_id, ticket)
    return answered(ticket, ProduceResponse(responses=tuple(responses), node_endpoints=node_endpoints))


def _name_leaders(
    node: Node, responses: list[TopicProduceResponse], api_version: int, listener_name: str
) -> tuple[NodeEndpoint, ...]:
    """Add the current leader and its address to each refusal."""
    cluster = node.cluster
    if api_version < _LEADERS_NAMED_FROM or not cluster.leadership.is_spread:
        return ()
    leader_ids = []
    for response in responses:
        topic = cluster.topics.with_id(response.topic_id) if response.topic_id != ZERO_UUID else None
        topic = topic or cluster.topics.named(response.name)
        for answer in response.partition_responses:
            if topic is not None and answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                leader = topic.partitions[answer.index].leader
                answer.current_leader = LeaderIdAndEpoch(  # type: ignore[misc]
                    leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                )
                leader_ids.append(leader.leader_id)
    return endpoints(node, listener_name, leader_ids, NodeEndpoint)


def _answered_when_durable(
    cluster: Cluster,
    responses: list[TopicProduceResponse],
    node_endpoints: tuple[NodeEndpoint, ...],
    by_id: bool,
    ticket: PendingReply,
) -> Step:
    """Answer when everything appended is safe from power loss; a partition that has lost it says so."""
    written: dict[tuple[int, int], Partition] = {}  # by the response's number and the partition's
    for number, response in enumerate(responses):
        topic = cluster.topics.with_id(response.topic_id) if by_id else cluster.topics.named(response.name)
        for answer in response.partition_responses:
            if topic is not None and answer.error_code == ErrorCode.NONE:
                written[number, answer.index] = topic.partitions[answer.index]

    def final(number: int, answer: PartitionProduceResponse, lost: Collection[Partition]) -> PartitionProduceResponse:
        if written.get((number, answer.index)) not in lost:
            return answer
        return PartitionProduceResponse(
            index=answer.index, error_code=ErrorCode.KAFKA_STORAGE_ERROR, base_offset=-1, error_message="sync failed"
        )

    def answer_all(lost: Collection[Partition]) -> None:
        ticket.complete(
            ProduceResponse(
                responses=tuple(
                    TopicProduceResponse(
                        name=response.name,
                        topic_id=response.topic_id,
                        partition_responses=tuple(
                            final(number, answer, lost) for answer in response.partition_responses
                        ),
                    )
                    for number, response in enumerate(responses)
                ),
                node_endpoints=node_endpoints,
            )
        )

    cluster.durability.when_durable(set(written.values()), answer_all)
    return Step()


def _answer(
    node: Node,
    request: ProduceRequest,
    topic: Topic,
    data: PartitionProduceData,
    context: RequestContext,
    checks: RecordValidator,
    added: Outcome,
) -> PartitionProduceResponse:
    """Append to one partition; whatever goes wrong is this partition's error."""
    reasons: tuple[tuple[int, str], ...] = ()
    message = None
    log_start_offset = -1
    try:
        return _append(node, request, topic, data, context, checks, added)
    except RejectedRecords as error:
        code, message, reasons = error.code, error.message, error.reasons
        log_start_offset = topic.partitions[data.index].log.start_offset
    except KafkaError as error:
        code, message = error.code, error.message
    except LogError as error:
        node.cluster.report(error, request)
        code, message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    except Exception as error:
        node.cluster.defect(error, request)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    return PartitionProduceResponse(
        index=data.index,
        error_code=code,
        base_offset=-1,
        log_start_offset=log_start_offset,
        record_errors=tuple(
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason) for index, reason in reasons
        ),
        error_message=message,
    )


def _append(
    node: Node,
    request: ProduceRequest,
    topic: Topic,
    data: PartitionProduceData,
    context: RequestContext,
    checks: RecordValidator,
    added: Outcome,
) -> PartitionProduceResponse:
    """Raises KafkaError; RejectedRecords once the log itself was asked; LogError."""
    if not 0 <= data.index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if request.acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    partition = topic.partitions[data.index]
    check_leader(node, partition)
    batch = data.records
    if batch is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a partition without records")
    validator = topic.batch_validator(node.cluster.config)
    _begin_transaction(node.cluster, request, partition, batch, context, added)
    header = validator.check(batch)
    _refuse_what_may_not_be_written(request, topic, header, context.api_version)
    producers = partition.require_producers() if header.producer_id >= 0 else None
    try:
        base_offset, log_append_time_ms = _append_to_log(
            partition, producers, validator, batch, header, checks, context.now.wall_ms
        )
    except RejectedRecords:
        raise
    except KafkaError as error:
        if error.code in _ANSWERED_WITHOUT_LOG_START:
            raise
        raise RejectedRecords(error.code, error.message) from None
    return PartitionProduceResponse(
        index=data.index,
        error_code=ErrorCode.NONE,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=partition.log.start_offset,
    )


def _append_to_log(
    partition: Partition,
    producers: ProducerState | None,
    validator: BatchValidator,
    batch: bytes,
    header: BatchHeader,
    checks: RecordValidator,
    now_ms: int,
) -> tuple[int, int]:
    """(base offset, log append time in ms). Raises KafkaError, LogError."""
    if producers is not None:
        earlier = producers.check(header)
        if earlier is not None:
            # Kafka gives the timestamp of the batch it had as the log append time.
            return earlier.base_offset, earlier.max_timestamp_ms
    batch, log_append_time_ms = validator.admit(
        batch, header, checks.of((partition.topic.name, partition.index)), now_ms
    )
    validator.check_segment(batch)
    return partition.append(batch, now_ms), log_append_time_ms


def _refuse_what_may_not_be_written(
    request: ProduceRequest, topic: Topic, header: BatchHeader, api_version: int
) -> None:
    """Raises KafkaError.

    Kafka lets clients that call themselves `__admin_client` write to internal topics. kshim does not: the coordinator
    would not see such records before its next start.
    """
    if topic.is_internal:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker may write to {topic.name}")
    if header.attributes & 7 == Compression.ZSTD and api_version < _ZSTD_FROM:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd requires Produce version {_ZSTD_FROM}")
    if header.attributes & TRANSACTIONAL_BIT and request.transactional_id is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _beginning(request: ProduceRequest, partition: Partition, batch: bytes) -> BatchHeader | None:
    """The header of a batch that is the first of a transaction in a partition; None for any other.

    An older epoch than the partition knows is refused before its transaction is looked at, as by Kafka.
    Raises LogError; KafkaError: INVALID_PRODUCER_EPOCH.
    """
    if request.transactional_id is None or partition.topic.is_internal:
        return None
    try:
        header = parse_batch_header(batch)
    except ProtocolError:
        return None  # it is refused for that
    if not header.is_transactional or header.batch_length != len(batch) - OVERHEAD_BYTES:
        return None
    producers = partition.require_producers()
    if producers.has_open_transaction(header.producer_id, header.producer_epoch):
        return None
    producers.check_epoch(header)
    return header


def _begin_transaction(
    cluster: Cluster,
    request: ProduceRequest,
    partition: Partition,
    batch: bytes,
    context: RequestContext,
    added: Outcome,
) -> None:
    """What Kafka does for the first batch of a transaction in a partition, before it reaches the log (KIP-890).

    `added` says how adding the partition went, where that was tried. Raises LogError; KafkaError as `_require_verified` does.
    """
    header = _beginning(request, partition, batch)
    if header is not None:
        is_version_2 = context.api_version >= _PARTITIONS_ADDED_FROM
        partition.require_producers().unverified.begin(header, context.now.wall_ms, begins_at_0=is_version_2)
        error = added.get((partition.topic.name, partition.index))
        _require_verified(cluster, request, partition, header, context.api_version, error)


def _require_verified(
    cluster: Cluster,
    request: ProduceRequest,
    partition: Partition,
    header: BatchHeader,
    api_version: int,
    error: ErrorCode | None,
) -> None:
    """The first batch of a transaction may be written when its coordinator knows that it is to come (KIP-890).

    Later ones need not be asked for: a marker ends what the partition knows to be open.
    Raises KafkaError: INVALID_TXN_STATE, TRANSACTION_ABORTABLE, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING;
    NOT_ENOUGH_REPLICAS, which every client retries, while the coordinator is not available.
    Kafka: ReplicaManager.handleProduceAppend, AddPartitionsToTxnManager.
    """
    assert request.transactional_id is not None
    if error is None:
        error = cluster.transactions.coordinator.verify(
            request.transactional_id, header.producer_id, header.producer_epoch, partition.topic.name, partition.index
        )
    match error:
        case ErrorCode.NONE:
            return
        case ErrorCode.TRANSACTION_ABORTABLE if api_version < _ABORTABLE_FROM:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "the partition was not added to the transaction")
        case ErrorCode.CONCURRENT_TRANSACTIONS if api_version >= _PARTITIONS_ADDED_FROM:
            raise KafkaError(error)
        case ErrorCode.PRODUCER_FENCED:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        case (
            ErrorCode.CONCURRENT_TRANSACTIONS
            | ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode.COORDINATOR_NOT_AVAILABLE
            | ErrorCode.NOT_COORDINATOR
        ):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction could not be verified: {error.name}")
        case _:
            raise KafkaError(error)
