"""JoinGroup: a member asks to be in the next generation of its group; waits until the join phase ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.join_group import JoinGroupRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(JoinGroupRequest)
def join_group(node: Node, request: JoinGroupRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `GroupCoordinator.join_group`."""
    return node.cluster.coordinator.join_group(request, context, ticket)
