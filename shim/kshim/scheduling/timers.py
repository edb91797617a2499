"""What the broker itself does after a while, on the real clock: syncs, retries, periodic checks."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Timers:
    """One-time timers. Setting one needs no clock: its time counts from the next `advance`, which is then due at once.

    `next_ms` is when `advance` is due on the real monotonic clock, or None; 0 stands for at once.
    """

    def __init__(self) -> None:
        self.next_ms: int | None = None
        self._unscheduled: list[tuple[int, Callable[[], None]]] = []
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Call `action` in `delay_ms`."""
        self._unscheduled.append((delay_ms, action))
        self.next_ms = 0

    def advance(self, real_ms: int) -> None:
        """Call what is due, in the order of its time."""
        for delay_ms, action in self._unscheduled:
            self._sequence += 1
            heapq.heappush(self._heap, (real_ms + delay_ms, self._sequence, action))
        self._unscheduled.clear()
        try:
            while self._heap and self._heap[0][0] <= real_ms:
                heapq.heappop(self._heap)[2]()
        finally:
            self.next_ms = 0 if self._unscheduled else (self._heap[0][0] if self._heap else None)
