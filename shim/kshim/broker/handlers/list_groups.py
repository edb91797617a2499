"""ListGroups: the groups, filtered by state and type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.list_groups import ListGroupsRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(ListGroupsRequest)
def list_groups(node: Node, request: ListGroupsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `GroupCoordinator.list_groups`."""
    return node.cluster.coordinator.list_groups(request, context, ticket)
