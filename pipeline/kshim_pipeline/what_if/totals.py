"""What a strategy costs a group."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Totals:
    """Sums over all changes of one group.

    `notifications`: messages or watches that make a member act. `generations`: agreed assignments (ZooKeeper: rounds,
    since there is no agreed number). `moved_partitions`: partitions that changed from one owner to another.
    `stopped_partition_ms`: time in which a partition that had an owner was not processed, summed over partitions.
    `split_views`: members that computed their share from a view that was about to change (ZooKeeper only).
    """

    notifications: int = 0
    generations: int = 0
    moved_partitions: int = 0
    stopped_partition_ms: float = 0.0
    split_views: int = 0
