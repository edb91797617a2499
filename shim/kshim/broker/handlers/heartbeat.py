"""Heartbeat: a member says that it lives and learns whether to join again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.heartbeat import HeartbeatRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(HeartbeatRequest)
def heartbeat(node: Node, request: HeartbeatRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `GroupCoordinator.heartbeat`."""
    return node.cluster.coordinator.heartbeat(request, context, ticket)
