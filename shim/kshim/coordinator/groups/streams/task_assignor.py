"""The task assignor `sticky`: from members, what they had, and the tasks there are, to what each is to run (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

STICKY: Final = "sticky"
"""Its name."""

Task = tuple[str, int]
"""Id of a subtopology, index of a partition."""


class AssignorMember(NamedTuple):
    """A member as the assignor sees it: its process, and its target so far."""

    process_id: str
    active_tasks: frozenset[Task] = frozenset()
    standby_tasks: frozenset[Task] = frozenset()
    warmup_tasks: frozenset[Task] = frozenset()
    task_offsets: Mapping[Task, int] = {}  # what the member last reported to have restored


class Tasks(NamedTuple):
    """What one member is to run. Warm-up tasks are never assigned by Kafka 4.4."""

    active_tasks: frozenset[Task] = frozenset()
    standby_tasks: frozenset[Task] = frozenset()


class SubtopologyTasks(NamedTuple):
    """How many tasks a subtopology has, and whether they have state."""

    task_count: int
    is_stateful: bool


def assign_sticky(
    members: Mapping[str, AssignorMember],
    subtopologies: Mapping[str, SubtopologyTasks],
    *,
    standby_replicas: int = 0,
) -> dict[str, Tasks]:
    """What each member is to run; every member is in it."""
    raise NotImplementedError
