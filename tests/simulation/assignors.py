"""The client's half of a rebalance: subscriptions, assignments, and the assignors `range` and `cooperative-sticky`.

Real ones in small: range gives each member its share of each topic anew; cooperative-sticky leaves everybody what they
own as far as that is fair, and gives what somebody else still owns to nobody in this generation (KIP-429).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from kshim_protocol.codec import codec
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from tests.simulation.script import TopicPartitions

RANGE = "range"
COOPERATIVE = "cooperative-sticky"


class Subscriber(NamedTuple):
    """A member as its leader sees it."""

    member_id: str
    sort_key: str
    topics: tuple[str, ...]
    owned: TopicPartitions


def _by_topic(partitions: Iterable[tuple[str, int]]) -> tuple[TopicPartition, ...]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return tuple(TopicPartition(topic=topic, partitions=tuple(found)) for topic, found in topics.items())


@lru_cache(maxsize=4096)
def subscription(topics: tuple[str, ...], owned: TopicPartitions, generation_id: int, version: int) -> bytes:
    """What a consumer sends as metadata of a protocol."""
    value = ConsumerProtocolSubscription(
        topics=topics, owned_partitions=_by_topic(owned), generation_id=generation_id, user_data=None
    )
    return version.to_bytes(2, "big") + codec(ConsumerProtocolSubscription, version).build(value)


@lru_cache(maxsize=4096)
def parse_subscription(data: bytes) -> tuple[tuple[str, ...], TopicPartitions]:
    """Topics and owned partitions."""
    version = min(int.from_bytes(data[:2], "big"), 3)
    value, _ = codec(ConsumerProtocolSubscription, version).parse(data, 2)
    owned = tuple((entry.topic, index) for entry in value.owned_partitions for index in entry.partitions)
    return value.topics, owned


@lru_cache(maxsize=4096)
def assignment(partitions: TopicPartitions) -> bytes:
    """What a leader sends for one member."""
    value = ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions), user_data=None)
    return b"\0\1" + codec(ConsumerProtocolAssignment, 1).build(value)


@lru_cache(maxsize=4096)
def owned_in(data: bytes) -> TopicPartitions:
    """The partitions of an assignment; none in the empty bytes of a member that was given nothing."""
    if not data:
        return ()
    value, _ = codec(ConsumerProtocolAssignment, 1).parse(data, 2)
    return tuple((entry.topic, index) for entry in value.assigned_partitions for index in entry.partitions)


def assign(
    protocol: str, members: Sequence[tuple[str, str | None, bytes]], topics: Mapping[str, int]
) -> dict[str, bytes]:
    """Assignments by member id. `members` are (member id, instance id, metadata); `topics` name -> partitions."""
    subscribers = sorted(
        (
            Subscriber(member_id, instance_id or member_id, *parse_subscription(metadata))
            for member_id, instance_id, metadata in members
        ),
        key=lambda subscriber: subscriber.sort_key,
    )
    given: dict[str, list[tuple[str, int]]] = {subscriber.member_id: [] for subscriber in subscribers}
    owners = {partition: s.member_id for s in reversed(subscribers) for partition in s.owned}
    for topic in dict.fromkeys(topic for subscriber in subscribers for topic in subscriber.topics):
        interested = [subscriber.member_id for subscriber in subscribers if topic in subscriber.topics]
        wanted = _range(topic, interested, topics.get(topic, 0))
        if protocol == COOPERATIVE:
            wanted = _sticky(wanted, owners, interested)
        for partition, member_id in wanted.items():
            owner = owners.get(partition)
            if protocol == COOPERATIVE and owner is not None and owner != member_id:
                continue  # its owner must give it back first
            given[member_id].append(partition)
    return {member_id: assignment(tuple(partitions)) for member_id, partitions in given.items()}


def _range(topic: str, member_ids: list[str], partition_count: int) -> dict[tuple[str, int], str]:
    """An even share of one topic for each, the first ones get the remainder."""
    share, remainder = divmod(partition_count, len(member_ids))
    wanted: dict[tuple[str, int], str] = {}
    start = 0
    for index, member_id in enumerate(member_ids):
        end = start + share + (1 if index < remainder else 0)
        wanted.update(dict.fromkeys(((topic, partition) for partition in range(start, end)), member_id))
        start = end
    return wanted


def _sticky(
    wanted: dict[tuple[str, int], str], owners: Mapping[tuple[str, int], str], member_ids: list[str]
) -> dict[tuple[str, int], str]:
    """The same shares, but owners keep what they own as long as their share allows."""
    quota = dict.fromkeys(member_ids, 0)
    for member_id in wanted.values():
        quota[member_id] += 1
    kept: dict[tuple[str, int], str] = {}
    for partition in wanted:
        owner = owners.get(partition)
        if owner is not None and quota.get(owner, 0) > 0:
            kept[partition] = owner
            quota[owner] -= 1
    free = [member_id for member_id in member_ids for _ in range(quota[member_id])]
    left = iter(free)
    return {partition: kept[partition] if partition in kept else next(left) for partition in wanted}
