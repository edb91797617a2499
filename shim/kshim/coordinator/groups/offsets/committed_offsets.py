"""One committed offset."""

from __future__ import annotations

from typing import NamedTuple

from kshim_protocol.internal.records import build_position, split_position
from kshim_protocol.schema import ZERO_UUID


class Commit(NamedTuple):
    """What all offsets of one commit to one topic share. Times are Unix ms; `expire_timestamp_ms` -1: by the broker's
    retention.
    """

    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: bytes = ZERO_UUID

    def is_of_another_topic(self, topic_id: bytes) -> bool:
        """Whether it was made for an earlier or later topic of the same name. Unknown ids match every topic."""
        return self.topic_id != topic_id and self.topic_id != ZERO_UUID and topic_id != ZERO_UUID


class CommittedOffset(NamedTuple):
    """A position in a partition, as the bytes that clients send and fetch and that stand in the log: `build_position`.

    `record_offset` is where the record stands in the offsets topic.
    """

    position: bytes
    commit: Commit
    record_offset: int

    @classmethod
    def of(
        cls,
        offset: int,
        leader_epoch: int,
        metadata: str,
        commit_timestamp_ms: int,
        record_offset: int,
        expire_timestamp_ms: int = -1,
        topic_id: bytes = ZERO_UUID,
    ) -> CommittedOffset:
        """Made of its values. `leader_epoch` -1: not given."""
        commit = Commit(commit_timestamp_ms, expire_timestamp_ms, topic_id)
        return cls(build_position(offset, leader_epoch, metadata), commit, record_offset)

    @property
    def offset(self) -> int:
        """The position itself."""
        return split_position(self.position)[0]
