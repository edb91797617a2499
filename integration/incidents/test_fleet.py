"""Fleets are drawn from a seed."""

from __future__ import annotations

import asyncio
from typing import Any

from integration.incidents.clock import Clock, Pace
from integration.incidents.fleet import Fleet

CLOCK = Clock(Pace.BROKER, 5, 1_800_000_000_000, 1_900_000_000_000)


def _drawn(seed: int) -> list[Any]:
    async def draw() -> list[Any]:
        fleet = Fleet(("127.0.0.1", 1), CLOCK, seed=seed, service_count=40, prefix="p-", on_accident=lambda _: None)
        return [
            (service.specs, service.style, service.hosts, size)
            for service, size in zip(fleet.services, fleet.sizes, strict=True)
        ]

    return asyncio.run(draw())


def test_a_seed_draws_the_same_fleet_again_and_another_one_another() -> None:
    assert _drawn(5) == _drawn(5)
    assert _drawn(5) != _drawn(6)


def test_services_differ_as_those_of_a_company_do() -> None:
    drawn = _drawn(5)
    specs = [spec for of_service, *_ in drawn for spec in of_service]
    assert len({spec.group_id for spec in specs}) == len(specs) > len(drawn)
    assert {spec.flavour.name for spec in specs} == {"java", "kafka-python", "librdkafka", "sarama"}
    assert {style for _, style, *_ in drawn} >= {(True, False, False), (False, True, False), (False, False, True)}
    assert all(spec.heartbeat_ms <= spec.session_timeout_ms / 3 for spec in specs)
    assert all(spec.rebalance_timeout_ms > spec.session_timeout_ms for spec in specs)
    assert any(spec.protocol_name == "cooperative-sticky" for spec in specs)


def test_timeouts_are_those_of_kafka_by_the_clock_of_the_fleet() -> None:
    specs = [spec for of_service, *_ in _drawn(5) for spec in of_service]
    assert {45_000, 10_000} < {spec.session_timeout_ms * spec.clock_rate for spec in specs}
    assert 300_000 in {spec.rebalance_timeout_ms * spec.clock_rate for spec in specs}


def test_the_clock_of_a_fleet_runs_so_many_times_as_fast() -> None:
    assert CLOCK.at_ms(CLOCK.real_ms + 1_000) == CLOCK.shown_ms + 5_000
    assert CLOCK.real_s(45) == 9
    assert (CLOCK.told_rate, CLOCK._replace(pace=Pace.READER).told_rate) == (5, 1)
