"""The assignor `uniform`: members get equally many partitions, and keep as many of theirs as that allows.

Source: Kafka's UniformAssignor. Which partition goes to which of several equal members is not Kafka's choice: there the
order of hash tables decides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from kshim.coordinator.groups.consumer.assignors.subscribers import (
    PartitionCounts,
    Subscriber,
    Target,
    TopicPartition,
    partitions_of,
)


def assign_uniformly(members: Mapping[str, Subscriber], counts: PartitionCounts) -> Target:
    """Balance the partitions of all topics together.

    Where all subscribe to the same, sizes differ by one at most. Else no member could take a partition from another
    that has at least two more, not even by a chain of members that pass partitions on.
    """
    if len({member.topics for member in members.values()}) <= 1:
        return _among_equals(members, counts)
    return _among_different(members, counts)


def _among_equals(members: Mapping[str, Subscriber], counts: PartitionCounts) -> Target:
    if not members:
        return {}
    partitions = partitions_of(next(iter(members.values())).topics, counts)
    size, larger_count = divmod(len(partitions), len(members))
    kept, free = _kept(members, partitions)
    left_over: set[TopicPartition] = set(free)
    # Who has more than its share keeps one more than the others, as long as there are such shares.
    for member_id in sorted(members):
        quota = size
        if len(kept[member_id]) > size and larger_count:
            quota += 1
            larger_count -= 1
        left_over.update(kept[member_id][quota:])
        del kept[member_id][quota:]
    missing = iter(sorted(left_over))
    for member_id in sorted(members, key=lambda member_id: (len(kept[member_id]), member_id)):
        while len(kept[member_id]) < size:
            kept[member_id].append(next(missing))
    for member_id in sorted(members):
        if larger_count and len(kept[member_id]) == size:
            kept[member_id].append(next(missing))
            larger_count -= 1
    return {member_id: frozenset(found) for member_id, found in kept.items()}


def _among_different(members: Mapping[str, Subscriber], counts: PartitionCounts) -> Target:
    subscribers: dict[bytes, list[str]] = {}
    for member_id in sorted(members):
        for topic in members[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
    kept, free = _kept(members, partitions_of(subscribers, counts))
    owned = {member_id: set(found) for member_id, found in kept.items()}
    # Partitions that few can take go first.
    for partition in sorted(free, key=lambda free: (len(subscribers[free[0]]), free)):
        taker = min(subscribers[partition[0]], key=lambda member_id: (len(owned[member_id]), member_id))
        owned[taker].add(partition)
    _balance(owned, subscribers)
    _balance_by_chains(owned, subscribers)
    return {member_id: frozenset(found) for member_id, found in owned.items()}


def _balance(owned: dict[str, set[TopicPartition]], subscribers: Mapping[bytes, list[str]]) -> None:
    """Move partitions from larger members to smaller ones until no move makes two members more equal.

    Each move lowers the sum of the squares of the sizes, so it ends.
    """
    moved = True
    while moved:
        moved = False
        for giver in sorted(owned, key=lambda member_id: (-len(owned[member_id]), member_id)):
            by_topic: dict[bytes, list[TopicPartition]] = {}
            for partition in sorted(owned[giver], reverse=True):
                by_topic.setdefault(partition[0], []).append(partition)
            takers = [(len(owned[taker]), taker, topic) for topic in by_topic for taker in subscribers[topic]]
            heapify(takers)
            while takers:
                size, taker, topic = heappop(takers)
                if size + 2 > len(owned[giver]):
                    break
                if size != len(owned[taker]):
                    heappush(takers, (len(owned[taker]), taker, topic))
                elif by_topic[topic]:
                    partition = by_topic[topic].pop()
                    owned[giver].remove(partition)
                    owned[taker].add(partition)
                    heappush(takers, (size + 1, taker, topic))
                    moved = True


def _balance_by_chains(owned: dict[str, set[TopicPartition]], subscribers: Mapping[bytes, list[str]]) -> None:
    """Move partitions along chains of members: a member that shares no topic with a smaller one may give to one that does.

    From the largest members on, until no chain makes two members more equal. Whom the largest can reach without finding a
    smaller one is settled: no chain leaves those members any more.
    """
    unsettled = set(owned)
    while unsettled:
        size = max(len(owned[member_id]) for member_id in unsettled)
        largest = sorted(member_id for member_id in unsettled if len(owned[member_id]) == size)
        reached: dict[str, tuple[str, bytes] | None] = dict.fromkeys(largest)  # from whom, and with which topic
        waiting = deque(largest)
        while waiting:
            giver = waiting.popleft()
            if len(owned[giver]) + 2 <= size:
                _move_along(owned, reached, giver)
                break
            for topic in sorted({topic for topic, _ in owned[giver]}):
                for taker in subscribers[topic]:
                    if taker not in reached:
                        reached[taker] = giver, topic
                        waiting.append(taker)
        else:
            unsettled.difference_update(reached)


def _move_along(
    owned: dict[str, set[TopicPartition]], reached: Mapping[str, tuple[str, bytes] | None], last: str
) -> None:
    """Each member of the chain that ends with `last` gets a partition of the one before it."""
    taker = last
    while (link := reached[taker]) is not None:
        giver, topic = link
        partition = max(found for found in owned[giver] if found[0] == topic)
        owned[giver].remove(partition)
        owned[taker].add(partition)
        taker = giver


def _kept(
    members: Mapping[str, Subscriber], partitions: list[TopicPartition]
) -> tuple[dict[str, list[TopicPartition]], set[TopicPartition]]:
    """(what each member has and may still have, in order; partitions that nobody has)."""
    free = set(partitions)
    kept: dict[str, list[TopicPartition]] = {}
    for member_id in sorted(members):
        member = members[member_id]
        kept[member_id] = sorted(found for found in member.assigned if found in free and found[0] in member.topics)
        free.difference_update(kept[member_id])
    return kept, free
