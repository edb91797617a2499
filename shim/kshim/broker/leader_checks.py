"""Whether a node may answer for a partition, and whom it names instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.partitions.partition import Partition


NOT_GIVEN = -1
E = TypeVar("E")


def check_leader(node: Node, partition: Partition, current_leader_epoch: int = NOT_GIVEN) -> None:
    """Raises KafkaError: NOT_LEADER_OR_FOLLOWER, whatever the epoch, for a node that has nothing of the partition;
    FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH when the client knows an older or newer one (KIP-320).
    """
    leader = partition.leader
    if leader.leader_id != node.node_id:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if current_leader_epoch not in (NOT_GIVEN, leader.leader_epoch):
        is_newer = current_leader_epoch > leader.leader_epoch
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH if is_newer else ErrorCode.FENCED_LEADER_EPOCH)


def endpoints(node: Node, listener_name: str, leader_ids: Iterable[int], endpoint: Callable[..., E]) -> tuple[E, ...]:
    """The addresses of live leaders, each once, for Fetch and Produce responses (KIP-951)."""
    found = []
    for leader_id in dict.fromkeys(leader_ids):
        if leader_id in node.cluster.leadership.live_ids:
            leader = node.cluster.known_nodes[leader_id]
            host, port = leader.address(listener_name)
            found.append(endpoint(node_id=leader_id, host=host, port=port, rack=leader.rack))
    return tuple(found)
