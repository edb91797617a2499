"""Wakes whoever has a deadline when it is due, and says what is due next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import trio

from kshim.coordinator.step import Now
from kshim.server.clock import GroupClock
from kshim.server.connection import ServerLog

_NEVER: Final = 1 << 62
_RETRY_MS: Final = 100
"""Pause after a step raised, so that a defect does not take the whole processor."""


class Schedule(NamedTuple):
    """Something with deadlines: `next_deadline` is when `fire` is due, in ms of the monotonic clock; None: not at all.

    It may be too early, never too late.
    """

    next_deadline: Callable[[], int | None]
    fire: Callable[[Now], None]


class Timers:
    """A timer for each schedule, all on one clock. Pauses after a defect are real ones, whatever that clock does."""

    def __init__(
        self, schedules: Sequence[Schedule], *, clock: GroupClock, real_clock: GroupClock, log: ServerLog
    ) -> None:
        self._timers = [_Timer(schedule, clock, self.rearm, real_clock, log) for schedule in schedules]

    def rearm(self) -> None:
        """Call after anything that may have set an earlier deadline. A comparison for each schedule when none was."""
        for timer in self._timers:
            timer.rearm()

    async def run(self) -> None:
        """Fire until cancelled."""
        async with trio.open_nursery() as nursery:
            for timer in self._timers:
                nursery.start_soon(timer.run)

    def next_deadline(self) -> int | None:
        """The first of all."""
        deadlines = [timer.next_deadline() for timer in self._timers]
        return min((deadline_ms for deadline_ms in deadlines if deadline_ms is not None), default=None)

    def fire(self, now: Now) -> bool:
        """Do everything that is due, for a caller that moves the clock. False when something of that raised."""
        has_failed = False
        for timer in self._timers:
            deadline_ms = timer.next_deadline()
            if deadline_ms is not None and deadline_ms <= now.mono_ms and not timer.try_to_fire(now):
                has_failed = True
        return not has_failed


class _Timer:
    __slots__ = ("_armed_ms", "_clock", "_fire", "_fired", "_log", "_real_clock", "_sleep", "next_deadline")

    def __init__(
        self,
        schedule: Schedule,
        clock: GroupClock,
        fired: Callable[[], None],
        real_clock: GroupClock,
        log: ServerLog,
    ) -> None:
        self.next_deadline, self._fire = schedule
        self._clock = clock
        self._fired = fired
        self._real_clock = real_clock
        self._log = log
        self._sleep: trio.CancelScope | None = None
        self._armed_ms = _NEVER

    def rearm(self) -> None:
        deadline_ms = self.next_deadline()
        if deadline_ms is not None and deadline_ms < self._armed_ms and self._sleep is not None:
            self._armed_ms = deadline_ms
            self._sleep.cancel()

    async def run(self) -> None:
        while True:
            deadline_ms = self.next_deadline()
            self._armed_ms = _NEVER if deadline_ms is None else deadline_ms
            with trio.CancelScope() as self._sleep:
                if deadline_ms is None:
                    await trio.sleep_forever()
                else:
                    await self._clock.sleep_until(deadline_ms)
            is_due = not self._sleep.cancelled_caught
            self._sleep = None
            if is_due:
                if not self.try_to_fire(self._clock.now()):
                    await self._real_clock.sleep_until(self._real_clock.now().mono_ms + _RETRY_MS)
                self._fired()

    def try_to_fire(self, now: Now) -> bool:
        """False when that raised, which is in the log then."""
        try:
            self._fire(now)
        except Exception as error:
            self._log.failed("running timers", error)
            return False
        return True
