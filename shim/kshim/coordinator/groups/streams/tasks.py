"""Tasks by role, as targets and members have them, and as they travel: by subtopology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kshim.coordinator.groups.streams.task_assignor import Task


class Tasks(NamedTuple):
    """What a member is to run, or says it runs."""

    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()


class HeldTasks(NamedTuple):
    """What is in a member's hands. An active task comes with the member epoch in which it was assigned."""

    active: Mapping[Task, int] = {}
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether it is nothing at all."""
        return not (self.active or self.standby or self.warmup)

    def shares_any(self, tasks: Tasks) -> bool:
        """Whether one of them is among `tasks` in the same role."""
        return (
            not tasks.active.isdisjoint(self.active)
            or not tasks.standby.isdisjoint(self.standby)
            or not tasks.warmup.isdisjoint(self.warmup)
        )

    def contains(self, tasks: Tasks) -> bool:
        """Whether all of `tasks` are among them, in the same role."""
        return tasks.active <= self.active.keys() and tasks.standby <= self.standby and tasks.warmup <= self.warmup


NO_TASKS = Tasks()
NOTHING_HELD = HeldTasks()


def by_subtopology(tasks: Iterable[Task]) -> dict[str, tuple[int, ...]]:
    """Partitions by the id of their subtopology, both in order."""
    found: dict[str, list[int]] = {}
    for subtopology_id, index in sorted(tasks):
        found.setdefault(subtopology_id, []).append(index)
    return {subtopology_id: tuple(indexes) for subtopology_id, indexes in found.items()}
