"""One partition of `__share_group_state` in memory: its share partitions, and how records change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kshim.coordinator.deadlines import Deadlines
from kshim.coordinator.runtime import CoordinatorShard
from kshim.coordinator.share_state.config import ShareStateConfig
from kshim.coordinator.share_state.share_state import ShareState, state_of
from kshim.coordinator.step import SHARE_STATE_TOPIC, Append, Now, Step
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from kshim_protocol.internal.share_state_records import build_share_key, build_share_value
from kshim_protocol.records.batch import build_key_value_batch


class SharePartitionKey(NamedTuple):
    """A partition as one group sees it. `topic_id` has 16 bytes."""

    group_id: str
    topic_id: bytes
    partition: int


ShareRecord = ShareSnapshotValue | ShareUpdateValue | None
"""A snapshot, an update, or the end of what is known of a share partition."""


class ShareStateShard(CoordinatorShard):
    """The share partitions of one partition of the topic. `apply` is what records mean once they are in the log."""

    topic = SHARE_STATE_TOPIC

    def __init__(self, partition: int, deadlines: Deadlines, *, config: ShareStateConfig, is_loading: bool) -> None:
        super().__init__(partition, deadlines, is_loading=is_loading)
        self.config = config
        self.states: dict[SharePartitionKey, ShareState] = {}

    def append(
        self,
        step: Step,
        key: SharePartitionKey,
        record: ShareRecord,
        now: Now,
        *,
        written: Callable[[Step], None],
        failed: Callable[[ErrorCode, Step], None],
    ) -> None:
        """Have a record written; then it is applied, and `written` called."""
        record_key = (ShareUpdateKey if isinstance(record, ShareUpdateValue) else ShareSnapshotKey)(**key._asdict())
        value = None if record is None else build_share_value(record)

        def applied(_base_offset: int, step: Step) -> None:
            self.apply(key, record)
            written(step)

        batch = build_key_value_batch([(build_share_key(record_key), value)], now.wall_ms)
        step.appends.append(Append(self.partition, batch, applied, failed))

    def apply(self, key: SharePartitionKey, record: ShareRecord) -> None:
        """A record, in the order of the log. An update without a snapshot means nothing."""
        if record is None:
            self.states.pop(key, None)
        elif isinstance(record, ShareSnapshotValue):
            self.states[key] = state_of(record, self.states.get(key))
        elif (state := self.states.get(key)) is not None:
            self.states[key] = state.after(record)
