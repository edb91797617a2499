"""What members of the classic protocol carry in their metadata and assignments, between topic names and topic ids.

Source: Kafka's ConsumerProtocol, and Utils of its group coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.updates import by_topic
from kshim_protocol.codec import codec
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kshim_protocol.internal.consumer import TopicPartition as NamedPartitions

_VERSION_BYTES: Final = 2
_NEWEST: Final = 3


def parse_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """The subscription of a member, of a version newer than 3 what version 3 has. Raises ProtocolError."""
    return codec(ConsumerProtocolSubscription, _version(data)).parse(data, _VERSION_BYTES)[0]


def parse_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """The assignment of a member. Raises ProtocolError."""
    return codec(ConsumerProtocolAssignment, _version(data)).parse(data, _VERSION_BYTES)[0]


def build_assignment(partitions: Iterable[TopicPartition], subscription: bytes, topics: TopicCatalog) -> bytes:
    """An assignment in the version of a member's subscription. Topics that do not exist any more are left out.

    Raises ProtocolError.
    """
    version = _version(subscription)
    assigned = tuple(
        NamedPartitions(topic=name, partitions=indexes)
        for topic_id, indexes in by_topic(partitions).items()
        if (name := topics.topic_name(topic_id)) is not None
    )
    value = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return version.to_bytes(_VERSION_BYTES) + codec(ConsumerProtocolAssignment, version).build(value)


def partitions_of(named: Iterable[NamedPartitions], topics: TopicCatalog) -> list[TopicPartition]:
    """The partitions of those topics that exist."""
    return [
        (topic_id, index)
        for entry in named
        if (topic_id := topics.topic_id(entry.topic)) is not None
        for index in entry.partitions
    ]


def _version(data: bytes) -> int:
    version = int.from_bytes(data[:_VERSION_BYTES], signed=True)
    if len(data) < _VERSION_BYTES or version < 0:
        raise ProtocolError("no version", message="ConsumerProtocol", field="version", offset=0)
    return min(version, _NEWEST)
