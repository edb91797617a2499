"""Which nodes of a cluster are live, and whose turn it is to lead a partition.

All nodes share the logs, so a partition can move at once: what changes is the node that serves it, and its leader epoch.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshim.storage.topic_spec import PartitionLeader


class Leadership:
    """`node_ids` are all nodes there are, `live_ids` those that run: both ascending.

    Partitions are given to live nodes in turn, from topic to topic, so that the first partitions of topics do not pile
    up on one node.
    """

    def __init__(self, node_ids: Iterable[int]) -> None:
        self.node_ids = sorted(node_ids)
        self.live_ids = list(self.node_ids)
        self._turn = 0
        self._new = {node_id: PartitionLeader(node_id, node_id) for node_id in self.node_ids}

    @property
    def is_spread(self) -> bool:
        """Whether there is more than one node."""
        return len(self.node_ids) > 1

    @property
    def node_count(self) -> int:
        """How many nodes there are, live or not."""
        return len(self.node_ids)

    @property
    def controller_id(self) -> int:
        """The live node with the lowest id; -1 when none is live."""
        return self.live_ids[0] if self.live_ids else -1

    def next_id(self) -> int:
        """The node whose turn it is to get a partition. While no node is live, all have a turn."""
        ids = self.live_ids or self.node_ids
        self._turn += 1
        return ids[(self._turn - 1) % len(ids)]

    def of_new(self, node_id: int | None = None) -> PartitionLeader:
        """The leader of a new partition: `node_id`, or whose turn it is."""
        return self._new[self.next_id() if node_id is None else node_id]

    def restored(self, stored: PartitionLeader) -> PartitionLeader:
        """The leader of a partition after a restart: as before, unless that node no longer exists."""
        preferred_id, leader_id, leader_epoch, _ = stored
        if leader_id in self.node_ids:
            self._turn += 1
            if preferred_id in self.node_ids:
                return stored
            return stored._replace(preferred_id=leader_id)
        leader_id = self.next_id()
        if preferred_id in self.node_ids:
            leader_id = preferred_id
        return stored._replace(preferred_id=leader_id, leader_id=leader_id, leader_epoch=leader_epoch + 1)
