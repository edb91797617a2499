"""Moves a server's clock ahead, and fires on the way what falls due."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from kshim.broker.connection import FrameRouter
from kshim.coordinator.step import Now
from kshim.scheduling.background_tasks import run_task
from kshim.server.clock import SteerableClock
from kshim.server.connection import ServerLog
from kshim.server.loop import Loop
from kshim.server.timers import Schedule, Timers

MAX_ADVANCE_S: Final = 366 * 24 * 3_600
_OF_CLIENTS: Final = frozenset(
    {"session", "join", "sync", "transaction", "fetch", "authentication", "failed_authentication", "idle_connection"}
    | {"slow_client", "hang_up", "fault"}
)
"""The kinds of timers that a client can notice."""
_MAX_STEPS_AT_ONCE: Final = 10_000
"""So often may timers at one instant set others that are due at the same one."""
_MAX_FAILURES_AT_ONCE: Final = 3
"""So often may they raise at one instant; the errors are in the log."""


class Fired(NamedTuple):
    """A timer that has fired: what it was for, and when.

    `kind` and `key` are, for example, `session` and (group id, member id); docs/testing/time.md has them all. `at` is on
    the broker's clock, in seconds since 1970, as `time.time()` counts them.
    """

    kind: str
    key: tuple[str, ...]
    at: float

    @property
    def is_routine(self) -> bool:
        """Whether it is only the broker's housekeeping: a regular check, a sync of a log, a retry."""
        return self.kind not in _OF_CLIENTS


def checked_ms(seconds: float) -> int:
    """How far to advance, in ms. Raises TypeError, ValueError."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"seconds must be a number, such as 46 or 0.5, not {seconds!r}")
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(
            f"the clock advances by a number of seconds of 0 or more, not by {seconds!r}: it never goes back"
        )
    if seconds > MAX_ADVANCE_S:
        raise ValueError(f"the clock advances by a year ({MAX_ADVANCE_S} seconds) at most, not by {seconds!r} seconds")
    return round(seconds * 1_000)


class ClockControl:
    """The clock of a running server, and everything that runs on it. Call it in trio's thread, between two turns."""

    def __init__(
        self, clock: SteerableClock, router: FrameRouter, peers: Loop, timers: Sequence[Timers], log: ServerLog
    ) -> None:
        self._clock = clock
        self._router = router
        self._peers = peers
        self._timers = timers
        self._log = log
        self._fired: list[Fired] = []
        self._is_advancing = False
        router.on_fired = self.note

    @property
    def now(self) -> Now:
        """This instant on the server's clock."""
        return self._clock.now()

    def advance(
        self,
        seconds: float,
        *,
        beside: Schedule | None = None,
    ) -> list[Fired]:
        """Move the clock ahead from deadline to deadline, and return what fired, in this order.

        A timer finds the clock at its deadline, and what it sets within the time that is left fires, too. Requests that
        have come before are handled before; when this returns, the background tasks that timers started are done, and
        responses are sent as far as sockets take them. `beside` is a further schedule, which fires before the timers of an instant, and at the end.
        Raises TypeError and ValueError for `seconds`; RuntimeError inside of itself, and for timers that are due again
        and again at one instant: the clock stays there.
        """
        ms = checked_ms(seconds)
        if self._is_advancing:
            raise RuntimeError("the clock is being advanced: wait until that has returned")
        self._is_advancing = True
        try:
            self.settle()
            self._clock.hold()
            now_ms = self._clock.now().mono_ms
            self._router.pace.begin(now_ms, now_ms + ms)
            try:
                self._step_to(now_ms + ms, beside)
                if beside is not None:
                    beside.fire(self._clock.now())
            finally:
                self._router.pace.end()
                self._clock.release()
            self._peers.send_ready()
            return self._fired
        finally:
            self._fired = []
            self._is_advancing = False

    def settle(self) -> None:
        """Handle requests that have come, finish reading shards, and do the background tasks that have not begun."""
        self._peers.serve_ready()
        self._router.finish_loading()
        self._finish_tasks()

    def _step_to(self, end_ms: int, beside: Schedule | None) -> None:
        steps = 0
        while (now_ms := self._next_ms(end_ms, beside)) is not None:
            steps = steps + 1 if now_ms == self._clock.now().mono_ms else 0
            if steps > _MAX_STEPS_AT_ONCE:
                last = ", ".join(str(fired.kind) for fired in self._fired[-3:])
                raise RuntimeError(f"timers are due again and again at one instant; the last ones to fire: {last}")
            self._clock.move_to(now_ms)
            now = self._clock.now()
            if beside is not None and (due_ms := beside.next_deadline()) is not None and due_ms <= now_ms:
                beside.fire(now)
            for timers in self._timers:
                if not timers.fire(now):
                    steps += _MAX_STEPS_AT_ONCE // _MAX_FAILURES_AT_ONCE
                self._finish_tasks()
                self._peers.send_ready()  # who has just been answered is not idle
        self._clock.move_to(end_ms)

    def _next_ms(self, end_ms: int, beside: Schedule | None) -> int | None:
        deadlines = [timers.next_deadline() for timers in self._timers]
        if beside is not None:
            deadlines.append(beside.next_deadline())
        first_ms = min((deadline_ms for deadline_ms in deadlines if deadline_ms is not None), default=None)
        if first_ms is None or first_ms > end_ms:
            return None
        return max(first_ms, self._clock.now().mono_ms)

    def _finish_tasks(self) -> None:
        """Do what waits to be done besides answering, so that it finds the clock where it was meant to."""
        tasks = self._router.background_tasks
        while (task := tasks.next_urgent() or tasks.next()) is not None:
            try:
                run_task(task)
            except Exception as error:
                self._log.failed(f"doing the task {getattr(task, '__name__', '')}", error)

    def note(self, key: tuple[str, ...]) -> None:
        """A timer has fired: its kind and what it was for."""
        if self._is_advancing:
            self._fired.append(Fired(key[0], key[1:], self._clock.now().wall_ms / 1_000))
