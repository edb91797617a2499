"""How often what is checked regularly is checked while the clock is moved far ahead."""

from __future__ import annotations

from typing import Final

_CHECKS: Final = 250


class Pace:
    """When the next check is due: after its interval, or later, while the clock is moved by more than so many of them.

    A check every 15 seconds would else be made 40,000 times when the clock is moved by a week. Moved by `begin`, the clock meets each
    check 250 times at most, the last time at the end. Deadlines of anything else are not its concern.
    """

    def __init__(self) -> None:
        self._least_ms = 0
        self._end_ms = 0

    def begin(self, now_ms: int, end_ms: int) -> None:
        """The clock is going to be moved from one instant to the other."""
        self._least_ms = (end_ms - now_ms) // _CHECKS
        self._end_ms = end_ms

    def end(self) -> None:
        """The clock is where it should be."""
        self._least_ms = 0

    def next_check(self, now_ms: int, interval_ms: int) -> int:
        """When to check again what is checked now, every `interval_ms`."""
        if interval_ms >= self._least_ms:
            return now_ms + interval_ms
        return max(min(now_ms + self._least_ms, self._end_ms), now_ms + interval_ms)
