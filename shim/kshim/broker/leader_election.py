"""Giving partitions to other nodes: because one ends, because one is back, or because somebody says so.

The logs are shared, so nothing is copied. A partition that moves gets a new leader epoch; Fetches that wait in it are
answered NOT_LEADER_OR_FOLLOWER; a coordinator's shard is given up (who is parked in it gets NOT_COORDINATOR) and read
from its log again (COORDINATOR_LOAD_IN_PROGRESS meanwhile), as Kafka's new leader does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.partitions.topics import Partition


def stop_node(cluster: Cluster, node_id: int) -> None:
    """End a node as SIGTERM ends a Kafka: what it leads goes to live nodes first, then its clients are cut off.

    It stays the preferred leader of its partitions. The last one may be stopped, too: then nobody leads anything until
    one is started. Nothing, if the node is not live. Raises LookupError for a node there never was.
    """
    node = cluster.known_nodes[node_id]
    live_ids = cluster.leadership.live_ids
    if node_id not in live_ids:
        return
    live_ids.remove(node_id)
    cluster.nodes = [other for other in cluster.nodes if other is not node]
    _find_leaders(cluster)
    node.on_stop()


def start_node(cluster: Cluster, node_id: int) -> None:
    """Have a node that was stopped accept clients again, on the port it had.

    It leads new partitions in its turn, and those that nobody leads. As in Kafka, others come back to it only when
    they are moved or their preferred leader is elected. Nothing, if the node is live. Raises LookupError for a node
    there never was; OSError when its port is taken.
    """
    node = cluster.known_nodes[node_id]
    leadership = cluster.leadership
    if node_id in leadership.live_ids:
        return
    node.on_start()
    leadership.live_ids = sorted((*leadership.live_ids, node_id))
    cluster.nodes = [cluster.known_nodes[live_id] for live_id in leadership.live_ids]
    _find_leaders(cluster)


def move(cluster: Cluster, topic: str, partition: int, to: int) -> None:
    """Have the node `to` lead a partition, and be its preferred leader. Nothing, if it is both.

    Raises LookupError for a partition or a node there is not; ValueError when the node is not live; LogError when that
    cannot be stored, with all as it was.
    """
    found = cluster.topics.partition(topic, partition)
    if found is None:
        raise LookupError(f"there is no partition {topic}-{partition}")
    move_all(cluster, {found: to})


def move_all(cluster: Cluster, moves: dict[Partition, int]) -> None:
    """As `move`, for several, all or none."""
    for node_id in moves.values():
        if node_id not in cluster.known_nodes:
            raise LookupError(f"there is no node {node_id}")
        if node_id not in cluster.leadership.live_ids:
            raise ValueError(f"node {node_id} is stopped")
    preferring = {partition: to for partition, to in moves.items() if _place(partition) != (to, to)}
    _lead(cluster, preferring, preferring.__getitem__)


def elect(cluster: Cluster, partitions: Iterable[Partition]) -> None:
    """Have each partition led by its preferred leader, which is live. Raises LogError as `move` does."""
    chosen = {partition: partition.leader.preferred_id for partition in partitions}
    _lead(cluster, chosen, chosen.__getitem__)


def _place(partition: Partition) -> tuple[int, int]:
    return partition.leader.leader_id, partition.leader.preferred_id


def _find_leaders(cluster: Cluster) -> None:
    """Give the partitions of nodes that are not live to live ones; without any, only say so to who waits."""
    leadership = cluster.leadership
    orphans = {
        partition: partition.leader.preferred_id
        for topic in cluster.topics
        for partition in topic.partitions
        if partition.leader.leader_id not in leadership.live_ids
    }
    if not leadership.live_ids:
        _moved(cluster, orphans)
        return
    for partition, preferred_id in orphans.items():
        if preferred_id not in leadership.live_ids:
            orphans[partition] = leadership.next_id()
    try:
        _lead(cluster, orphans, lambda partition: partition.leader.preferred_id)
    except LogError as error:  # a node that ends cannot go on leading, whatever can be stored
        cluster.report(error, None)
        _begin(orphans, lambda partition: partition.leader.preferred_id)
        _moved(cluster, orphans)


def _lead(cluster: Cluster, leaders: dict[Partition, int], preferred: Callable[[Partition], int]) -> None:
    """Begin the new epochs, store them, and tell who waits. Raises LogError, with all as it was."""
    if not leaders:
        return
    before = {partition: partition.leader for partition in leaders}
    _begin(leaders, preferred)
    try:
        cluster.topics.save()
    except LogError:
        for partition, leader in before.items():
            partition.end_epoch(leader)
        raise
    _moved(cluster, leaders)


def _begin(leaders: dict[Partition, int], preferred: Callable[[Partition], int]) -> None:
    for partition, leader_id in leaders.items():
        partition.begin_epoch(leader_id, preferred_id=preferred(partition))


def _moved(cluster: Cluster, partitions: Iterable[Partition]) -> None:
    """Whoever waits at the old leader has to hear that it is not the leader any more."""
    is_led = bool(cluster.leadership.live_ids)
    for partition in partitions:
        cluster.fetch_purgatory.release(partition)
        loads = cluster.loads_of(partition)
        if loads is not None:
            loads.moved(partition.index, is_led=is_led)
