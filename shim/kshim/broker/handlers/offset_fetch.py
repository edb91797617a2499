"""OffsetFetch: the committed offsets of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(OffsetFetchRequest)
def offset_fetch(node: Node, request: OffsetFetchRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `GroupCoordinator.offset_fetch`."""
    return node.cluster.coordinator.offset_fetch(request, context, ticket)
