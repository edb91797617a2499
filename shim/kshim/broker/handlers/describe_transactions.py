"""DescribeTransactions: what is known of transactional ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.describe_transactions import DescribeTransactionsRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(DescribeTransactionsRequest)
def describe_transactions(
    node: Node, request: DescribeTransactionsRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """See `TransactionCoordinator.describe_transactions`."""
    return node.cluster.transactions.describe_transactions(request, context, ticket)
