"""Two profiles, about two seconds each; the others are in test_profiles.py, which a quick run leaves out."""

from __future__ import annotations

import asyncio

import pytest

from kshim.testing import Kshim


@pytest.mark.parametrize("profile", ["rolling-deploy", "disk-full"])
def test_consumers_of_kafka_python_come_through(profile: str) -> None:
    with Kshim(brokers=2) as kshim:
        chaos = kshim.chaos(profile, seed=7, bound=60).play()
        assert chaos.violations == []
        assert chaos.unmet == []


def test_it_is_played_in_a_worker_thread_beside_asyncio() -> None:
    async def test() -> list[str]:
        async with Kshim(brokers=2) as kshim:
            return (await asyncio.to_thread(kshim.chaos("coordinator-failover", seed=7, bound=60).play)).violations

    assert asyncio.run(test()) == []
