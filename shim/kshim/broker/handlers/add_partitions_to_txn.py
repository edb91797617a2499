"""AddPartitionsToTxn: which partitions a transaction is going to write to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(AddPartitionsToTxnRequest)
def add_partitions_to_txn(
    node: Node, request: AddPartitionsToTxnRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """See `TransactionCoordinator.add_partitions_to_txn`."""
    return node.cluster.transactions.add_partitions_to_txn(request, context, ticket)
