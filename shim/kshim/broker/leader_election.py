"""Moving partitions to other nodes: when a node stops or returns, or on request.

The logs are shared, so nothing is copied. A partition that moves gets a new leader epoch; Fetches that wait in it are
answered NOT_LEADER_OR_FOLLOWER; a coordinator's shard is unloaded (waiting requests get NOT_COORDINATOR) and read
from its log again (COORDINATOR_LOAD_IN_PROGRESS meanwhile), as Kafka's new leader does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.partitions.leadership import Leadership
    from kshim.partitions.partition import Partition
    from kshim.partitions.topics import Topics


class ClusterNode(Protocol):
    """A node as the others see it."""

    @property
    def node_id(self) -> int: ...

    @property
    def rack(self) -> str | None:
        """Where it is, if that is known."""

    def address(self, listener_name: str) -> tuple[str, int]:
        """Host and port that the clients of a listener dial."""

    def on_stop(self) -> None:
        """Cut off its clients, and accept no more."""

    def on_kill(self) -> None:
        """The same, without a last answer to anybody."""

    def end_share_sessions(self) -> None:
        """Forget the sessions of members of share groups."""

    def on_start(self) -> None:
        """Accept clients again. Raises OSError when its port is taken."""


class LeaderElection:
    """The nodes of a cluster, and the leaders of its partitions. `on_moved(partition, is_led)` is called for each partition whose
    leader has changed, or that has no leader any more."""

    def __init__(
        self,
        leadership: Leadership,
        topics: Topics,
        *,
        on_moved: Callable[[Partition, bool], None],
        report: Callable[[BaseException, object], None],
    ) -> None:
        self._leadership = leadership
        self._topics = topics
        self._on_moved = on_moved
        self._report = report
        self.known_nodes: dict[int, ClusterNode] = {}
        """All nodes by id, live or not."""
        self.nodes: list[ClusterNode] = []
        """Those that are live, by id."""

    def add_node(self, node: ClusterNode) -> None:
        """A node is there, and live. To be called before requests come. Raises ValueError for an id not foreseen."""
        node_ids = self._leadership.node_ids
        if node.node_id not in node_ids:
            raise ValueError(f"unknown node {node.node_id}: the nodes of this cluster are {node_ids}")
        self.known_nodes[node.node_id] = node
        self._find_live()

    def known_node(self, node_id: int) -> ClusterNode:
        """A node, live or not. Raises LookupError for one there never was."""
        node = self.known_nodes.get(node_id)
        if node is None:
            raise LookupError(
                f"unknown broker {node_id}: the brokers of this cluster are {', '.join(map(str, sorted(self.known_nodes)))}"
            )
        return node

    def stop_node(self, node_id: int) -> None:
        """End a node as SIGTERM ends a Kafka: what it leads goes to live nodes first, then its clients are cut off.

        It stays the preferred leader of its partitions. The last one may be stopped, too: then no partition has a leader
        until one is started. Nothing, if the node is not live. Raises LookupError for a node there never was.
        """
        self._topics.operation("stop-node", {"node": node_id}, lambda: self._stop_node(node_id))

    def _stop_node(self, node_id: int) -> None:
        node = self.known_node(node_id)
        live_ids = self._leadership.live_ids
        if node_id not in live_ids:
            return
        live_ids.remove(node_id)
        self._find_live()
        self._find_leaders()
        node.on_stop()

    def kill_node(self, node_id: int) -> None:
        """End a node as SIGKILL ends a Kafka: its clients are cut off first, with no answer; then others lead what it led.

        Nothing, if the node is not live. Raises LookupError for a node there never was.
        """
        self.known_node(node_id).on_kill()
        self.stop_node(node_id)

    def start_node(self, node_id: int) -> None:
        """Have a node that was stopped accept clients again, on the port it had.

        It leads new partitions in turn, and those without a leader. As in Kafka, others return to it only when
        they are moved or their preferred leader is elected. Nothing, if the node is live. Raises LookupError for a node
        there never was; OSError when its port is taken.
        """
        self._topics.operation("start-node", {"node": node_id}, lambda: self._start_node(node_id))

    def _start_node(self, node_id: int) -> None:
        node = self.known_node(node_id)
        live_ids = self._leadership.live_ids
        if node_id in live_ids:
            return
        node.on_start()
        self._leadership.live_ids = sorted((*live_ids, node_id))
        self._find_live()
        self._find_leaders(of_all=not live_ids)

    def move(self, topic: str, partition: int, to: int) -> None:
        """Have the node `to` lead a partition, and be its preferred leader. Nothing, if it is both.

        Raises LookupError for a partition or a node there is not; ValueError when the node is not live; LogError when
        that cannot be stored, with all as it was.
        """
        where = {"topic": topic, "partition": partition, "to": to}
        self._topics.operation("move", where, lambda: self._move(topic, partition, to))

    def _move(self, topic: str, partition: int, to: int) -> None:
        found = self._topics.partition(topic, partition)
        if found is None:
            raise LookupError(f"partition {topic}-{partition} does not exist")
        self.move_all({found: to})

    def move_all(self, leader_ids: dict[Partition, int]) -> None:
        """As `move`, for several, all or none."""
        for node_id in leader_ids.values():
            self.known_node(node_id)
            if node_id not in self._leadership.live_ids:
                raise ValueError(f"node {node_id} is stopped")
        changed = {partition: to for partition, to in leader_ids.items() if _place(partition) != (to, to)}
        self._lead(changed, changed.__getitem__)

    def elect(self, partitions: Iterable[Partition]) -> None:
        """Have each partition led by its preferred leader, which is live. Raises LogError as `move` does."""
        chosen = {partition: partition.leader.preferred_id for partition in partitions}
        self._lead(chosen, chosen.__getitem__)

    def _find_live(self) -> None:
        live_ids = self._leadership.live_ids
        self.nodes = [self.known_nodes[node_id] for node_id in sorted(self.known_nodes) if node_id in live_ids]

    def _find_leaders(self, *, of_all: bool = False) -> None:
        """Give the partitions of nodes that are not live to live ones; without any, only answer waiting requests.

        `of_all`: no node was live, so that no partition had a leader, whichever it names.
        """
        live_ids = self._leadership.live_ids
        orphans = {
            partition: partition.leader.preferred_id
            for topic in self._topics
            for partition in topic.partitions
            if of_all or partition.leader.leader_id not in live_ids
        }
        if not live_ids:
            self._moved(orphans)
            return
        for partition, preferred_id in orphans.items():
            if preferred_id not in live_ids:
                orphans[partition] = self._leadership.next_id()
        try:
            self._lead(orphans, lambda partition: partition.leader.preferred_id)
        except LogError as error:  # a node that ends cannot go on leading, whatever can be stored
            self._report(error, None)
            _begin(orphans, lambda partition: partition.leader.preferred_id)
            self._moved(orphans)

    def _lead(self, leader_ids: dict[Partition, int], preferred: Callable[[Partition], int]) -> None:
        """Begin the new epochs, store them, and answer waiting requests. Raises LogError, with all as it was."""
        if not leader_ids:
            return
        before = {partition: partition.leader for partition in leader_ids}
        _begin(leader_ids, preferred)
        try:
            self._topics.save()
        except LogError:
            for partition, leader in before.items():
                partition.end_epoch(leader)
            raise
        self._moved(leader_ids)

    def _moved(self, partitions: Iterable[Partition]) -> None:
        """Answer the Fetches that wait at the old leader, and report each partition as moved."""
        is_led = bool(self._leadership.live_ids)
        for partition in partitions:
            partition.release_fetches()
            self._on_moved(partition, is_led)


def _place(partition: Partition) -> tuple[int, int]:
    return partition.leader.leader_id, partition.leader.preferred_id


def _begin(leader_ids: dict[Partition, int], preferred: Callable[[Partition], int]) -> None:
    for partition, leader_id in leader_ids.items():
        partition.begin_epoch(leader_id, preferred_id=preferred(partition))
