"""FindCoordinator: which node looks after a group, a transactional id or a share partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import PendingReply, answered, handles
from kshim.coordinator.step import OFFSETS_TOPIC, SHARE_STATE_TOPIC, RequestContext, Step, Ticket
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kshim_protocol.partitioner import partition_for

if TYPE_CHECKING:
    from kshim.broker.leader_election import ClusterNode
    from kshim.broker.node import Node


GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: OFFSETS_TOPIC, TRANSACTION: "__transaction_state", SHARE: SHARE_STATE_TOPIC}
FIRST_VERSION_BATCHED = 4
FIRST_VERSION_SHARE = 6
UUID_TEXT_LENGTH = 22


@handles(FindCoordinatorRequest)
def find_coordinator(
    node: Node, request: FindCoordinatorRequest, context: RequestContext, ticket: PendingReply
) -> Step:
    """Name the node that leads the partition a key belongs to, at once.

    Kafka refuses the first request with COORDINATOR_NOT_AVAILABLE while it makes the coordinator's topic; here the topic
    is there before the answer. The texts on success ("NONE" in v1-3, "" later) are those of a live 4.4. For share
    groups the node that was asked is named; the APIs that would be asked next are not listed.
    """
    version = context.api_version
    if request.key_type not in (GROUP, TRANSACTION, SHARE):
        return _refused(request, version, ticket, f"no key type {request.key_type}")
    if request.key_type == SHARE and version < FIRST_VERSION_SHARE:
        return _refused(request, version, ticket, f"share keys are known from version {FIRST_VERSION_SHARE} on")
    if request.key_type != SHARE or node.cluster.features.share_version:
        try:
            node.cluster.coordinators[TOPICS[request.key_type]].topic()
        except LogError as error:
            node.cluster.report(error, request)
            return answered(ticket, request.error_response(ErrorCode.COORDINATOR_NOT_AVAILABLE, version, str(error)))
    listener_name = ticket.connection.listener_name
    if version < FIRST_VERSION_BATCHED:
        found = _coordinator_of(node, request.key_type, request.key)
        host, port = found.address(listener_name)
        return answered(
            ticket,
            FindCoordinatorResponse(
                error_code=ErrorCode.NONE, error_message="NONE", node_id=found.node_id, host=host, port=port
            ),
        )
    return answered(
        ticket,
        FindCoordinatorResponse(
            coordinators=tuple(
                _coordinator(node, listener_name, request.key_type, key) for key in request.coordinator_keys
            )
        ),
    )


def _refused(request: FindCoordinatorRequest, version: int, ticket: Ticket, reason: str) -> Step:
    return answered(ticket, request.error_response(ErrorCode.INVALID_REQUEST, version, reason))


def _coordinator_of(node: Node, key_type: int, key: str) -> ClusterNode:
    cluster = node.cluster
    topic = cluster.topics.named(TOPICS.get(key_type, ""))
    if topic is None or not cluster.leadership.is_spread:
        return node
    return cluster.known_nodes[topic.partitions[partition_for(key, len(topic.partitions))].leader.leader_id]


def _coordinator(node: Node, listener_name: str, key_type: int, key: str) -> Coordinator:
    if key_type == SHARE and not is_share_key(key):
        return Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="a share key is GROUP:TOPIC_ID:PARTITION",
        )
    found = _coordinator_of(node, key_type, key)
    host, port = found.address(listener_name)
    return Coordinator(key=key, node_id=found.node_id, host=host, port=port)


def is_share_key(key: str) -> bool:
    """Whether it is `GROUP:TOPIC_ID:PARTITION`, the id as 22 characters of base64 (SharePartitionKey). Groups may have colons."""
    parts = key.rsplit(":", 2)
    return len(parts) == 3 and bool(parts[0]) and len(parts[1]) == UUID_TEXT_LENGTH and parts[2].isdigit()
