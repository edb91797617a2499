"""The topic `__kshim_events`: events gathered for some milliseconds, then appended as batches.

What goes wrong here stays here: a group never waits for its history, and never fails with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kshim.history.event import HistoryEvent
from kshim.storage.log import LogError
from kshim_protocol.partitioner import partition_for
from kshim_protocol.records.batch import build_key_value_batch

if TYPE_CHECKING:
    from kshim.partitions.partition import Topic


LINGER_MS: Final = 50
RETRY_MS: Final = 1_000
BATCH_MAX_BYTES: Final = 64_000
"""About; what is larger costs fresh pages for each copy."""

TURN_MAX_BATCHES: Final = 4
"""So many are written in a row: about a millisecond of the loop."""

BACKLOG_MAX_EVENTS: Final = 10_000
BACKLOG_MAX_BYTES: Final = 32 << 20


class EventsTopic:
    """A backlog of events and the topic it is appended to.

    `find_topic()` is the topic, None while there is none; `after(delay_ms, action)` sets a timer; `on_failure(error)` is called with the
    first of failures in a row. At most
    `max_events` and about `max_bytes` wait; beyond that the oldest are dropped.
    """

    def __init__(
        self,
        find_topic: Callable[[], Topic | None],
        after: Callable[[int, Callable[[], None]], None],
        on_failure: Callable[[LogError], None],
        *,
        max_events: int = BACKLOG_MAX_EVENTS,
        max_bytes: int = BACKLOG_MAX_BYTES,
    ) -> None:
        self._find_topic = find_topic
        self._after = after
        self._on_failure = on_failure
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._backlog: deque[HistoryEvent] = deque()
        self._backlog_bytes = 0
        self._is_armed = False
        self._has_failed = False
        self.before_writing: Callable[[], None] = lambda: None
        """Called before events are written, to add what is due."""
        self.dropped_count = 0
        """Events that were never written: the backlog was full, or there was no topic."""

    def __len__(self) -> int:
        return len(self._backlog)

    def expect(self) -> None:
        """Events will be there when `before_writing` is called: see that it is called soon."""
        if not self._is_armed:
            self._arm(LINGER_MS)

    def add(self, event: HistoryEvent) -> None:
        """Have `event` written soon."""
        self._backlog.append(event)
        self._backlog_bytes += event.size_bytes
        self.expect()
        while len(self._backlog) > self._max_events or self._backlog_bytes > self._max_bytes:
            self._take()
            self.dropped_count += 1

    def begin_again(self, events: Iterable[HistoryEvent]) -> None:
        """The topic is new: these events are to be in it, and none of those that wait."""
        self._backlog.clear()
        self._backlog_bytes = 0
        for event in events:
            self.add(event)

    def write_all(self) -> None:
        """Write everything now, as far as it can be written."""
        while self._backlog and self._write_batch():
            pass

    def _arm(self, delay_ms: int) -> None:
        self._is_armed = True
        self._after(delay_ms, self._linger_over)

    def _linger_over(self) -> None:
        self.before_writing()
        is_written = True
        for _ in range(TURN_MAX_BATCHES):
            if is_written and self._backlog:
                is_written = self._write_batch()
        self._is_armed = False
        if self._backlog:
            self._arm(0 if is_written else RETRY_MS)

    def _write_batch(self) -> bool:
        """Append a batch to each partition concerned; False when that failed, and then nothing is lost."""
        topic = self._find_topic()
        if topic is None:
            self.dropped_count += len(self._backlog)
            self._backlog.clear()
            self._backlog_bytes = 0
            return True
        taken: list[HistoryEvent] = []
        size_bytes = 0
        while self._backlog and size_bytes < BATCH_MAX_BYTES:
            event = self._take()
            taken.append(event)
            size_bytes += event.size_bytes
        try:
            while taken:
                self._append_first_partition(topic, taken)
        except LogError as error:
            self._backlog.extendleft(reversed(taken))
            self._backlog_bytes += sum(event.size_bytes for event in taken)
            if not self._has_failed:
                self._has_failed = True
                self._on_failure(error)
            return False
        self._has_failed = False
        return True

    def _append_first_partition(self, topic: Topic, taken: list[HistoryEvent]) -> None:
        """Append what goes to the same partition as the first of `taken`, and take it out. Raises LogError."""
        partition_count = len(topic.partitions)
        index, chosen, others = 0, taken[:], taken[:0]
        if partition_count > 1:
            homes = [partition_for(event.group_id, partition_count) for event in taken]
            index = homes[0]
            chosen = [event for event, home in zip(taken, homes, strict=True) if home == index]
            others = [event for event, home in zip(taken, homes, strict=True) if home != index]
        pairs = [(event.group_id.encode("utf-8", "surrogatepass"), event.to_json()) for event in chosen]
        newest_ms = max(event.now.wall_ms for event in chosen)
        topic.partitions[index].append(build_key_value_batch(pairs, newest_ms))
        taken[:] = others

    def _take(self) -> HistoryEvent:
        event = self._backlog.popleft()
        self._backlog_bytes -= event.size_bytes
        return event
