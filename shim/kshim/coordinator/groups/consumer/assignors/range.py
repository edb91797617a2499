"""The assignor `range`: members get neighbouring partitions, and of equally partitioned topics those of equal numbers.

Source: Kafka's RangeAssignor of the group coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping

from kshim.coordinator.groups.consumer.assignors.subscribers import (
    PartitionCounts,
    Subscriber,
    Target,
    TopicPartition,
)


def assign_ranges(members: Mapping[str, Subscriber], counts: PartitionCounts) -> Target:
    """Divide each topic among its subscribers in the order of their ids; the first ones get the larger ranges.

    Static members come first, by instance id: restarts under new member ids change nothing.
    """
    ordered = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
    for topic in sorted({topic for member in members.values() for topic in member.topics}):
        subscribers = [member_id for member_id in ordered if topic in members[member_id].topics]
        size, larger_count = divmod(counts.get(topic, 0), len(subscribers))
        start = 0
        for place, member_id in enumerate(subscribers):
            end = start + size + (place < larger_count)
            assigned[member_id] += [(topic, index) for index in range(start, end)]
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _place(member_id: str, member: Subscriber) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member_id
