"""What holds for one group of the new protocol, of its own configuration and the broker's."""

from __future__ import annotations

import pytest

from kshim.config.broker_config import BrokerConfig
from kshim.config.dynamic import DynamicConfig
from kshim.config.group_settings import GroupSettings, consumer_settings, streams_settings
from kshim.coordinator.groups.config import ConsumerSettings, GroupConfig, StreamsSettings
from kshim.storage.stores import MemoryStorage


@pytest.fixture
def config() -> BrokerConfig:
    return BrokerConfig()


@pytest.fixture
def dynamic(config: BrokerConfig) -> DynamicConfig:
    return DynamicConfig(config, MemoryStorage(), [1])


def test_a_group_without_a_configuration_has_the_brokers() -> None:
    config = BrokerConfig({"group.consumer.assignment.interval.ms": "7"})
    assert consumer_settings(config, {}) == ConsumerSettings(45_000, 5_000, 7)
    assert consumer_settings(config, {}) == config.group_config().consumer_settings("g")
    assert consumer_settings(BrokerConfig(), {}) == GroupConfig().consumer_settings("g")


def test_what_a_group_has_for_itself_holds() -> None:
    own = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": " 6000 ",
        "share.isolation.level": "",
    }
    assert consumer_settings(BrokerConfig(), own) == ConsumerSettings(50_000, 6_000, 1_000)


@pytest.mark.parametrize(("text", "session_timeout_ms"), [("44999", 45_000), ("60001", 60_000)])
def test_what_lies_outside_the_brokers_bounds_by_now_is_the_nearest_within(text: str, session_timeout_ms: int) -> None:
    settings = consumer_settings(BrokerConfig(), {"consumer.session.timeout.ms": text})
    assert settings.session_timeout_ms == session_timeout_ms


def test_a_change_of_a_group_holds_at_once_and_for_that_group_only(
    dynamic: DynamicConfig, config: BrokerConfig
) -> None:
    settings = GroupSettings(config, dynamic)
    dynamic.replace("groups", "g", {"consumer.assignment.interval.ms": "0"})
    assert [settings.of_consumers(name).assignment_interval_ms for name in "gh"] == [0, 1_000]
    dynamic.replace("groups", "g", {})
    assert settings.of_consumers("g") == settings.of_consumers("h")


def test_a_change_of_the_brokers_holds_at_once_for_groups_without_their_own(
    dynamic: DynamicConfig, config: BrokerConfig
) -> None:
    settings = GroupSettings(config, dynamic)
    dynamic.replace("groups", "g", {"consumer.assignment.interval.ms": "500"})
    dynamic.replace("brokers", "", {"group.consumer.assignment.interval.ms": "200"})
    assert [settings.of_consumers(name).assignment_interval_ms for name in "gh"] == [500, 200]


def test_what_was_stored_holds_after_a_restart() -> None:
    storage = MemoryStorage()
    DynamicConfig(BrokerConfig(), storage, [1]).replace("groups", "g", {"consumer.session.timeout.ms": "46000"})
    config = BrokerConfig()
    settings = GroupSettings(config, DynamicConfig(config, storage, [1]))
    assert settings.of_consumers("g").session_timeout_ms == 46_000


def test_a_streams_group_has_the_brokers_settings_and_its_own_within_bounds() -> None:
    assert streams_settings(BrokerConfig(), {}) == StreamsSettings()
    config = BrokerConfig(
        {
            "group.streams.num.standby.replicas": "1",
            "group.streams.rack.aware.assignment.tags": "zone,cluster",
            "group.streams.max.size": "3",
        }
    )
    assert streams_settings(config, {}) == StreamsSettings(
        standby_replicas=1, rack_aware_tags="zone,cluster", max_size=3
    )
    own = {
        "streams.session.timeout.ms": "99000",
        "streams.heartbeat.interval.ms": "5500",
        "streams.assignment.interval.ms": "0",
        "streams.initial.rebalance.delay.ms": "7",
        "streams.num.standby.replicas": "9",
        "streams.rack.aware.assignment.tags": "a, b",
        "streams.task.offset.interval.ms": "15000",
        "streams.acceptable.recovery.lag": "1",
    }
    assert streams_settings(config, own) == StreamsSettings(60_000, 5_500, 0, 7, 2, "a,b", 15_000, 1, 3)
    assert streams_settings(config, {"streams.rack.aware.assignment.tags": ""}).rack_aware_tags == ""


def test_a_change_of_a_streams_group_holds_at_once(dynamic: DynamicConfig, config: BrokerConfig) -> None:
    settings = GroupSettings(config, dynamic)
    dynamic.replace("groups", "g", {"streams.num.standby.replicas": "1"})
    dynamic.replace("brokers", "", {"group.streams.assignment.interval.ms": "200"})
    assert [settings.of_streams_groups(name).standby_replicas for name in "gh"] == [1, 0]
    assert [settings.of_streams_groups(name).assignment_interval_ms for name in "gh"] == [200, 200]
