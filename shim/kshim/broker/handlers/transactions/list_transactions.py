"""ListTransactions: which transactions there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.regular_expressions import matcher
from kshim.broker.request import PendingReply, handles
from kshim.coordinator.step import RequestContext, Step
from kshim_protocol.messages.list_transactions import ListTransactionsRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(ListTransactionsRequest)
def list_transactions(
    node: Node, request: ListTransactionsRequest, context: RequestContext, ticket: PendingReply
) -> Step:
    """See `TransactionCoordinator.list_transactions`. An empty pattern is none. Raises KafkaError as `matcher` does."""
    coordinator = node.cluster.transactions.coordinator
    if not request.transactional_id_pattern:
        return coordinator.list_transactions(request, context, ticket)
    return coordinator.list_transactions(request, context, ticket, matcher(request.transactional_id_pattern))
