"""The topics of a request to commit offsets, named or by their ids (KIP-848)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from struct import Struct as Format
from typing import Generic, NamedTuple, TypeVar

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.kinds import Place
from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim.coordinator.groups.offsets.offset_rows import PositionRows
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.records import build_position, split_position
from kshim_protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kshim_protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from kshim_protocol.rows import Layout, Rows
from kshim_protocol.schema import ZERO_UUID, Struct

S = TypeVar("S", bound=Struct)
T = TypeVar("T", bound=OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic)

Positions = Sequence[tuple[int, bytes]]
"""Partition and position, as `build_position` makes it."""

_WITH_LEADER_EPOCH = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
_WITHOUT_METADATA_BYTES = 13
_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE

pack_answer = Format(">ihx").pack


def _positions(
    partitions: Sequence[OffsetCommitRequestPartition] | Sequence[TxnOffsetCommitRequestPartition],
    count: int,
    known: Mapping[int, CommittedOffset] | None,
) -> tuple[Positions, int]:
    """Those of a request, and how many bytes the metadata of each have at most. In rows where all partitions exist."""
    if type(partitions) is Rows and partitions.layout.names == _WITH_LEADER_EPOCH:
        rows = PositionRows(partitions.data, known)  # whose texts are empty or null
        if rows.partitions.greatest < count:
            return rows, 0
    positions: list[tuple[int, bytes]] = []
    most_bytes = _WITHOUT_METADATA_BYTES
    for partition in partitions:
        position = build_position(
            partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata or ""
        )
        if len(position) > most_bytes:
            most_bytes = len(position)
        positions.append((partition.partition_index, position))
    return positions, most_bytes - _WITHOUT_METADATA_BYTES


class RequestedTopic(NamedTuple, Generic[T]):
    """One topic of a request. Without such a topic `partition_count` is 0; `missing` is what to answer then.

    `existing` are those of the `positions` whose partitions exist.
    """

    requested: T
    name: str
    topic_id: bytes
    partition_count: int
    missing: ErrorCode
    positions: Positions
    existing: Positions
    most_metadata_bytes: int

    def valid(self, max_metadata_size: int) -> Positions:
        """Those of the partitions that exist and whose metadata are not too large."""
        if self.most_metadata_bytes <= max_metadata_size:  # there are no more UTF-16 units than bytes of UTF-8
            return self.existing
        return [each for each in self.existing if not _is_too_large(each[1], max_metadata_size)]

    def answers(self, layout: Layout[S], error: ErrorCode, refused: Collection[bytes]) -> Rows[S]:
        """Partition and error of each, in the layout of flexible versions of the response: `error` for all that exist, but
        for positions that were `refused` because of their metadata."""
        positions = self.positions
        if refused or self.existing is not positions:
            count, missing = self.partition_count, self.missing
            parts = [
                pack_answer(index, (_TOO_LARGE if position in refused else error) if 0 <= index < count else missing)
                for index, position in positions
            ]
        else:
            parts = [pack_answer(index, error) for index, _ in positions]
        return Rows(layout, len(parts), b"".join(parts))


_requested = partial(tuple.__new__, RequestedTopic)  # RequestedTopic(...) has a function of Python's own in between


def requested_topics(
    catalog: TopicCatalog, topics: Iterable[T], known: Mapping[str, Mapping[int, CommittedOffset]], *, by_id: bool
) -> list[RequestedTopic[T]]:
    """What there is of each topic, in the order of the request. `known`: what the group has committed before."""
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
        count = catalog.partition_count(name) or 0
        positions, most_bytes = _positions(requested.partitions, count, known.get(name))
        existing = positions
        if type(positions) is not PositionRows:
            existing = [each for each in positions if 0 <= each[0] < count]
            if len(existing) == len(positions):
                existing = positions
        found.append(_requested((requested, name, topic_id, count, missing, positions, existing, most_bytes)))
    return found


def partitions_to_commit(topics: Iterable[RequestedTopic[T]], max_metadata_size: int) -> Iterator[Place]:
    """Each partition that exists and whose metadata is not too large: Kafka checks no other's epoch."""
    for topic in topics:
        for index, _ in topic.valid(max_metadata_size):
            yield Place(topic.name, topic.topic_id, index)


def any_exists(topics: Iterable[RequestedTopic[T]]) -> bool:
    """Whether any partition that is named exists; without any, the group is not checked."""
    return any(topic.existing for topic in topics)


def _is_too_large(position: bytes, max_size: int) -> bool:
    """Whether its metadata exceed `offset.metadata.max.bytes`, which really counts UTF-16 units."""
    metadata = split_position(position)[2]
    return len(metadata) + sum(1 for character in metadata if character > "\uffff") > max_size
