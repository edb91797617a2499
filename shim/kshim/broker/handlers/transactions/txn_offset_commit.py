"""TxnOffsetCommit: offsets that count once a transaction commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import OFFSETS_TOPIC, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(TxnOffsetCommitRequest)
def txn_offset_commit(node: Node, request: TxnOffsetCommitRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `GroupCoordinator.txn_offset_commit`. Another coordinator knows whether the transaction has the group."""
    cluster = node.cluster

    def verify(partition: int) -> ErrorCode:
        return cluster.transactions.coordinator.verify(
            request.transactional_id, request.producer_id, request.producer_epoch, OFFSETS_TOPIC, partition
        )

    return cluster.groups.coordinator.txn_offset_commit(request, context, ticket, verify)
