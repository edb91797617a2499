"""DeleteGroups: delete groups that have no members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(DeleteGroupsRequest)
def delete_groups(node: Node, request: DeleteGroupsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `GroupCoordinator.delete_groups`."""
    return node.cluster.coordinator.delete_groups(request, context, ticket)
