"""The clocks of a server: the machine's, and one that can be steered."""

from __future__ import annotations

import time
from typing import Protocol

import trio

from kshim.coordinator.step import Now
from kshim.scheduling.clock_rate import MANUAL, REAL


class GroupClock(Protocol):
    """Where `Now` comes from."""

    def now(self) -> Now:
        """This instant. `mono_ms` never falls."""

    async def sleep_until(self, mono_ms: int) -> None:
        """Return once `now().mono_ms` has reached `mono_ms`. A checkpoint, also when that is past."""


class RealClock:
    """The machine's monotonic and wall clocks."""

    def now(self) -> Now:
        # As Now(...), which is a function of Python's own in between: it is asked for with all that comes.
        return tuple.__new__(Now, (time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000))

    async def sleep_until(self, mono_ms: int) -> None:
        # Once is not enough where trio's clock is another one than time.monotonic.
        while True:
            left_s = mono_ms / 1_000 - time.monotonic()
            await trio.sleep(max(left_s, 0))
            if time.monotonic_ns() // 1_000_000 >= mono_ms:
                return


class SteerableClock:
    """The machine's clocks, moved ahead by what `move_to` has added.

    Time runs at `rate` thousandths of the machine's (`kshim.scheduling.clock_rate`); with MANUAL it stands still.
    Whoever moves the clock holds it first: it then shows the instants it is moved to, and after `release` it goes on from
    there. Both faces of `Now` move together.
    """

    def __init__(self, rate: int = REAL) -> None:
        self._rate = rate
        self._is_real = rate == REAL
        self._ahead_ms = 0
        self._began_ns = time.monotonic_ns(), time.time_ns()
        self._held: Now | None = None
        self._moved = trio.Event()
        self.release()

    @property
    def is_manual(self) -> bool:
        """Whether it stands still unless it is moved."""
        return self._rate == MANUAL

    def now(self) -> Now:
        """See `GroupClock.now`."""
        held = self._held
        if held is not None:
            return held
        ahead_ms = self._ahead_ms
        if self._is_real:
            return tuple.__new__(
                Now, (time.monotonic_ns() // 1_000_000 + ahead_ms, time.time_ns() // 1_000_000 + ahead_ms)
            )
        return self._scaled(ahead_ms)

    def _scaled(self, ahead_ms: int) -> Now:
        mono_ns, wall_ns = self._began_ns
        passed_ns = (time.monotonic_ns() - mono_ns) * self._rate // REAL
        return Now((mono_ns + passed_ns) // 1_000_000 + ahead_ms, (wall_ns + passed_ns) // 1_000_000 + ahead_ms)

    async def sleep_until(self, mono_ms: int) -> None:
        """See `GroupClock.sleep_until`."""
        await trio.lowlevel.checkpoint()
        while (left_ms := mono_ms - self.now().mono_ms) > 0:
            if self._held is not None:
                await self._moved.wait()
            else:
                with trio.move_on_after(left_ms / self._rate):
                    await self._moved.wait()

    # Moving it

    def hold(self) -> None:
        """Stand still at this instant until `release`."""
        self._held = self.now()

    def move_to(self, mono_ms: int) -> None:
        """Show a later instant, while it is held."""
        held = self._held
        assert held is not None, "moved without being held"
        ms = mono_ms - held.mono_ms
        assert ms >= 0, "time does not go back"
        self._held = Now(mono_ms, held.wall_ms + ms)
        self._ahead_ms += ms

    def release(self) -> None:
        """Go on from where it was moved to, and wake who sleeps until an instant that has come."""
        self._held = None
        if self.is_manual:
            self._held = self._scaled(self._ahead_ms)
        self._moved.set()
        self._moved = trio.Event()
