"""LeaveGroup: members say that they go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.leave_group import LeaveGroupRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(LeaveGroupRequest)
def leave_group(node: Node, request: LeaveGroupRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `GroupCoordinator.leave_group`."""
    return node.cluster.coordinator.leave_group(request, context, ticket)
