"""One partition of `__share_group_state` in memory: its share partitions, how records change them, and what of its log is
needed.

Source: Kafka's ShareCoordinatorShard and ShareCoordinatorOffsetsManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

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


PRUNE: Final = "share_prune"
SNAPSHOT: Final = "share_snapshot"
"""What is done regularly, by the names of its timers: as in Kafka, what is behind the snapshots is removed first."""

ShareRecord = ShareSnapshotValue | ShareUpdateValue | None
"""A snapshot, an update, or the end of what is known of a share partition."""


class ShareStateShard(CoordinatorShard):
    """The share partitions of one partition of the topic. `apply` is what records mean once they are in the log."""

    topic = SHARE_STATE_TOPIC

    def __init__(self, partition: int, deadlines: Deadlines, *, config: ShareStateConfig, is_loading: bool) -> None:
        super().__init__(partition, deadlines, is_loading=is_loading)
        self.config = config
        self.states: dict[SharePartitionKey, ShareState] = {}
        self._last_offset = -1  # of the newest snapshot, or end of a share partition

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

        def applied(base_offset: int, step: Step) -> None:
            was_empty = not self.states
            self.apply(key, record, base_offset)
            if was_empty:
                self.begin_upkeep(now)
            written(step)

        batch = build_key_value_batch([(build_share_key(record_key), value)], now.wall_ms)
        step.appends.append(Append(self.partition, batch, applied, failed))

    def apply(self, key: SharePartitionKey, record: ShareRecord, offset: int) -> None:
        """A record, in the order of the log. An update without a snapshot means nothing."""
        state = self.states.get(key)
        if isinstance(record, ShareUpdateValue):
            if state is not None:
                self.states[key] = state.after(record)
            return
        self._last_offset = offset
        if record is None:
            self.states.pop(key, None)
        else:
            max_updates = self.config.snapshot_update_records_per_snapshot
            self.states[key] = state_of(record, offset, state, max_updates=max_updates)

    # Upkeep

    def begin_upkeep(self, now: Now) -> None:
        """See to it that the log stays short, unless it is seen to already, or empty."""
        if self._last_offset < 0:
            return
        for name in (PRUNE, SNAPSHOT):
            key = (name, f"{self.partition:05}")
            if self.deadlines.get(key) is None:
                self.deadlines.set(key, now.mono_ms + self.upkeep_interval_ms(name))

    def end_upkeep(self) -> None:
        """The shard is unloaded."""
        for name in (PRUNE, SNAPSHOT):
            self.deadlines.cancel((name, f"{self.partition:05}"))

    def upkeep_interval_ms(self, name: str) -> int:
        """How often something is done."""
        config = self.config
        return config.state_topic_prune_interval_ms if name == PRUNE else config.cold_partition_snapshot_interval_ms

    def prune(self, step: Step) -> None:
        """Have the log begin with the oldest snapshot that is needed; with the last end where nothing is."""
        first = min((state.snapshot_offset for state in self.states.values()), default=self._last_offset)
        if first > 0:
            step.log_starts = [(self.partition, first)]

    def snapshot_cold(self, step: Step, now: Now) -> None:
        """Have the states written whose snapshots are old, so that what is before can be removed; where all snapshots were
        written for that reason already, none."""
        if all(state.create_ms != state.write_ms for state in self.states.values()):
            return
        for key, state in self.states.items():
            if now.wall_ms - state.write_ms >= self.config.cold_partition_snapshot_interval_ms:
                again = state._replace(snapshot_epoch=state.snapshot_epoch + 1, write_ms=now.wall_ms)
                self.append(step, key, again.snapshot(), now, written=done, failed=given_up)


def done(step: Step) -> None:
    """Nobody waits."""


def given_up(error: ErrorCode, step: Step) -> None:
    """As in Kafka, what could not be written stays as it is."""
