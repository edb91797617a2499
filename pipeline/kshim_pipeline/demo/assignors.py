"""Two assignors, as the leader runs them, and the bytes they travel in."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from kshim_protocol.codec import codec
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition

_VERSION = 3

Partitions = frozenset[tuple[str, int]]
"""Topic and partition, assigned or owned."""


def build_subscription(topics: tuple[str, ...], owned: Partitions, generation_id: int) -> bytes:
    """The metadata of a JoinGroup protocol."""
    subscription = ConsumerProtocolSubscription(
        topics=topics, owned_partitions=_by_topic(owned), generation_id=generation_id
    )
    return struct.pack(">h", _VERSION) + codec(ConsumerProtocolSubscription, _VERSION).build(subscription)


def build_assignment(partitions: Partitions) -> bytes:
    """What a member gets in SyncGroup."""
    assignment = ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions))
    return struct.pack(">h", _VERSION) + codec(ConsumerProtocolAssignment, _VERSION).build(assignment)


def parse_assignment(data: bytes) -> Partitions:
    """The partitions; none when the leader gave nothing at all."""
    if not data:
        return frozenset()
    assignment, _ = codec(ConsumerProtocolAssignment, _VERSION).parse(data, 2)
    return _flat(assignment.assigned_partitions)


def assign(
    members: Mapping[str, bytes], partition_counts: Mapping[str, int], *, protocol_name: str
) -> dict[str, Partitions]:
    """Member id to partitions; `members` maps ids to subscriptions. Topics without a count have no partitions."""
    owned: dict[str, Partitions] = {}
    topics: set[str] = set()
    for member_id, metadata in members.items():
        subscription, _ = codec(ConsumerProtocolSubscription, _VERSION).parse(metadata, 2)
        owned[member_id] = _flat(subscription.owned_partitions)
        topics.update(subscription.topics)
    partitions = [(topic, index) for topic in sorted(topics) for index in range(partition_counts.get(topic, 0))]
    if protocol_name == "cooperative-sticky":
        return assign_sticky(owned, partitions)
    return assign_in_turn(sorted(members), partitions)


def assign_in_turn(members: list[str], partitions: list[tuple[str, int]]) -> dict[str, Partitions]:
    """Round robin."""
    return {member: frozenset(partitions[i :: len(members)]) for i, member in enumerate(members)}


def assign_sticky(owned: Mapping[str, Partitions], partitions: list[tuple[str, int]]) -> dict[str, Partitions]:
    """Members keep what they own up to a fair share. What they have above it goes to nobody until they gave it up."""
    least, more = divmod(len(partitions), len(owned))
    left = set(partitions)
    kept: dict[str, list[tuple[str, int]]] = {}
    withheld: set[tuple[str, int]] = set()
    for member in sorted(owned, key=lambda member: (-len(owned[member]), member)):
        mine = sorted(owned[member] & left)
        share = least + (1 if more > 0 and len(mine) > least else 0)
        more -= share - least
        kept[member] = mine[:share]
        withheld.update(mine[share:])
        left.difference_update(mine)
    for partition in sorted(left):
        member = min(kept, key=lambda member: (len(kept[member]), member))
        kept[member].append(partition)
    return {member: frozenset(mine) for member, mine in kept.items()}


def _by_topic(partitions: Partitions) -> tuple[TopicPartition, ...]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return tuple(TopicPartition(topic=topic, partitions=tuple(indices)) for topic, indices in topics.items())


def _flat(topics: tuple[TopicPartition, ...]) -> Partitions:
    return frozenset((topic.topic, index) for topic in topics for index in topic.partitions)
