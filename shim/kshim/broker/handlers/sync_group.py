"""SyncGroup: a member asks for its assignment; waits until the leader has sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(SyncGroupRequest)
def sync_group(node: Node, request: SyncGroupRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `GroupCoordinator.sync_group`."""
    return node.cluster.coordinator.sync_group(request, context, ticket)
