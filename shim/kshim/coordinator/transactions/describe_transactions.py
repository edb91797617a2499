"""DescribeTransactions and ListTransactions: what the coordinator knows of transactional ids.

Source: Kafka's TransactionCoordinator.handleDescribeTransactions, TransactionStateManager.listTransactionStates; KIP-664,
KIP-994, KIP-1152.
"""

from __future__ import annotations

from collections.abc import Callable

from kshim.coordinator.runtime import FindShard
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim.coordinator.transactions.shard import TransactionShard
from kshim.coordinator.transactions.state import state_named
from kshim.coordinator.transactions.transaction import Transaction
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages import list_transactions as listing
from kshim_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def describe_transactions(
    find: FindShard[TransactionShard],
    request: DescribeTransactionsRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """Each id by itself: TRANSACTIONAL_ID_NOT_FOUND, INVALID_REQUEST for an empty one, or why its shard is not there."""
    states = tuple(_described(find, transactional_id) for transactional_id in request.transactional_ids)
    step.reply(ticket, DescribeTransactionsResponse(transaction_states=states))


def _described(find: FindShard[TransactionShard], transactional_id: str) -> TransactionState:
    try:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        transaction = find(transactional_id).transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    except KafkaError as error:
        request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        return request.error_response(error.code, 0).transaction_states[0]
    facts = transaction.facts
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.unmarked if facts.state.is_decided else facts.partitions):
        topics.setdefault(topic, []).append(partition)
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=str(facts.state),
        transaction_timeout_ms=facts.timeout_ms,
        transaction_start_time_ms=facts.start_ms,
        producer_id=facts.producer_id,
        producer_epoch=facts.producer_epoch,
        topics=tuple(TopicData(topic=topic, partitions=tuple(indexes)) for topic, indexes in topics.items()),
    )


def list_transactions(
    shards: list[TransactionShard],
    matches: Callable[[str], bool],
    request: listing.ListTransactionsRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """All ids that pass the filters and that `matches` says belong to the pattern. Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS when any shard is not loaded."""
    states = {name: state_named(name) for name in request.state_filters}
    wanted = frozenset(states.values())
    found: list[listing.TransactionState] = []
    for shard in shards:
        shard.require_loaded()
        for transaction in shard.transactions.values():
            facts = transaction.facts
            if (
                (not states or facts.state in wanted)
                and _passes(transaction, request, context.now)
                and matches(transaction.transactional_id)
            ):
                found.append(
                    listing.TransactionState(
                        transactional_id=transaction.transactional_id,
                        producer_id=facts.producer_id,
                        transaction_state=str(facts.state),
                    )
                )
    response = listing.ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=tuple(name for name, state in states.items() if state is None),
        transaction_states=tuple(found),
    )
    step.reply(ticket, response)


def _passes(transaction: Transaction, request: listing.ListTransactionsRequest, now: Now) -> bool:
    facts = transaction.facts
    if request.producer_id_filters and facts.producer_id not in request.producer_id_filters:
        return False
    return request.duration_filter < 0 or now.wall_ms - facts.start_ms > request.duration_filter
