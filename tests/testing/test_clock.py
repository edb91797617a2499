"""The clock of brokers in a test: it follows real time, `advance` moves it ahead, and every timer runs on it."""

from __future__ import annotations

import math
import time

import pytest

from kshim.testing import Kshim, open_brokers


def test_the_clock_follows_real_time_and_stays_ahead_by_what_it_was_advanced() -> None:
    with Kshim() as kshim:
        assert abs(kshim.clock.now - time.time()) < 1
        assert kshim.clock.advance(46) == []
        assert 45 < kshim.clock.now - time.time() < 47
        before = kshim.clock.now
        while kshim.clock.now == before:
            pass


def test_a_manual_clock_stands_still_until_it_is_advanced() -> None:
    with Kshim(clock="manual") as kshim:
        before, real = kshim.clock.now, time.monotonic()
        while time.monotonic() < real + 0.005:
            pass
        assert kshim.clock.now == before
        kshim.clock.advance(1.5)
        assert kshim.clock.now == pytest.approx(before + 1.5, abs=0.0001)


def test_a_clock_with_a_rate_runs_so_many_times_as_fast() -> None:
    with Kshim(clock="x1000") as kshim:
        real = time.monotonic()
        before = kshim.clock.now
        while kshim.clock.now < before + 10:
            pass
        assert 0.0099 < time.monotonic() - real < 5


@pytest.mark.trio
async def test_under_trio_it_is_the_same_clock_without_a_thread() -> None:
    async with open_brokers(clock="manual") as brokers:
        before = brokers.clock.now().mono_ms
        assert brokers.advance(60) == []
        assert brokers.clock.now().mono_ms == before + 60_000
    with pytest.raises(RuntimeError, match="closed"):
        brokers.advance(1)


@pytest.mark.parametrize("seconds", [-1, -0.001, math.nan, math.inf, 367 * 86_400])
def test_a_number_of_seconds_that_cannot_be_is_refused(seconds: float) -> None:
    with Kshim(clock="manual") as kshim:
        before = kshim.clock.now
        with pytest.raises(ValueError, match="the clock advances by"):
            kshim.clock.advance(seconds)
        assert kshim.clock.now == before


@pytest.mark.parametrize("seconds", ["46", True, None])
def test_what_is_not_a_number_is_refused(seconds: object) -> None:
    with Kshim() as kshim, pytest.raises(TypeError, match="seconds must be a number"):
        kshim.clock.advance(seconds)  # type: ignore[arg-type]


@pytest.mark.parametrize("clock", ["x0", "x", "fast", "x20000", "60", ""])
def test_a_clock_that_is_none_is_refused_with_a_sentence_that_says_what_there_is(clock: str) -> None:
    with pytest.raises(ValueError, match="use real, manual, or x and a rate"), Kshim(clock=clock):
        pass
