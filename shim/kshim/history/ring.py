"""The newest events of the history, in memory, within bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from kshim.history.event import HistoryEvent


class Ring:
    """At most `max_events` events and about `max_bytes` of memory; the oldest go first. Iterates from old to new."""

    def __init__(self, *, max_events: int, max_bytes: int) -> None:
        self.max_events = max_events
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self.dropped_count = 0
        """Events that had to go so far."""
        self._events: deque[HistoryEvent] = deque()
        self._sizes: deque[int] = deque()  # of each event, as it was when it came

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[HistoryEvent]:
        return iter(tuple(self._events))

    @property
    def last_number(self) -> int:
        """The number of the newest event, also when it had to go; 0: there was none yet."""
        return self._events[-1].number if self._events else self.dropped_count

    def append(self, event: HistoryEvent) -> None:
        """Add one and let go of what is too much; an event beyond `max_bytes` alone is not kept."""
        size_bytes = event.size_bytes
        self._events.append(event)
        self._sizes.append(size_bytes)
        self.size_bytes += size_bytes
        while self.size_bytes > self.max_bytes or len(self._events) > self.max_events:
            del self._events[0]
            self.size_bytes -= self._sizes.popleft()
            self.dropped_count += 1

    def after(self, number: int, *, group_id: str | None = None) -> list[HistoryEvent]:
        """The events with a greater `number`, of one group or of all, from old to new."""
        found: list[HistoryEvent] = []
        for event in reversed(self._events):
            if event.number <= number:
                break
            if group_id is None or event.group_id == group_id:
                found.append(event)
        found.reverse()
        return found
