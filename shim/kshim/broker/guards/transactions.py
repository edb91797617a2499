"""Producer ids and transactions."""

from __future__ import annotations

from typing import Any

from kshim.broker.guards.guard import Call, changed, guards
from kshim.coordinator.step import Step
from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)

REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def may_transaction(call: Call, operation: Operation, transactional_id: str) -> bool:
    """Whether the caller may do that with a transactional id."""
    return call.caller.may(operation, ResourceType.TRANSACTIONAL_ID, transactional_id)


@guards("InitProducerId")
def init_producer_id(call: Call) -> Step:
    """WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic at all."""
    transactional_id = call.request.transactional_id
    caller = call.caller
    if transactional_id is not None:
        is_allowed = may_transaction(call, Operation.WRITE, transactional_id) and (
            not call.request.enable_2pc or may_transaction(call, Operation.TWO_PHASE_COMMIT, transactional_id)
        )
        return call.proceed() if is_allowed else call.refuse(REFUSED)
    if caller.may(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER) or caller.may_some(
        Operation.WRITE, ResourceType.TOPIC
    ):
        return call.proceed()
    return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@guards("EndTxn")
def end_txn(call: Call) -> Step:
    """WRITE on the transactional id."""
    return (
        call.proceed()
        if may_transaction(call, Operation.WRITE, call.request.transactional_id)
        else call.refuse(REFUSED)
    )


@guards("AddOffsetsToTxn")
def add_offsets_to_txn(call: Call) -> Step:
    """WRITE on the transactional id, READ on the group."""
    if not may_transaction(call, Operation.WRITE, call.request.transactional_id):
        return call.refuse(REFUSED)
    if not call.caller.may(Operation.READ, ResourceType.GROUP, call.request.group_id):
        return call.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return call.proceed()


@guards("AddPartitionsToTxn")
def add_partitions_to_txn(call: Call) -> Step:
    """WRITE on the transactional id and on the topics, all or none; from version 4 on CLUSTER_ACTION."""
    request = call.request
    if call.version >= 4:
        if call.caller.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
            return call.proceed()
        return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not may_transaction(call, Operation.WRITE, request.v3_and_below_transactional_id):
        return call.refuse(REFUSED)
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


@guards("DescribeTransactions")
def describe_transactions(call: Call) -> Step:
    """DESCRIBE on the transactional ids; topics that may not be described are left out."""
    ids = call.request.transactional_ids
    allowed = tuple(one for one in ids if may_transaction(call, Operation.DESCRIBE, one))
    refused = tuple(one for one in ids if one not in allowed)
    refusal = changed(call.request, transactional_ids=refused).error_response(REFUSED, call.version)
    if not allowed and refused:
        return call.answer(refusal)

    def visible(state: Any) -> Any:
        return changed(state, topics=call.split_topics(state.topics, Operation.DESCRIBE)[0])

    return call.proceed(
        changed(call.request, transactional_ids=allowed),
        lambda response: changed(
            response,
            transaction_states=(
                *(visible(state) for state in response.transaction_states),
                *refusal.transaction_states,
            ),
        ),
    )


@guards("ListTransactions")
def list_transactions(call: Call) -> Step:
    """Those whose transactional id may be described."""
    return call.proceed(
        merge=lambda response: changed(
            response,
            transaction_states=tuple(
                state
                for state in response.transaction_states
                if may_transaction(call, Operation.DESCRIBE, state.transactional_id)
            ),
        )
    )
