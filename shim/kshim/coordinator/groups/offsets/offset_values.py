"""The values of one commit, plain or transactional: the records to write, and what is wrong with the others.

Source: Kafka's OffsetMetadataManager.commitOffset and commitTransactionalOffset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kshim.coordinator.groups.kinds import Pair
from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.step import Now
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.records import build_offset_commit_key, build_offset_commit_value
from kshim_protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kshim_protocol.messages.offset_commit import OffsetCommitRequestPartition
    from kshim_protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition

    Partition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition


NEVER = -1
"""The expire timestamp of an offset to which the broker's retention applies."""
_NO_EPOCH = -1

Errors = dict[str | None, ErrorCode]
"""By the metadata that was sent, which alone is refused here."""


class OffsetValues:
    """The values of one request for one group."""

    __slots__ = ("_expire_timestamp_ms", "_group_id", "_now", "_shard", "_valid", "errors", "pairs")

    def __init__(self, shard: Shard, group_id: str, now: Now, *, expire_timestamp_ms: int = NEVER) -> None:
        self._shard = shard
        self._group_id = group_id
        self._now = now
        self._expire_timestamp_ms = expire_timestamp_ms
        self._valid: list[tuple[str, bytes, Partition]] = []
        self.pairs: list[Pair] = []
        self.errors: Errors = {}

    def add(self, topic: str, topic_id: bytes, partition_count: int, partitions: Sequence[Partition]) -> None:
        """Take in the partitions of one topic that exist."""
        max_size = self._shard.config.offset_metadata_max_bytes
        key_start = b""
        for partition in partitions:
            index = partition.partition_index
            if not 0 <= index < partition_count:
                continue
            metadata = partition.committed_metadata or ""
            if is_too_large(metadata, max_size):
                self.errors[metadata] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            # Keys of one topic differ in their last four bytes. All text that travels fits in a record.
            key_start = key_start or build_offset_commit_key(self._group_id, topic, 0)[:-4]
            value = build_offset_commit_value(
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=metadata,
                commit_timestamp_ms=self._now.wall_ms,
                expire_timestamp_ms=self._expire_timestamp_ms,
                topic_id=topic_id,
            )
            self.pairs.append((key_start + index.to_bytes(4, "big"), value))
            self._valid.append((topic, topic_id, partition))

    def apply(self, base_offset: int, put: Callable[[str, str, int, CommittedOffset], None]) -> None:
        """The records are in the log, the first at `base_offset`; `put(group, topic, partition, offset)` takes each."""
        # Records with an expire time have no room for leader epoch and topic id; memory holds what the record says.
        expires = self._expire_timestamp_ms != NEVER
        for record_offset, (topic, topic_id, partition) in enumerate(self._valid, base_offset):
            offset = CommittedOffset(
                partition.committed_offset,
                _NO_EPOCH if expires else partition.committed_leader_epoch,
                partition.committed_metadata or "",
                self._now.wall_ms,
                record_offset,
                self._expire_timestamp_ms,
                ZERO_UUID if expires else topic_id,
            )
            put(self._group_id, topic, partition.partition_index, offset)


def is_too_large(metadata: str, max_size: int) -> bool:
    """Whether metadata exceed `offset.metadata.max.bytes`, which really counts UTF-16 units."""
    return len(metadata) * 2 > max_size and _utf16_units(metadata) > max_size


def _utf16_units(text: str) -> int:
    return len(text) + sum(1 for character in text if character > "\uffff")
