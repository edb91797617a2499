"""OffsetFetch: the positions a group has committed.

Source: Kafka's KafkaApis.fetchOffsetsForGroup and OffsetMetadataManager.fetchOffsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct

from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim.coordinator.groups.offsets.offset_rows import TopicOffsets
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
from kshim_protocol.rows import Rows, layout_of
from kshim_protocol.schema import ZERO_UUID

_GROUPS_SINCE = 8
_TOPIC_ID_SINCE = 10
_NO_OFFSET = CommittedOffset.of(-1, -1, "", -1, -1)
_NO_ERROR, _UNSTABLE, _UNKNOWN_TOPIC_ID = (
    Struct(">hx").pack(error)
    for error in (ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNKNOWN_TOPIC_ID)
)
_NEW_LAYOUT = layout_of(OffsetFetchResponsePartitions, 8, is_flexible=True)
_OLD_LAYOUT = layout_of(OffsetFetchResponsePartition, 6, is_flexible=True)

_FEW = 16  # offsets are looked for in rows one by one

_pack_index = Struct(">i").pack


def offset_fetch(
    find_shard: FindShard[Shard], request: OffsetFetchRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Answer for one group (v1-7) or several (v8+), each with its own error.

    Unknown groups and offsets are no errors: offset -1. Members of the new protocol say who they are (v9+).
    Raises KafkaError (v1-7): COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR.
    """
    step.reply(ticket, fetched(find_shard, request, context.api_version))


def fetched(find_shard: FindShard[Shard], request: OffsetFetchRequest, api_version: int) -> OffsetFetchResponse:
    """What `offset_fetch` answers, which raises what this raises."""
    if api_version >= _GROUPS_SINCE:
        groups = tuple(_fetch_or_error(find_shard, group, request, api_version) for group in request.groups)
        return OffsetFetchResponse(groups=groups)
    fetch = _Fetch(find_shard, request.group_id, request, api_version)
    requested = fetch.all_topics() if request.topics is None else request.topics
    topics = tuple([fetch.old_topic(topic.name, topic.partition_indexes) for topic in requested])
    return OffsetFetchResponse(error_code=ErrorCode.NONE, topics=topics)


def _fetch_or_error(
    find_shard: FindShard[Shard], group: OffsetFetchRequestGroup, request: OffsetFetchRequest, api_version: int
) -> OffsetFetchResponseGroup:
    try:
        fetch = _Fetch(find_shard, group.group_id, request, api_version)
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
        self, find_shard: FindShard[Shard], group_id: str, request: OffsetFetchRequest, api_version: int
    ) -> None:
        self.shard = find_shard(group_id)
        self.shard.require_loaded()
        self.group_id = group_id
        self.requires_stable = request.require_stable
        self.is_by_id = api_version >= _TOPIC_ID_SINCE

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
        count = len(indexes)
        if not self.is_by_id:
            partitions = self.partitions(topic.name, indexes, ZERO_UUID)
            return OffsetFetchResponseTopics(name=topic.name, partitions=Rows(_NEW_LAYOUT, count, partitions))
        name = self.shard.topics.topic_name(topic.topic_id)
        if name is None:
            partitions = _rows(indexes, [_NO_OFFSET.position] * count, [_UNKNOWN_TOPIC_ID] * count)
        else:
            partitions = self.partitions(name, indexes, topic.topic_id)
        return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=Rows(_NEW_LAYOUT, count, partitions))

    def old_topic(self, name: str, indexes: Sequence[int]) -> OffsetFetchResponseTopic:
        """The same in the shape of v1-7."""
        count, partitions = len(indexes), self.partitions(name, indexes, ZERO_UUID)
        return OffsetFetchResponseTopic(name=name, partitions=Rows(_OLD_LAYOUT, count, partitions))

    def partitions(self, name: str, indexes: Sequence[int], topic_id: bytes) -> bytes:
        """Offsets, as rows. One that was committed for another topic of the same name does not show when asked for by id."""
        offsets = self.shard.offsets
        committed = offsets.of_group(self.group_id).get(name, {})
        may_be_unstable = self.requires_stable and offsets.has_open_transaction(self.group_id)
        if type(committed) is TopicOffsets:
            rows = committed.rows_at(indexes[0]) if indexes and not may_be_unstable else None
            if rows is not None and rows.is_of(indexes) and not rows.commit.is_of_another_topic(topic_id):
                return rows.answer(_NO_ERROR)
            if len(indexes) > _FEW:
                committed = committed.single()
        if topic_id == ZERO_UUID:
            positions = [committed.get(index, _NO_OFFSET)[0] for index in indexes]
        else:
            found = [committed.get(index, _NO_OFFSET) for index in indexes]
            positions = [(_NO_OFFSET if each.commit.is_of_another_topic(topic_id) else each).position for each in found]
        ends = [_NO_ERROR] * len(indexes)
        if may_be_unstable:
            for at, index in enumerate(indexes):
                if offsets.has_pending(self.group_id, name, index):
                    positions[at], ends[at] = _NO_OFFSET.position, _UNSTABLE
        return _rows(indexes, positions, ends)


def _rows(indexes: Sequence[int], positions: Sequence[bytes], ends: Sequence[bytes]) -> bytes:
    """The partitions of a response: index, position, and error with no tags behind it."""
    count = len(indexes)
    if count == 1:
        return _pack_index(indexes[0]) + positions[0] + ends[0]
    parts = [b""] * (3 * count)
    parts[0::3], parts[1::3], parts[2::3] = map(_pack_index, indexes), positions, ends
    return b"".join(parts)
