"""The chores that wait, and doing one at once."""

from __future__ import annotations

import pytest

from kshim.broker.chores import Chore, Chores, run_chore


def nothing() -> Chore:
    yield None


def test_chores_are_handed_out_in_order_urgent_ones_apart() -> None:
    chores = Chores()
    calls: list[str] = []
    chores.on_chore = lambda: calls.append("called")
    made = [nothing() for _ in range(4)]
    for number, chore in enumerate(made):
        chores.add(chore, urgent=number % 2 == 1)
    assert len(calls) == 4
    assert [chores.next_urgent() for _ in range(3)] == [made[1], made[3], None]
    assert [chores.next() for _ in range(3)] == [made[0], made[2], None]


def test_a_chore_is_done_at_once_with_its_jobs() -> None:
    seen: list[object] = []

    def fail() -> None:
        raise OSError("broken")

    def chore() -> Chore:
        seen.append((yield None))
        seen.append((yield lambda: 5))
        try:
            yield fail
        except OSError as error:
            seen.append(str(error))
        yield None
        seen.append("end")

    run_chore(chore())
    assert seen == [None, 5, "broken", "end"]


def test_what_a_chore_raises_comes_out() -> None:
    def fail() -> None:
        raise OSError("broken")

    def chore() -> Chore:
        yield fail

    with pytest.raises(OSError, match="broken"):
        run_chore(chore())
