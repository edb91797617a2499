"""OffsetDelete: forget offsets of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.offset_delete import OffsetDeleteRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(OffsetDeleteRequest)
def offset_delete(node: Node, request: OffsetDeleteRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `GroupCoordinator.offset_delete`."""
    return node.cluster.coordinator.offset_delete(request, context, ticket)
