"""What an assignor is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

TopicPartition = tuple[bytes, int]
"""Id of a topic, index of a partition."""


class Subscriber(NamedTuple):
    """A member as assignors see it: ids of the topics it subscribes to, and its target so far."""

    topics: frozenset[bytes]
    assigned: frozenset[TopicPartition] = frozenset()
    instance_id: str | None = None


PartitionCounts = Mapping[bytes, int]
"""How many partitions each topic has, by its id. Topics that are not in here do not exist."""

Target = dict[str, frozenset[TopicPartition]]
"""What each member is to own; every member is in it."""

Assignor = Callable[[Mapping[str, Subscriber], PartitionCounts], Target]


def partitions_of(topics: Iterable[bytes], counts: PartitionCounts) -> list[TopicPartition]:
    """All partitions of those of the topics that exist, in order."""
    return [(topic, index) for topic in sorted(topics) for index in range(counts.get(topic, 0))]
