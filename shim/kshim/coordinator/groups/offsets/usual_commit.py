"""The commit that most commits of a single partition are: a position without metadata, by a member of a classic group.

The same is checked, written and kept as by `offset_commit.py`; what is the same in the next commit is made once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kshim.coordinator.groups.kinds import Place, Sender
from kshim.coordinator.groups.offsets.committed_offsets import Commit, CommittedOffset
from kshim.coordinator.groups.offsets.offset_rows import EMPTY_TEXT
from kshim.coordinator.groups.offsets.offset_values import NEVER
from kshim_protocol.internal.records import POSITION_VALUE_START, build_offset_commit_key, position_value_end
from kshim_protocol.records.batch import build_key_value_batch, build_single_batch
from kshim_protocol.records.layout import HEADER_BYTES

if TYPE_CHECKING:
    from kshim.coordinator.groups.shard import Shard
    from kshim.coordinator.step import Now
    from kshim_protocol.messages.offset_commit import OffsetCommitRequest

_TIME_BYTES: Final = 8
_UNLIKELY: Final = bytes(range(0x81, 0x8D))  # as a position is long without metadata

_commit = partial(tuple.__new__, Commit)  # Commit(...) has a function of Python's own in between
_committed = partial(tuple.__new__, CommittedOffset)


class UsualCommit:
    """Commits by the sender of `request` to its only partition, which is one of the topic `name`."""

    __slots__ = (
        "_before",
        "_behind",
        "_index",
        "_places",
        "_sender",
        "_topic_id",
        "_topic_name",
        "group_id",
        "member_id",
    )

    def __init__(self, request: OffsetCommitRequest, api_version: int, topic_name: str, topic_id: bytes) -> None:
        index = request.topics[0].partitions[0].partition_index
        self.group_id = request.group_id
        self.member_id = request.member_id
        self._sender = Sender(
            request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, api_version, False
        )
        self._topic_name = topic_name
        self._topic_id = topic_id
        self._index = index
        self._places = (Place(topic_name, topic_id, index),)
        value = POSITION_VALUE_START + _UNLIKELY + EMPTY_TEXT + position_value_end(0, topic_id)
        batch = build_key_value_batch([(build_offset_commit_key(self.group_id, topic_name, index), value)], 0)
        self._before, _, behind = batch[HEADER_BYTES:].partition(_UNLIKELY + EMPTY_TEXT)
        self._behind = behind[_TIME_BYTES:]

    def batch(self, shard: Shard, position: bytes, now: Now) -> bytes | None:
        """What is to be appended; the session of the member has begun anew. None: it is none of the usual ones.

        Raises KafkaError, when nothing has changed.
        """
        group = shard.classic_groups.get(self.group_id)
        if group is None or shard.config.offset_metadata_max_bytes < 0:  # which refuses even none
            return None
        group.require_may_commit(self._sender, lambda: self._places)
        group.has_committed(self.member_id, shard.deadlines, now)
        ms = now.wall_ms
        return build_single_batch(b"".join((self._before, position, ms.to_bytes(_TIME_BYTES, "big"), self._behind)), ms)

    def written(self, shard: Shard, position: bytes, base_offset: int, now: Now) -> None:
        """The batch is in the log."""
        commit = _commit((now.wall_ms, NEVER, self._topic_id))
        shard.put_offsets(self.group_id, self._topic_name, {self._index: _committed((position, commit, base_offset))})
