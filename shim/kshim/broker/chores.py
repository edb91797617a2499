"""Slow work, cut into slices: what a broker has to do besides answering.

A chore does at most about 1 ms of work between two yields. `yield None` gives way to requests; `yield job` has `job()`
run in a thread and gets its result, or its exception thrown in. Whoever drives it (the server, a test, a simulation)
may close it at any yield; what it changes must be whole at each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

__all__ = ["Chore", "Chores", "run_chore"]

Chore = Generator[Callable[[], Any] | None, Any, None]


class Chores:
    """What waits to be done, in the order in which it came. `on_chore` is called when something was added.

    Urgent ones (syncs, on which replies may wait) are started at once and side by side; the others one at a time.
    """

    __slots__ = ("_ordinary", "_urgent", "on_chore")

    def __init__(self) -> None:
        self.on_chore: Callable[[], None] = _nobody_listens
        self._urgent: deque[Chore] = deque()
        self._ordinary: deque[Chore] = deque()

    def add(self, chore: Chore, *, urgent: bool = False) -> None:
        """Have it done."""
        (self._urgent if urgent else self._ordinary).append(chore)
        self.on_chore()

    def next(self) -> Chore | None:
        """The next ordinary chore; it is the caller's then."""
        return self._ordinary.popleft() if self._ordinary else None

    def next_urgent(self) -> Chore | None:
        """The next urgent chore; it is the caller's then."""
        return self._urgent.popleft() if self._urgent else None


def run_chore(chore: Chore) -> None:
    """Do all of it now, jobs included, and return when it is done: at a shutdown, in tests. Raises what it raises."""
    job = next(chore, None)
    try:
        while True:
            if job is None:
                job = chore.send(None)
                continue
            try:
                result = job()
            except Exception as error:
                job = chore.throw(error)
            else:
                job = chore.send(result)
    except StopIteration:
        return


def _nobody_listens() -> None:
    pass
