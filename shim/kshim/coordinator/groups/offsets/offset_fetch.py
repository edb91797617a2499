"""OffsetFetch: the positions a group has committed.

Source: Kafka's KafkaApis.fetchOffsetsForGroup and OffsetMetadataManager.fetchOffsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.runtime import FindShard
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kshim_protocol.schema import ZERO_UUID

_GROUPS_SINCE = 8
_TOPIC_ID_SINCE = 10
_NO_OFFSET = -1
_NO_EPOCH = -1


def offset_fetch(
    find_shard: FindShard[Shard], request: OffsetFetchRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Answer for one group (v1-7) or several (v8+), each with its own error.

    Unknown groups and offsets are no errors: offset -1. Members of the new protocol say who they are (v9+).
    Raises KafkaError (v1-7): COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR.
    """
    if context.api_version >= _GROUPS_SINCE:
        groups = tuple(_fetch_or_error(find_shard, group, request, context) for group in request.groups)
        step.reply(ticket, OffsetFetchResponse(groups=groups))
        return
    fetched = _Fetch(find_shard, request.group_id, request, context).answer(_new_topics(request))
    topics = tuple(map(_old_topic, fetched.topics))
    step.reply(ticket, OffsetFetchResponse(error_code=ErrorCode.NONE, topics=topics))


def _fetch_or_error(
    find_shard: FindShard[Shard], group: OffsetFetchRequestGroup, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponseGroup:
    try:
        fetch = _Fetch(find_shard, group.group_id, request, context)
        found = fetch.shard.groups.get(group.group_id)
        if found is not None:
            found.require_may_fetch(group.member_id, group.member_epoch)
        return fetch.answer(group.topics)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)


class _Fetch:
    """One group's part of the request. `is_by_id`: topics are named by id (v10+)."""

    __slots__ = ("group_id", "is_by_id", "requires_stable", "shard")

    def __init__(
        self, find_shard: FindShard[Shard], group_id: str, request: OffsetFetchRequest, context: RequestContext
    ) -> None:
        self.shard = find_shard(group_id)
        self.shard.require_loaded()
        self.group_id = group_id
        self.requires_stable = request.require_stable
        self.is_by_id = context.api_version >= _TOPIC_ID_SINCE

    def answer(self, requested: tuple[OffsetFetchRequestTopics, ...] | None) -> OffsetFetchResponseGroup:
        """The offsets asked for; None: all there are. As in Kafka, unknown topic ids come last."""
        topics: Iterable[OffsetFetchRequestTopics] = self.all_topics() if requested is None else requested
        if self.is_by_id:
            topics = sorted(topics, key=lambda topic: self.shard.topics.topic_name(topic.topic_id) is None)
        return OffsetFetchResponseGroup(
            group_id=self.group_id, error_code=ErrorCode.NONE, topics=tuple(map(self.topic, topics))
        )

    def all_topics(self) -> Iterator[OffsetFetchRequestTopics]:
        """Every topic with a committed offset; by id only those that still exist, for the others have no id."""
        for name, partitions in self.shard.offsets.of_group(self.group_id).items():
            topic_id = self.shard.topics.topic_id(name)
            if topic_id is not None or not self.is_by_id:
                yield OffsetFetchRequestTopics(
                    name=name, topic_id=topic_id or ZERO_UUID, partition_indexes=tuple(partitions)
                )

    def topic(self, topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        """The offsets of one topic."""
        indexes = topic.partition_indexes
        if not self.is_by_id:
            partitions = tuple(self.partition(topic.name, index, ZERO_UUID) for index in indexes)
            return OffsetFetchResponseTopics(name=topic.name, partitions=partitions)
        name = self.shard.topics.topic_name(topic.topic_id)
        if name is None:
            partitions = tuple(_no_offset(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes)
        else:
            partitions = tuple(self.partition(name, index, topic.topic_id) for index in indexes)
        return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions)

    def partition(self, name: str, index: int, topic_id: bytes) -> OffsetFetchResponsePartitions:
        """One offset. Committed for another topic of the same name, it does not show when asked for by id."""
        if self.requires_stable and self.shard.offsets.has_pending(self.group_id, name, index):
            return _no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self.shard.offsets.get(self.group_id, name, index)
        if committed is None or committed.is_of_another_topic(topic_id):
            return _no_offset(index, ErrorCode.NONE)
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            error_code=ErrorCode.NONE,
        )


def _no_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=_NO_OFFSET,
        committed_leader_epoch=_NO_EPOCH,
        metadata="",
        error_code=error,
    )


# Shapes of v1-7


def _new_topics(request: OffsetFetchRequest) -> tuple[OffsetFetchRequestTopics, ...] | None:
    if request.topics is None:
        return None
    return tuple(
        OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
    )


def _old_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetFetchResponsePartition(
                partition_index=partition.partition_index,
                committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata,
                error_code=partition.error_code,
            )
            for partition in topic.partitions
        ),
    )
