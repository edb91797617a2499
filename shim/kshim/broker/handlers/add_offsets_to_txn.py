"""AddOffsetsToTxn: a transaction is going to commit offsets of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(AddOffsetsToTxnRequest)
def add_offsets_to_txn(node: Node, request: AddOffsetsToTxnRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `TransactionCoordinator.add_offsets_to_txn`."""
    return node.cluster.transactions.add_offsets_to_txn(request, context, ticket)
