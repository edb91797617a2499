"""The `simple` assignor: partitions are shared evenly, by several members where there are more members than partitions.

Source: Kafka's SimpleAssignor and its two builders (KIP-932). Which of several equal partitions a member gives up follows
there from the order of hash maps, here from their own order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kshim.coordinator.groups.consumer.assignors.subscribers import Subscriber, Target, TopicPartition

SIMPLE: Final = "simple"
"""Its name."""


def assign_simply(members: Mapping[str, Subscriber], assignable: Mapping[bytes, Collection[int]]) -> Target:
    """What each member is to read. `assignable` are the partitions whose share state is there, by topic.

    Members that all want the same share all partitions evenly, others each topic. A topic that nobody wants any more is
    taken from nobody as long as somebody wants another one: its members do not get it anyway.
    """
    wishes = {member.topics for member in members.values()}
    if not any(wishes):
        return dict.fromkeys(members, frozenset())
    if len(wishes) == 1:
        partitions = _partitions(next(iter(wishes)), assignable)
        assigned = {member_id: member.assigned for member_id, member in members.items()}
        return _share(list(members), partitions, assigned)
    found = {member_id: set(member.assigned) for member_id, member in members.items()}
    for topic in sorted(frozenset().union(*wishes)):
        subscribers = [member_id for member_id, member in members.items() if topic in member.topics]
        of_topic = {
            member_id: frozenset(place for place in members[member_id].assigned if place[0] == topic)
            for member_id in subscribers
        }
        shares = _share(subscribers, _partitions({topic}, assignable), of_topic)
        for member_id, partitions_of_member in found.items():
            partitions_of_member -= {place for place in partitions_of_member if place[0] == topic}
            partitions_of_member |= shares.get(member_id, frozenset())
    return {member_id: frozenset(partitions_of_member) for member_id, partitions_of_member in found.items()}


def _partitions(topics: Collection[bytes], assignable: Mapping[bytes, Collection[int]]) -> list[TopicPartition]:
    return [(topic, index) for topic in sorted(topics) for index in sorted(assignable.get(topic, ()))]


def _share(
    members: Sequence[str], partitions: Sequence[TopicPartition], assigned: Mapping[str, frozenset[TopicPartition]]
) -> Target:
    """Each partition to `sharing` members, and each member its quota; as much as possible of what is assigned stays."""
    if not partitions:
        return dict.fromkeys(members, frozenset())
    sharing = -(-len(members) // len(partitions))
    slots = sharing * len(partitions)
    quotas = {
        member_id: -(-slots * (place + 1) // len(members)) - -(-slots * place // len(members))
        for place, member_id in enumerate(members)
    }
    kept = {member_id: [place for place in partitions if place in assigned[member_id]] for member_id in members}
    held = {place: [member_id for member_id in members if place in assigned[member_id]] for place in partitions}
    for place, holders in held.items():  # too many members: who has too much gives up first
        by_fullness = sorted(holders, key=lambda member_id: len(kept[member_id]) <= quotas[member_id])
        for member_id in by_fullness[: max(0, len(holders) - sharing)]:
            kept[member_id].remove(place)
            holders.remove(member_id)
    for member_id in members:  # too many partitions
        while len(kept[member_id]) > quotas[member_id]:
            held[kept[member_id].pop()].remove(member_id)
    for place in partitions:
        for member_id in members:
            if len(held[place]) >= sharing:
                break
            if len(kept[member_id]) < quotas[member_id] and member_id not in held[place]:
                kept[member_id].append(place)
                held[place].append(member_id)
    return {member_id: frozenset(found) for member_id, found in kept.items()}
