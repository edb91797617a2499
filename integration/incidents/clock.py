"""The time in which a fleet lives: `rate` times as fast as real time, so that Kafka's own timeouts are played in minutes.

All that scripts and members do is in real time. What is told, to brokers and in the truth, is in the fleet's.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from integration.incidents.topics import Topics
from integration.incidents.truth import wall_ms

_ASKED = 5


class Pace(Enum):
    """Where the fleet's time passes."""

    BROKER = "broker"
    """The broker's clock runs as fast, and the members tell it the fleet's timeouts."""
    READER = "reader"
    """The broker's clock is real. Whoever reads what it wrote has to make all times in it so many times as long."""


class Clock(NamedTuple):
    """It showed `shown_ms` at the real time `real_ms`; both ms since 1970."""

    pace: Pace
    rate: int
    real_ms: int
    shown_ms: int

    @classmethod
    async def of(cls, topics: Topics, pace: Pace, rate: int) -> Clock:
        """Now. Asks the broker what time it is. Raises ConnectionGone."""
        if pace is Pace.READER:
            now_ms = wall_ms()
            return cls(pace, rate, now_ms, now_ms)
        found = []
        for _ in range(_ASKED):
            before_ms = wall_ms()
            shown_ms = await topics.broker_ms()
            after_ms = wall_ms()
            found.append((after_ms - before_ms, cls(pace, rate, (before_ms + after_ms) // 2, shown_ms)))
        return min(found)[1]

    @property
    def told_rate(self) -> int:
        """So many times as long as they are in real time are the timeouts that the broker is told."""
        return self.rate if self.pace is Pace.BROKER else 1

    def at_ms(self, real_ms: int) -> int:
        """What it shows at a real time, ms since 1970."""
        return self.shown_ms + self.rate * (real_ms - self.real_ms)

    def now_ms(self) -> int:
        """What it shows."""
        return self.at_ms(wall_ms())

    def real_s(self, fleet_s: float) -> float:
        """A duration of the fleet's as it passes here."""
        return fleet_s / self.rate
