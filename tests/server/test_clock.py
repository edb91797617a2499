"""Time that stands still until it is told to move, and the machine's."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kshim.server.clock import RealClock
from tests.server.manual_clock import ManualClock


def test_both_faces_of_a_manual_clock_move_together() -> None:
    clock = ManualClock(mono_ms=5, wall_ms=1_000)
    clock.advance(20)
    assert clock.now() == (25, 1_020)


def test_a_manual_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        ManualClock().advance(-1)


@pytest.mark.trio
async def test_a_manual_clock_wakes_each_sleeper_when_it_is_due() -> None:
    clock = ManualClock(mono_ms=100)
    woken: list[int] = []

    async def sleep_until(mono_ms: int) -> None:
        await clock.sleep_until(mono_ms)
        woken.append(mono_ms)

    async with trio.open_nursery() as nursery:
        for mono_ms in (300, 50, 200, 201):
            nursery.start_soon(sleep_until, mono_ms)
        await trio.testing.wait_all_tasks_blocked()
        assert woken == [50]
        assert clock.next_wake_ms() == 200
        clock.advance(100)
        await trio.testing.wait_all_tasks_blocked()
        assert woken == [50, 200]
        clock.advance(1_000)
    assert sorted(woken) == [50, 200, 201, 300]
    assert clock.next_wake_ms() is None


@pytest.mark.trio
async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    async with trio.open_nursery() as nursery:
        for mono_ms in (10, 20, 30):
            nursery.start_soon(clock.sleep_until, mono_ms)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert clock.next_wake_ms() is None


@pytest.mark.trio
async def test_a_real_instant_that_is_past_is_only_a_checkpoint() -> None:
    clock = RealClock()
    now = clock.now()
    with trio.testing.assert_checkpoints():
        await clock.sleep_until(now.mono_ms - 5)
    assert clock.now().mono_ms >= now.mono_ms
    assert clock.now().wall_ms > 1_700_000_000_000


@pytest.mark.trio
async def test_the_real_clock_has_reached_the_instant_slept_for() -> None:
    clock = RealClock()
    mono_ms = clock.now().mono_ms + 2
    await clock.sleep_until(mono_ms)
    assert clock.now().mono_ms >= mono_ms
