"""Deadlines by key: cheap to move later, fired in order of (deadline, key)."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable

Key = tuple[str, ...]
"""What a deadline belongs to: ("join", group), ("sync", group), ("session", group, member), ("expiry", partition),
("share_prune", partition), ("share_snapshot", partition).

In a group of the new protocol a member has its own: ("rebalance", group, member), ("join", ...) and ("sync", ...)."""

_NEVER = sys.maxsize


class Deadlines:
    """One deadline a key, in ms of the monotonic clock.

    A deadline stands in a dict; a heap says when to look again. Moving a deadline later only changes the dict, for
    the heap's entry is then early and is put back when its time comes. So re-arming a session costs two dict accesses.
    """

    def __init__(self) -> None:
        self._due: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}  # time of the key's one heap entry that counts
        self._heap: list[tuple[int, Key]] = []

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: Key, deadline_ms: int) -> None:
        """Set or move the deadline of `key`."""
        self._due[key] = deadline_ms
        if self._queued.get(key, _NEVER) > deadline_ms:
            self._queue(key, deadline_ms)

    def get(self, key: Key) -> int | None:
        """The deadline of `key`, None when it has none."""
        return self._due.get(key)

    def cancel(self, key: Key) -> None:
        """Forget the deadline of `key`, if it has one."""
        self._due.pop(key, None)

    def cancel_where(self, is_gone: Callable[[Key], bool]) -> None:
        """Remove every deadline whose key no longer exists. Checks all of them."""
        self._due = {key: deadline_ms for key, deadline_ms in self._due.items() if not is_gone(key)}
        self._rebuild()

    def earliest(self) -> int | None:
        """When to call `pop_due` next: never later than the first deadline, perhaps earlier. None: no deadlines."""
        return self._heap[0][0] if self._heap else None

    def first_due(self, now_ms: int) -> Key | None:
        """The first key (by deadline, then key) whose deadline is `now_ms` or before; None when none is."""
        heap, due, queued = self._heap, self._due, self._queued
        while heap and heap[0][0] <= now_ms:
            at_ms, key = heap[0]
            if queued.get(key) == at_ms:
                deadline_ms = due.get(key)
                if deadline_ms == at_ms:
                    return key
                del queued[key]
                heapq.heappop(heap)
                if deadline_ms is not None:
                    self._queue(key, deadline_ms)
            else:
                heapq.heappop(heap)  # an entry from before the deadline was moved earlier
        return None

    def pop_due(self, now_ms: int) -> Key | None:
        """Take out `first_due`."""
        key = self.first_due(now_ms)
        if key is not None:
            heapq.heappop(self._heap)
            del self._queued[key]
            del self._due[key]
        return key

    def _queue(self, key: Key, deadline_ms: int) -> None:
        self._queued[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, key))
        if len(self._heap) > 64 + 4 * len(self._due):
            self._rebuild()

    def _rebuild(self) -> None:
        # In place: first_due holds on to both.
        self._queued.clear()
        self._queued.update(self._due)
        self._heap[:] = [(deadline_ms, key) for key, deadline_ms in self._due.items()]
        heapq.heapify(self._heap)
