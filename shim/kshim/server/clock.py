"""The clocks of a server: the machine's, and one that can be steered."""

from __future__ import annotations

import re
import time
from fractions import Fraction
from typing import Final, Protocol

import trio

from kshim.coordinator.step import Now

_RATE: Final = re.compile(r"x(\d{1,5}(?:\.\d{1,3})?)", re.ASCII)
MAX_RATE: Final = 10_000
_MANUAL: Final = Fraction(0)
_REAL: Final = Fraction(1)


class GroupClock(Protocol):
    """Where `Now` comes from."""

    def now(self) -> Now:
        """This instant. `mono_ms` never falls."""

    async def sleep_until(self, mono_ms: int) -> None:
        """Return once `now().mono_ms` has reached `mono_ms`. A checkpoint, also when that is past."""


class RealClock:
    """The machine's monotonic and wall clocks."""

    def now(self) -> Now:
        return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)

    async def sleep_until(self, mono_ms: int) -> None:
        # Once is not enough where trio's clock is another one than time.monotonic.
        while True:
            left_s = mono_ms / 1_000 - time.monotonic()
            await trio.sleep(max(left_s, 0))
            if time.monotonic_ns() // 1_000_000 >= mono_ms:
                return


class SteerableClock:
    """The machine's clocks, moved ahead by what `move_to` has added.

    With another `rate` than 1 time runs that many times as fast as the machine's, and with 0 it stands still (manual).
    Whoever moves the clock holds it first: it then shows the instants it is moved to, and after `release` it goes on from
    there. Both faces of `Now` move together.
    """

    def __init__(self, rate: Fraction = _REAL) -> None:
        self._rate = rate
        self._ahead_ms = 0
        self._began_ns = time.monotonic_ns(), time.time_ns()
        self._held: Now | None = None
        self._moved = trio.Event()
        self.release()

    @property
    def is_manual(self) -> bool:
        """Whether it stands still unless it is moved."""
        return self._rate == _MANUAL

    def now(self) -> Now:
        """See `GroupClock.now`."""
        held = self._held
        if held is not None:
            return held
        ahead_ms = self._ahead_ms
        if self._rate is _REAL:
            return Now(time.monotonic_ns() // 1_000_000 + ahead_ms, time.time_ns() // 1_000_000 + ahead_ms)
        return self._scaled(ahead_ms)

    def _scaled(self, ahead_ms: int) -> Now:
        mono_ns, wall_ns = self._began_ns
        passed_ns = (time.monotonic_ns() - mono_ns) * self._rate.numerator // self._rate.denominator
        return Now((mono_ns + passed_ns) // 1_000_000 + ahead_ms, (wall_ns + passed_ns) // 1_000_000 + ahead_ms)

    async def sleep_until(self, mono_ms: int) -> None:
        """See `GroupClock.sleep_until`."""
        await trio.lowlevel.checkpoint()
        while (left_ms := mono_ms - self.now().mono_ms) > 0:
            if self._held is not None:
                await self._moved.wait()
            else:
                with trio.move_on_after(float(left_ms / self._rate) / 1_000):
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


def parse_clock(text: str) -> SteerableClock:
    """The clock that `real`, `manual` or `x` and a rate, such as `x60`, asks for. Raises ValueError."""
    if text == "manual":
        return SteerableClock(_MANUAL)
    if text == "real":
        return SteerableClock()
    found = _RATE.fullmatch(text)
    rate = Fraction(found[1]) if found is not None else _MANUAL
    if not 0 < rate <= MAX_RATE:
        raise ValueError(
            f"{text!r} is not a clock: use real, manual, or x and a rate of up to {MAX_RATE}, such as x60 or x0.5"
        )
    return SteerableClock(_REAL if rate == 1 else rate)
