"""DescribeGroups: state, members and assignments of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(DescribeGroupsRequest)
def describe_groups(node: Node, request: DescribeGroupsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """See `GroupCoordinator.describe_groups`."""
    return node.cluster.coordinator.describe_groups(request, context, ticket)
