"""The background_tasks that wait, and doing one at once."""

from __future__ import annotations

import pytest

from kshim.scheduling.background_tasks import BackgroundTask, BackgroundTasks, run_task


def nothing() -> BackgroundTask:
    yield None


def test_tasks_are_handed_out_in_order_urgent_ones_apart() -> None:
    background_tasks = BackgroundTasks()
    calls: list[str] = []
    background_tasks.on_task = lambda: calls.append("called")
    made = [nothing() for _ in range(4)]
    for number, task in enumerate(made):
        background_tasks.add(task, urgent=number % 2 == 1)
    assert len(calls) == 4
    assert [background_tasks.next_urgent() for _ in range(3)] == [made[1], made[3], None]
    assert [background_tasks.next() for _ in range(3)] == [made[0], made[2], None]


def test_a_task_is_done_at_once_with_its_jobs() -> None:
    seen: list[object] = []

    def fail() -> None:
        raise OSError("broken")

    def task() -> BackgroundTask:
        seen.append((yield None))
        seen.append((yield lambda: 5))
        try:
            yield fail
        except OSError as error:
            seen.append(str(error))
        yield None
        seen.append("end")

    run_task(task())
    assert seen == [None, 5, "broken", "end"]


def test_what_a_task_raises_comes_out() -> None:
    def fail() -> None:
        raise OSError("broken")

    def task() -> BackgroundTask:
        yield fail

    with pytest.raises(OSError, match="broken"):
        run_task(task())
