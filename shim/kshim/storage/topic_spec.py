"""What outlives a restart of a topic besides its records."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class PartitionLeader(NamedTuple):
    """Who leads a partition. `preferred_id` is the node it was given to, `leader_id` the one that leads it now.

    `epochs` holds (epoch, its first offset), ascending, of all leader epochs that are remembered; epoch 0 from offset 0
    on goes without saying. An epoch without an entry yet begins where the log ends.
    """

    preferred_id: int
    leader_id: int
    leader_epoch: int = 0
    epochs: tuple[tuple[int, int], ...] = ()

    def replicas(self, live_ids: Collection[int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Ids of (replicas, those in sync, those offline) as Kafka would report them for this partition.

        Its one log is every node's. Said to have it are the preferred leader, first, and the leader if that is another.
        """
        leading = (self.leader_id,)
        if self.leader_id == self.preferred_id:
            return leading, leading, ()
        both = (self.preferred_id, self.leader_id)
        return (both, both, ()) if self.preferred_id in live_ids else (both, leading, both[:1])


class TopicSpec(NamedTuple):
    """A topic's identity and settings. `topic_id` has 16 bytes; `configs` holds only what was set for this topic.

    `leaders` has an entry a partition; empty: never chosen, for there was one node.
    """

    name: str
    topic_id: bytes
    partition_count: int
    configs: dict[str, str]
    leaders: tuple[PartitionLeader, ...] = ()
