"""The clock a server runs on."""

from __future__ import annotations

import time
from typing import Protocol

import trio

from kshim.coordinator.step import Now


class GroupClock(Protocol):
    """Where `Now` comes from. Group, retention and transaction timers may run on any; fetch waits on the real one."""

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
