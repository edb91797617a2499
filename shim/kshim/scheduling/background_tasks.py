"""Slow work, cut into slices: what a broker has to do besides answering.

A task does at most about 1 ms of work between two yields. `yield None` gives way to requests; `yield job` has `job()`
run in a thread and receives its result, or its exception. The caller that drives it (the server, a test, a simulation)
may close it at any yield; what it changes must be whole at each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

BackgroundTask = Generator[Callable[[], Any] | None, Any, None]


class BackgroundTasks:
    """What waits to be done, in the order in which it came. `on_task` is called when something was added.

    Urgent ones (syncs, on which replies may wait) are started at once and side by side; the others one at a time.
    """

    def __init__(self) -> None:
        self.on_task: Callable[[], None] = lambda: None
        self.unfinished_count = 0
        """How many were added and have not ended, as far as who drives them says so (`ended`)."""
        self._urgent: deque[BackgroundTask] = deque()
        self._ordinary: deque[BackgroundTask] = deque()

    def add(self, task: BackgroundTask, *, urgent: bool = False) -> None:
        """Have it done."""
        (self._urgent if urgent else self._ordinary).append(task)
        self.unfinished_count += 1
        self.on_task()

    def ended(self) -> None:
        """One of them was closed."""
        self.unfinished_count -= 1

    def next(self) -> BackgroundTask | None:
        """The next ordinary task; it is the caller's then."""
        return self._ordinary.popleft() if self._ordinary else None

    def next_urgent(self) -> BackgroundTask | None:
        """The next urgent task; it is the caller's then."""
        return self._urgent.popleft() if self._urgent else None


def run_task(task: BackgroundTask) -> None:
    """Do all of it now, jobs included, and return when it is done: at a shutdown, in tests. Raises what it raises."""
    job = next(task, None)
    try:
        while True:
            if job is None:
                job = task.send(None)
                continue
            try:
                result = job()
            except Exception as error:
                job = task.throw(error)
            else:
                job = task.send(result)
    except StopIteration:
        return
