"""The clock of a server: real, at a rate, or manual; held, moved and released."""

from __future__ import annotations

import time

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from kshim.scheduling.clock_rate import MANUAL, REAL, clock_rate
from kshim.server.clock import SteerableClock


@given(st.sampled_from([MANUAL, 1, 500, REAL, 60_000]), st.lists(st.integers(0, 10**10), max_size=30))
def test_it_never_goes_back_and_both_faces_move_together(rate: int, moves: list[int]) -> None:
    clock = SteerableClock(rate)
    began = last = clock.now()
    for ms in moves:
        clock.hold()
        assert clock.now().mono_ms >= last.mono_ms
        clock.move_to(clock.now().mono_ms + ms)
        last = clock.now()
        clock.release()
        assert clock.now().mono_ms >= last.mono_ms
    now = clock.now()
    assert now.mono_ms - began.mono_ms >= sum(moves)
    # The machine's two clocks are read one after the other, and rounded each.
    assert abs((now.wall_ms - began.wall_ms) - (now.mono_ms - began.mono_ms)) < 1_000
    if rate == MANUAL:
        assert now == (began.mono_ms + sum(moves), began.wall_ms + sum(moves))


@pytest.mark.parametrize("text", ["x0.5", "x3", "x60", "x10000", "real", "x1"])
def test_its_rate(text: str) -> None:
    rate = 1.0 if text == "real" else float(text[1:])
    before_s = time.monotonic()
    clock = SteerableClock(clock_rate(text))
    began_ms = clock.now().mono_ms
    began_s = time.monotonic()
    while time.monotonic() < began_s + 0.01:
        pass
    end_s = time.monotonic()
    end_ms = clock.now().mono_ms
    after_s = time.monotonic()
    assert (end_s - began_s) * rate * 1_000 - rate - 2 <= end_ms - began_ms  # it is asked before and after the others
    assert end_ms - began_ms <= (after_s - before_s) * rate * 1_000 + 2


@pytest.mark.trio
async def test_who_sleeps_is_woken_by_a_move_past_his_instant_and_by_no_other() -> None:
    clock = SteerableClock(MANUAL)
    began_ms = clock.now().mono_ms
    woken: list[int] = []

    async def sleep(ms: int) -> None:
        await clock.sleep_until(began_ms + ms)
        woken.append(ms)

    def advance(ms: int) -> None:
        clock.hold()
        clock.move_to(clock.now().mono_ms + ms)
        clock.release()

    async with trio.open_nursery() as nursery:
        for ms in (0, 10, 11, 1_000):
            nursery.start_soon(sleep, ms)
        await trio.testing.wait_all_tasks_blocked()
        assert woken == [0]
        advance(10)
        await trio.testing.wait_all_tasks_blocked()
        assert woken == [0, 10]
        advance(10**6)
        await trio.testing.wait_all_tasks_blocked()
    assert sorted(woken) == [0, 10, 11, 1_000]


@pytest.mark.trio
@pytest.mark.parametrize("rate", [REAL, 100 * REAL])
async def test_a_clock_that_runs_wakes_by_itself_and_is_then_there(rate: int) -> None:
    clock = SteerableClock(rate)
    mono_ms = clock.now().mono_ms + 2 * rate // REAL
    with trio.fail_after(20):
        await clock.sleep_until(mono_ms)
    assert clock.now().mono_ms >= mono_ms


@pytest.mark.trio
async def test_a_sleep_to_an_instant_in_the_past_is_a_checkpoint() -> None:
    clock = SteerableClock(MANUAL)
    with trio.testing.assert_checkpoints():
        await clock.sleep_until(clock.now().mono_ms - 5)


@pytest.mark.parametrize(("text", "rate"), [("real", 1_000), ("manual", 0), ("x60", 60_000), ("x0.5", 500)])
def test_how_a_rate_is_written(text: str, rate: int) -> None:
    assert clock_rate(text) == rate
