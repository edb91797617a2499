"""FindCoordinator: which node looks after a group, a transactional id or a share partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.router import PendingReply, answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from kshim.broker.node import Node

__all__ = ["find_coordinator"]

GROUP, TRANSACTION, SHARE = 0, 1, 2
FIRST_VERSION_BATCHED = 4
FIRST_VERSION_SHARE = 6
UUID_TEXT_LENGTH = 22


@handles(FindCoordinatorRequest)
def find_coordinator(
    node: Node, request: FindCoordinatorRequest, context: RequestContext, ticket: PendingReply
) -> Step:
    """Name this node, at once.

    Kafka refuses the first request with COORDINATOR_NOT_AVAILABLE while it makes the offsets topic; here the topic is
    there before the answer. The texts on success ("NONE" in v1-3, "" later) are those of a live 4.4. Transactions and
    share groups: the node is named, the APIs that would be asked next are not listed.
    """
    version = context.api_version
    if request.key_type not in (GROUP, TRANSACTION, SHARE):
        return _refused(request, version, ticket, f"no key type {request.key_type}")
    if request.key_type == SHARE and version < FIRST_VERSION_SHARE:
        return _refused(request, version, ticket, f"share keys are known from version {FIRST_VERSION_SHARE} on")
    if request.key_type == GROUP:
        try:
            node.cluster.offsets_topic()
        except LogError as error:
            node.cluster.defect(error, request)
            return answered(ticket, request.error_response(ErrorCode.COORDINATOR_NOT_AVAILABLE, version, str(error)))
    host, port = node.address(ticket.connection.listener_name)
    if version < FIRST_VERSION_BATCHED:
        return answered(
            ticket,
            FindCoordinatorResponse(
                error_code=ErrorCode.NONE, error_message="NONE", node_id=node.node_id, host=host, port=port
            ),
        )
    return answered(
        ticket,
        FindCoordinatorResponse(
            coordinators=tuple(
                _coordinator(node.node_id, host, port, request.key_type, key) for key in request.coordinator_keys
            )
        ),
    )


def _refused(request: FindCoordinatorRequest, version: int, ticket: Ticket, reason: str) -> Step:
    return answered(ticket, request.error_response(ErrorCode.INVALID_REQUEST, version, reason))


def _coordinator(node_id: int, host: str, port: int, key_type: int, key: str) -> Coordinator:
    if key_type == SHARE and not is_share_key(key):
        return Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="a share key is GROUP:TOPIC_ID:PARTITION",
        )
    return Coordinator(key=key, node_id=node_id, host=host, port=port)


def is_share_key(key: str) -> bool:
    """Whether it is `GROUP:TOPIC_ID:PARTITION`, the id as 22 characters of base64 (SharePartitionKey)."""
    parts = key.split(":")
    return len(parts) == 3 and bool(parts[0]) and len(parts[1]) == UUID_TEXT_LENGTH and parts[2].isdigit()
