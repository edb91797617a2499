"""The background tasks of a broker, which go on bit by bit: which one, chance decides."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from kshim.scheduling.background_tasks import BackgroundTask
from tests.broker.harness import NodeUnderTest


class _Work:
    """A task under way: what is to be sent into it next, or the job it waits for."""

    def __init__(self, task: BackgroundTask) -> None:
        self.task = task
        self.job: Callable[[], Any] | None = None
        self.result: Any = None
        self.error: Exception | None = None


class BackgroundWork:
    """Tasks under way. Jobs run whenever their turn comes, and their results arrive later still, as those of threads do."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._under_way: list[_Work] = []

    @property
    def is_under_way(self) -> bool:
        """Whether a task has begun and not ended."""
        return bool(self._under_way)

    def begin(self, node: NodeUnderTest) -> None:
        """Begin all tasks that wait."""
        tasks = node.node.background_tasks
        while (task := tasks.next_urgent() or tasks.next()) is not None:
            self._under_way.append(_Work(task))

    def go_on(self, node: NodeUnderTest) -> None:
        """One task goes on: up to its next yield, or its job runs."""
        self.begin(node)
        if not self._under_way:
            return
        work = self._rng.choice(self._under_way)
        if work.job is not None:
            try:
                work.result = work.job()
            except Exception as error:
                work.error = error
            work.job = None
            return
        result, failure = work.result, work.error
        work.result = work.error = None
        try:
            work.job = work.task.send(result) if failure is None else work.task.throw(failure)
        except StopIteration:
            self._under_way.remove(work)

    def finish(self, node: NodeUnderTest) -> None:
        """Every task ends, and those that come of it."""
        self.begin(node)
        while self._under_way:
            self.go_on(node)
            self.begin(node)

    def end(self) -> None:
        """The process is gone, and its tasks with it."""
        for work in self._under_way:
            work.task.close()
        self._under_way.clear()
