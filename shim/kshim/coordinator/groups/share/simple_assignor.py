"""The `simple` assignor: partitions are shared evenly, by several members where there are more members than partitions.

Source: Kafka's SimpleAssignor and its two builders (KIP-932). Which of several equal partitions a member is given or gives
up follows there from the order of hash tables, and so it does here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import ceil
from typing import Final

from kshim.coordinator.groups.consumer.assignors.subscribers import Subscriber, Target, TopicPartition
from kshim.coordinator.hash_order import (
    computed_hash_map_order,
    hash_map_order,
    hash_set_order,
    topic_id_and_index_hash,
    uuid_hash,
)

SIMPLE: Final = "simple"
"""Its name."""


def assign_simply(members: Mapping[str, Subscriber], assignable: Mapping[bytes, Collection[int]]) -> Target:
    """What each member is to read. `assignable` are the partitions whose share state is there, by topic.

    Members that all want the same share all partitions evenly, others each topic. A topic that nobody wants any more is
    taken from nobody as long as somebody wants another one: its members do not get it anyway. `members` and `assignable` are
    in the order in which Kafka goes through them.
    """
    wishes = {member.topics for member in members.values()}
    if not any(wishes):
        return dict.fromkeys(members, frozenset())
    everybody = range(len(members))
    assigned = [member.assigned for member in members.values()]
    if len(wishes) == 1:
        topics = next(iter(wishes))
        wanted = [frozenset(place for place in places if place[0] in topics) for places in assigned]
        partitions = [(topic, index) for topic in assignable if topic in topics for index in sorted(assignable[topic])]
        shares = _share(everybody, partitions, wanted, _hash_of_place)
        return {member_id: frozenset(share) for member_id, share in zip(members, shares, strict=True)}
    found = [set(places) for places in assigned]
    for topic in frozenset().union(*wishes):
        of_topic = [frozenset(place for place in places if place[0] == topic) for places in assigned]
        subscribers = [at for at, member in enumerate(members.values()) if topic in member.topics]
        partitions = [(topic, index) for index in sorted(assignable.get(topic, ()))]
        shares = _share(subscribers, partitions, of_topic, _hash_of_index)
        for places, before, share in zip(found, of_topic, shares, strict=True):
            places -= before
            places |= share
    return {member_id: frozenset(places) for member_id, places in zip(members, found, strict=True)}


def _as_kept(places: Collection[TopicPartition]) -> list[TopicPartition]:
    """In the order of the tables of Kafka that a target is kept in."""
    topics: dict[bytes, list[int]] = {}
    for topic, index in sorted(places):
        topics.setdefault(topic, []).append(index)
    return [
        (topic, index)
        for topic in hash_map_order(topics, hash_of=uuid_hash)
        for index in hash_set_order(topics[topic], hash_of=int)
    ]


def _hash_of_place(place: TopicPartition) -> int:
    return topic_id_and_index_hash(*place)


def _hash_of_index(place: TopicPartition) -> int:
    return place[1]


def _share(
    subscribers: Sequence[int],
    partitions: Sequence[TopicPartition],
    assigned: Sequence[frozenset[TopicPartition]],
    hash_of: Callable[[TopicPartition], int],
) -> list[set[TopicPartition]]:
    """Each partition to `sharing` of the subscribers, and each of them its quota; as much as possible of what is assigned stays.

    Members go by their place; `assigned` is what each has before, the answer what each is to have.
    """
    sharing = -(-len(subscribers) // len(partitions)) if partitions else 0
    average = sharing * len(partitions) / len(subscribers)  # rounded as in Kafka, in whose sums that can be one more
    quotas = [0] * len(assigned)
    for place, member in enumerate(subscribers):
        quotas[member] = ceil(average * (place + 1)) - ceil(average * place)
    shares: list[set[TopicPartition]] = []
    holders: dict[TopicPartition, list[int]] = {}
    looked_at: list[TopicPartition] = []
    for member, places in enumerate(assigned):
        kept = _as_kept(places)
        looked_at += kept
        in_order = hash_map_order(kept, hash_of=hash_of)
        for partition in kept:
            holders.setdefault(partition, []).append(member)
        surplus = max(0, len(in_order) - quotas[member])
        shares.append(set(in_order[surplus:]))
    for partition, had_by in holders.items():
        having = [member for member in hash_map_order(had_by, hash_of=int) if partition in shares[member]]
        surplus = max(0, len(having) - sharing)
        for member in having[:surplus]:
            shares[member].remove(partition)
        holders[partition] = having[surplus:]
    for partition in partitions:
        holders.setdefault(partition, [])
    unfilled = [member for member in subscribers if len(shares[member]) < quotas[member]]
    in_table = computed_hash_map_order([*looked_at, *partitions], _capacity(len(partitions)), hash_of)
    _fill(shares, quotas, unfilled, sharing, holders, in_table)
    return shares


def _fill(
    shares: list[set[TopicPartition]],
    quotas: Sequence[int],
    unfilled: list[int],
    sharing: int,
    holders: Mapping[TopicPartition, Sequence[int]],
    partitions: Sequence[TopicPartition],
) -> None:
    """Go round the members that have less than their quota, and give each the next partition that it does not have."""
    at, has_given = 0, False
    for partition in partitions:
        missing = sharing - len(holders[partition])
        while missing > 0 and unfilled:
            if at == len(unfilled):
                if not has_given:
                    break
                at, has_given = 0, False
            member = unfilled[at]
            if member in holders[partition]:
                at += 1
                continue
            shares[member].add(partition)
            missing -= 1
            has_given = True
            if len(shares[member]) < quotas[member]:
                at += 1
            else:
                del unfilled[at]


def _capacity(count: int) -> int:
    """Of a table that Kafka makes for so many."""
    return int((count + 1) / 0.75 + 1)
