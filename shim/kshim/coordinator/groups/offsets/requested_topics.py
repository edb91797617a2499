"""The topics of a request to commit offsets, named or by their ids (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.offsets.offset_values import is_too_large
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.offset_commit import OffsetCommitRequestTopic
from kshim_protocol.messages.txn_offset_commit import TxnOffsetCommitRequestTopic
from kshim_protocol.schema import ZERO_UUID

T = TypeVar("T", bound=OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic)


class RequestedTopic(NamedTuple, Generic[T]):
    """One topic of a request. Without such a topic `partition_count` is 0; `missing` is what to answer then."""

    requested: T
    name: str
    topic_id: bytes
    partition_count: int
    missing: ErrorCode

    def has(self, partition: int) -> bool:
        """Whether there is such a partition."""
        return 0 <= partition < self.partition_count


def requested_topics(catalog: TopicCatalog, topics: Iterable[T], *, by_id: bool) -> list[RequestedTopic[T]]:
    """What there is of each topic, in the order of the request."""
    found = []
    for requested in topics:
        if by_id:
            topic_id = requested.topic_id
            name = catalog.topic_name(topic_id) or ""
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID
        else:
            name = requested.name
            topic_id = catalog.topic_id(name) or ZERO_UUID
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        found.append(RequestedTopic(requested, name, topic_id, catalog.partition_count(name) or 0, missing))
    return found


def partitions_to_commit(topics: Iterable[RequestedTopic[T]], max_metadata_size: int) -> Iterator[tuple[bytes, int]]:
    """Topic id and index of each partition that exists and whose metadata is not too large: Kafka checks no other's epoch."""
    for topic in topics:
        for partition in topic.requested.partitions:
            metadata = partition.committed_metadata or ""
            if topic.has(partition.partition_index) and not is_too_large(metadata, max_metadata_size):
                yield topic.topic_id, partition.partition_index


def any_exists(topics: Iterable[RequestedTopic[T]]) -> bool:
    """Whether any partition that is named exists; without any, the group is not checked."""
    return any(topic.has(partition.partition_index) for topic in topics for partition in topic.requested.partitions)
