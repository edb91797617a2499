"""ListTransactions: the transactional ids that this node coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.list_transactions import ListTransactionsRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(ListTransactionsRequest)
def list_transactions(node: Node, request: ListTransactionsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `TransactionCoordinator.list_transactions`."""
    return node.cluster.transactions.list_transactions(request, context, ticket)
