"""What was done to topics of late: consumers notice it with their next metadata, up to five minutes later, and join again."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kshim.coordinator.step import Now

KEPT_MS: Final = 600_000
"""Twice the default of `metadata.max.age.ms`, after which clients look at their topics again."""

KEPT_COUNT: Final = 1_000
"""So many changes are known at most, the newest ones."""

TOLD_COUNT: Final = 100
"""So many are in one event at most, the newest ones."""


class TopicChange(NamedTuple):
    """A topic was created (there were 0 partitions before), deleted (there are 0 now) or got partitions. `changed_ms` is Unix time."""

    topic: str
    partitions_before: int
    partitions: int
    changed_ms: int


class TopicChanges:
    """The newest changes of all topics."""

    def __init__(self) -> None:
        self._changes: deque[tuple[int, TopicChange]] = deque(maxlen=KEPT_COUNT)  # with ms of the monotonic clock

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, topic: str, partitions_before: int, partitions: int, now: Now) -> None:
        """A topic has changed."""
        self._changes.append((now.mono_ms, TopicChange(topic, partitions_before, partitions, now.wall_ms)))

    def until(self, now: Now, is_read: Callable[[str], bool]) -> tuple[TopicChange, ...]:
        """Those of the last ten minutes, in order of time, of topics that are read. Older ones are forgotten."""
        while self._changes and self._changes[0][0] < now.mono_ms - KEPT_MS:
            self._changes.popleft()
        return tuple(change for _, change in self._changes if is_read(change.topic))[-TOLD_COUNT:]


def topic_changes_json(changes: Sequence[TopicChange] | None) -> str:
    """As in an event."""
    if changes is None:
        return "null"
    return json.dumps([change._asdict() for change in changes], separators=(",", ":"), ensure_ascii=False)
