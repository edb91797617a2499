"""A clock that only a test moves."""

from __future__ import annotations

from heapq import heappop, heappush

import trio

from kshim.coordinator.step import Now


class ManualClock:
    """Stands still until `advance` is called. Both faces of `Now` move together."""

    def __init__(self, *, mono_ms: int = 0, wall_ms: int = 1_700_000_000_000) -> None:
        self._now = Now(mono_ms, wall_ms)
        self._sleepers: list[tuple[int, int, trio.Event]] = []
        self._serial = 0  # orders sleepers of one instant

    def now(self) -> Now:
        return self._now

    def advance(self, ms: int) -> None:
        """Move time on by `ms` at once and wake every sleeper that is due. Call it from trio's thread."""
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms")
        self._now = Now(self._now.mono_ms + ms, self._now.wall_ms + ms)
        while self._sleepers and self._sleepers[0][0] <= self._now.mono_ms:
            heappop(self._sleepers)[2].set()

    def next_wake_ms(self) -> int | None:
        """`mono_ms` of the earliest sleeper, or None."""
        return self._sleepers[0][0] if self._sleepers else None

    async def sleep_until(self, mono_ms: int) -> None:
        if mono_ms <= self._now.mono_ms:
            await trio.lowlevel.checkpoint()
            return
        self._serial += 1
        sleeper = (mono_ms, self._serial, trio.Event())
        heappush(self._sleepers, sleeper)
        try:
            await sleeper[2].wait()
        except trio.Cancelled:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
                self._sleepers.sort()  # a sorted list is a heap
            raise
