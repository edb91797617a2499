"""The values of one commit, plain or transactional: the records to write, and what is wrong with the others.

Source: Kafka's OffsetMetadataManager.commitOffset and commitTransactionalOffset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import Any

from kshim.coordinator.groups.kinds import Pair
from kshim.coordinator.groups.offsets.committed_offsets import Commit, CommittedOffset
from kshim.coordinator.groups.offsets.offset_rows import EMPTY_TEXT, OffsetRows, PositionRows
from kshim.coordinator.groups.offsets.requested_topics import Positions, RequestedTopic
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now
from kshim_protocol.internal.records import (
    POSITION_VALUE_START,
    build_offset_commit_key,
    build_offset_commit_value,
    build_position,
    position_value_end,
    split_position,
)
from kshim_protocol.records.batch import AlikeRecords

NEVER = -1
"""The expire timestamp of an offset to which the broker's retention applies."""
_NO_EPOCH = -1

Put = Callable[[str, str, Mapping[int, CommittedOffset] | OffsetRows], None]

_pack_partition = Struct(">i").pack
_commit = partial(tuple.__new__, Commit)  # Commit(...) has a function of Python's own in between
_committed = partial(tuple.__new__, CommittedOffset)


class OffsetValues:
    """The values of one request for one group."""

    __slots__ = ("_expire_timestamp_ms", "_group_id", "_now", "_shard", "_valid", "records", "refused")

    def __init__(self, shard: Shard, group_id: str, now: Now, *, expire_timestamp_ms: int = NEVER) -> None:
        self._shard = shard
        self._group_id = group_id
        self._now = now
        self._expire_timestamp_ms = expire_timestamp_ms
        self._valid: list[tuple[str, Commit, Positions]] = []
        self.records: list[Sequence[Pair] | AlikeRecords] = []
        self.refused: Collection[bytes] = ()
        """The positions with too large metadata."""

    def add(self, topic: RequestedTopic[Any]) -> None:
        """Take in the partitions of one topic that exist."""
        valid = topic.valid(self._shard.config.offset_metadata_max_bytes)
        if valid is not topic.existing:
            fine = {position for _, position in valid}
            self.refused = {*self.refused, *(position for _, position in topic.existing if position not in fine)}
        if not valid:
            return
        # Keys of one topic differ in their last four bytes. All text that travels fits in a record.
        start = build_offset_commit_key(self._group_id, topic.name, 0)[:-4]
        wall_ms = self._now.wall_ms
        if self._expire_timestamp_ms == NEVER:
            commit = _commit((wall_ms, NEVER, topic.topic_id))
            end = position_value_end(wall_ms, topic.topic_id)
            if type(valid) is PositionRows:
                self.records.append(AlikeRecords(start, POSITION_VALUE_START, EMPTY_TEXT + end, valid.parts()))
            else:
                self.records.append(
                    [
                        (start + _pack_partition(index), POSITION_VALUE_START + position + end)
                        for index, position in valid
                    ]
                )
        else:
            # Records with an expire time have no room for leader epoch and topic id; memory holds what the record says.
            commit = Commit(wall_ms, self._expire_timestamp_ms)
            said = [(index, split_position(position)) for index, position in valid]
            valid = [(index, build_position(offset, _NO_EPOCH, text)) for index, (offset, _, text) in said]
            self.records.append(
                [(start + _pack_partition(index), self._expiring(offset, text)) for index, (offset, _, text) in said]
            )
        self._valid.append((topic.name, commit, valid))

    def _expiring(self, offset: int, metadata: str) -> bytes:
        return build_offset_commit_value(
            offset=offset,
            leader_epoch=_NO_EPOCH,
            metadata=metadata,
            commit_timestamp_ms=self._now.wall_ms,
            expire_timestamp_ms=self._expire_timestamp_ms,
        )

    def apply(self, base_offset: int, put: Put) -> None:
        """The records are in the log, the first at `base_offset`; `put(group, topic, offsets by partition)` takes them."""
        for topic, commit, valid in self._valid:
            if type(valid) is PositionRows:
                put(self._group_id, topic, OffsetRows(valid, commit, base_offset))
                base_offset += len(valid)
                continue
            offsets = {}
            for index, position in valid:
                offsets[index] = _committed((position, commit, base_offset))
                base_offset += 1
            put(self._group_id, topic, offsets)
