"""OffsetCommit: keep offsets of a group; answered when they are in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(OffsetCommitRequest)
def offset_commit(node: Node, request: OffsetCommitRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `GroupCoordinator.offset_commit`."""
    return node.cluster.coordinator.offset_commit(request, context, ticket)
