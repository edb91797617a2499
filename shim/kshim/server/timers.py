"""Wakes the router when its next deadline is due, on either clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from kshim.broker.connection import FrameRouter
from kshim.coordinator.step import Now
from kshim.server.clock import GroupClock
from kshim.server.connection import ServerLog

_NEVER: Final = 1 << 62
_RETRY_MS: Final = 100
"""Pause after a step of the router raised, so that a defect does not take the whole processor."""


class Timers:
    """Two timers: group timers on the injectable clock, waiting Fetches on the real one."""

    def __init__(self, router: FrameRouter, *, clock: GroupClock, real_clock: GroupClock, log: ServerLog) -> None:
        def advance_real(now: Now) -> None:
            router.advance_real(now.mono_ms)

        self._group = _Timer(clock, router.next_deadline, router.advance, self.rearm, real_clock, log)
        self._real = _Timer(real_clock, router.next_real_deadline, advance_real, self.rearm, real_clock, log)

    def rearm(self) -> None:
        """Call after anything that may have set an earlier deadline. Two comparisons when none was."""
        self._group.rearm()
        self._real.rearm()

    async def run(self) -> None:
        """Fire until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._group.run)
            nursery.start_soon(self._real.run)


class _Timer:
    __slots__ = ("_armed_ms", "_clock", "_fire", "_fired", "_log", "_next_deadline", "_real_clock", "_sleep")

    def __init__(
        self,
        clock: GroupClock,
        next_deadline: Callable[[], int | None],
        fire: Callable[[Now], None],
        fired: Callable[[], None],
        real_clock: GroupClock,
        log: ServerLog,
    ) -> None:
        self._clock = clock
        self._next_deadline = next_deadline
        self._fire = fire
        self._fired = fired
        self._real_clock = real_clock
        self._log = log
        self._sleep: trio.CancelScope | None = None
        self._armed_ms = _NEVER

    def rearm(self) -> None:
        deadline_ms = self._next_deadline()
        if deadline_ms is not None and deadline_ms < self._armed_ms and self._sleep is not None:
            self._armed_ms = deadline_ms
            self._sleep.cancel()

    async def run(self) -> None:
        while True:
            deadline_ms = self._next_deadline()
            self._armed_ms = _NEVER if deadline_ms is None else deadline_ms
            with trio.CancelScope() as self._sleep:
                if deadline_ms is None:
                    await trio.sleep_forever()
                else:
                    await self._clock.sleep_until(deadline_ms)
            is_due = not self._sleep.cancelled_caught
            self._sleep = None
            if is_due:
                try:
                    self._fire(self._clock.now())
                except Exception as error:
                    self._log.failed("running timers", error)
                    await self._real_clock.sleep_until(self._real_clock.now().mono_ms + _RETRY_MS)
                self._fired()
