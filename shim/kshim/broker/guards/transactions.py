"""Producer ids and transactions."""

from __future__ import annotations

from typing import Final

from kshim.broker.guards.guard import Call, changed, guards
from kshim.coordinator.step import Step
from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)

TRANSACTION: Final = ResourceType.TRANSACTIONAL_ID


@guards("InitProducerId")
def init_producer_id(call: Call) -> Step:
    """WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic at all."""
    transactional_id = call.request.transactional_id
    if transactional_id is not None:
        if call.request.enable_2pc and not call.may(Operation.TWO_PHASE_COMMIT, TRANSACTION, transactional_id):
            return call.refuse(TRANSACTION)
        return call.proceed_if(Operation.WRITE, TRANSACTION, transactional_id)
    if call.caller.may_some(Operation.WRITE, ResourceType.TOPIC):
        return call.proceed()
    return call.proceed_if(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)


@guards("AddPartitionsToTxn")
def add_partitions_to_txn(call: Call) -> Step:
    """WRITE on the transactional id and on the topics, all or none; from version 4 on CLUSTER_ACTION."""
    request = call.request
    if call.version >= 4:
        return call.proceed_if(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    if not call.may(Operation.WRITE, TRANSACTION, request.v3_and_below_transactional_id):
        return call.refuse(TRANSACTION)
    topics = request.v3_and_below_topics
    _, refused = call.split_topics(topics, Operation.WRITE)
    if not refused:
        return call.proceed()
    names = {topic.name for topic in refused}
    results = tuple(
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=_error(call, names, topic.name, index)
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )
    return call.answer(AddPartitionsToTxnResponse(results_by_transaction=(), results_by_topic_v3_and_below=results))


def _error(call: Call, refused: set[str], topic: str, index: int) -> ErrorCode:
    if topic in refused:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if call.node.cluster.topics.partition(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.OPERATION_NOT_ATTEMPTED


@guards("ListTransactions")
def list_transactions(call: Call) -> Step:
    """Those whose transactional id may be described."""
    return call.proceed(
        merge=lambda response: changed(
            response,
            transaction_states=tuple(
                state
                for state in response.transaction_states
                if call.may(Operation.DESCRIBE, TRANSACTION, state.transactional_id)
            ),
        )
    )
