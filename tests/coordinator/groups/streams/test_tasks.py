"""Tasks by role: what is in a member's hands beside what it says."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.streams.tasks import NO_TASKS, NOTHING_HELD, HeldTasks, Tasks, by_subtopology

A, B, C = ("0", 0), ("0", 1), ("1", 0)
HELD = HeldTasks({A: 3}, frozenset({B}), frozenset({C}))


@pytest.mark.parametrize(
    ("held", "is_empty"),
    [
        (NOTHING_HELD, True),
        (HeldTasks({A: 0}), False),
        (HeldTasks(standby=frozenset({A})), False),
        (HeldTasks(warmup=frozenset({A})), False),
    ],
)
def test_a_member_has_nothing_where_it_has_nothing_in_any_role(held: HeldTasks, is_empty: bool) -> None:
    assert held.is_empty is is_empty


@pytest.mark.parametrize(
    ("tasks", "are_shared", "are_contained"),
    [
        (NO_TASKS, False, True),
        (Tasks(frozenset({A}), frozenset({B}), frozenset({C})), True, True),
        (Tasks(frozenset({A})), True, True),
        (Tasks(frozenset(), frozenset({B})), True, True),
        (Tasks(frozenset(), frozenset(), frozenset({C})), True, True),
        (Tasks(frozenset({A, B})), True, False),
        (Tasks(frozenset({A}), frozenset({B, C})), True, False),
        (Tasks(frozenset(), frozenset(), frozenset({A, C})), True, False),
        (Tasks(frozenset({A}), frozenset({C})), True, False),
        (Tasks(frozenset({B}), frozenset({C}), frozenset({A})), False, False),  # in another role
        (Tasks(frozenset({B})), False, False),
        (Tasks(frozenset(), frozenset({A})), False, False),
        (Tasks(frozenset(), frozenset(), frozenset({A})), False, False),
    ],
)
def test_tasks_are_compared_role_by_role(tasks: Tasks, are_shared: bool, are_contained: bool) -> None:
    assert HELD.shares_any(tasks) is are_shared
    assert HELD.contains(tasks) is are_contained


def test_tasks_travel_by_subtopology_in_order() -> None:
    assert by_subtopology([("1", 2), ("0", 3), ("1", 0), ("0", 10)]) == {"0": (3, 10), "1": (0, 2)}
    assert list(by_subtopology([("1", 2), ("0", 3)])) == ["0", "1"]
    assert by_subtopology([]) == {}
