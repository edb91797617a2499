"""ListPartitionReassignments: partitions on the move (KIP-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node


@handles(ListPartitionReassignmentsRequest)
def list_partition_reassignments(
    node: Node, request: ListPartitionReassignmentsRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """None: a partition has moved when its reassignment is answered. Topics there are not are left out, as in Kafka."""
    return answered(
        ticket, ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=())
    )
