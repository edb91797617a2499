"""What the broker itself does after a while: syncs, retries, periodic checks."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from kshim.scheduling.pace import Pace


class Timers:
    """One-time timers. Setting one needs no clock: its time counts from the next `advance`, which is then due at once.

    `next_ms` is when `advance` is due, in ms of the monotonic clock, or None; 0 stands for at once. `on_fired` is called
    with the name of each timer that fires, in a tuple.
    """

    def __init__(
        self, *, pace: Pace | None = None, on_fired: Callable[[tuple[str, ...]], None] = lambda key: None
    ) -> None:
        self.next_ms: int | None = None
        self._pace = pace or Pace()
        self._on_fired = on_fired
        self._unscheduled: list[tuple[Callable[[int], int], str, Callable[[], None]]] = []
        self._heap: list[tuple[int, int, str, Callable[[], None]]] = []
        self._sequence = 0

    def after(self, delay_ms: int, action: Callable[[], None], *, name: str = "broker") -> None:
        """Call `action` in `delay_ms`. `name` is what it is called where timers that fired are listed."""
        self._unscheduled.append((lambda now_ms: now_ms + delay_ms, name, action))
        self.next_ms = 0

    def check_after(self, interval_ms: int, action: Callable[[], None], *, name: str) -> None:
        """The same for what is checked again and again every `interval_ms`: `Pace` says when."""
        self._unscheduled.append((lambda now_ms: self._pace.next_check(now_ms, interval_ms), name, action))
        self.next_ms = 0

    def advance(self, now_ms: int) -> None:
        """Call what is due, in the order of its time."""
        for at_ms, name, action in self._unscheduled:
            self._sequence += 1
            heapq.heappush(self._heap, (at_ms(now_ms), self._sequence, name, action))
        self._unscheduled.clear()
        try:
            while self._heap and self._heap[0][0] <= now_ms:
                _, _, name, action = heapq.heappop(self._heap)
                self._on_fired((name,))
                action()
        finally:
            self.next_ms = 0 if self._unscheduled else (self._heap[0][0] if self._heap else None)
