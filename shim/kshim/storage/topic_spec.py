"""What outlives a restart of a topic besides its records."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PartitionLeader", "TopicSpec"]


class PartitionLeader(NamedTuple):
    """Who leads a partition. `preferred_id` is the node it was given to, `leader_id` the one that leads it now.

    `epochs` holds (epoch, its first offset), ascending, of all leader epochs that are remembered; epoch 0 from offset 0
    on goes without saying. An epoch without an entry yet begins where the log ends.
    """

    preferred_id: int
    leader_id: int
    leader_epoch: int = 0
    epochs: tuple[tuple[int, int], ...] = ()


class TopicSpec(NamedTuple):
    """A topic's identity and settings. `topic_id` has 16 bytes; `configs` holds only what was set for this topic.

    `leaders` has an entry a partition; empty: never chosen, for there was one node.
    """

    name: str
    topic_id: bytes
    partition_count: int
    configs: dict[str, str]
    leaders: tuple[PartitionLeader, ...] = ()
