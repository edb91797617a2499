"""EndTxn: commit or abort a transaction; answered when that is in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.end_txn import EndTxnRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(EndTxnRequest)
def end_txn(node: Node, request: EndTxnRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `TransactionCoordinator.end_txn`."""
    return node.cluster.transactions.end_txn(request, context, ticket)
