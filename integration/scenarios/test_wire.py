"""Every scenario that can be asked of a broker holds on kshim and on Apache Kafka 4.4."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from integration.support.broker import Broker
from integration.support.fixtures import KINDS, available
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from kshim.tools.conform.run import conform
from kshim.tools.report import Verdict
from kshim.tools.scenario.library import load_scenarios
from kshim.tools.scenario.model import Scenario
from kshim.tools.scenario.verdict import Result

MIN_SESSION = {"group.min.session.timeout.ms": "500"}
HEARTBEAT_INTERVALS = {
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.max.heartbeat.interval.ms": "15000",
}
MAX_SIZES = ("group.consumer.max.size", "group.share.max.size", "group.streams.max.size")
SETTINGS: dict[str, dict[str, str]] = {
    "plain": {
        "group.initial.rebalance.delay.ms": "0",
        "offset.metadata.max.bytes": "4096",
        "group.share.min.record.lock.duration.ms": "1000",
        "group.streams.initial.rebalance.delay.ms": "3000",
        **MIN_SESSION,
        **HEARTBEAT_INTERVALS,
    },
    "delay": {"group.initial.rebalance.delay.ms": "1000", **dict.fromkeys(MAX_SIZES, "2"), **MIN_SESSION},
    "small": {"group.initial.rebalance.delay.ms": "0", "group.max.size": "2", **MIN_SESSION},
}
"""One broker is started for each; a scenario is played on the first that has all it needs."""

SCENARIOS = {scenario.name: scenario for scenario in load_scenarios() if scenario.limit_ms is not None}


def setting_of(scenario: Scenario) -> str:
    """The name of the first setting that has what a scenario needs."""
    for name, config in SETTINGS.items():
        if scenario.config.items() <= config.items():
            return name
    raise AssertionError(f"no broker here is set up for {scenario.name}: {scenario.config}")


def start(kind: str, config: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Broker:
    """A running broker with this configuration; skips where there is none of that kind."""
    directory = tmp_path_factory.mktemp(kind)
    broker: Broker
    if kind == "kafka":
        broker = available(lambda: RealKafka(directory, config))
    else:
        broker = KshimProcess(directory, config=config)
    broker.start()
    return broker


@pytest.fixture(scope="module", params=KINDS)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """What became of every scenario: they are played side by side, for most of their time is waiting."""
    found: dict[str, Result] = {}
    for name, config in SETTINGS.items():
        scenarios = [scenario for scenario in SCENARIOS.values() if setting_of(scenario) == name]
        broker = start(request.param, config, tmp_path_factory)
        try:
            host, _, port = broker.bootstrap.rpartition(":")
            is_kshim = broker.name == "kshim"
            for result in conform(scenarios, host, int(port), jobs=6, is_kshim=is_kshim):
                found[result.scenario.name] = result
        finally:
            broker.stop()
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_broker_does_as_the_scenario_says(name: str, results: dict[str, Result]) -> None:
    result = results[name]
    if result.verdict is Verdict.SKIPPED:
        # Nothing else is left out: both brokers serve all versions and have the configuration asked for.
        assert SCENARIOS[name].differs, result.reason
        return
    assert result.verdict is Verdict.PASSED, f"{name}.txt, {result.failure}"
