"""Kafka's keys as text become typed attributes, and what cannot be is said before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

import kshim
from kshim.config.broker_config import BrokerConfig, ConfigError, parse_value
from kshim.config.keys import BROKER_KEYS, TOPIC_KEYS, Key
from kshim.coordinator.groups.config import GroupConfig

SHIM = Path(kshim.__file__).parent


def test_without_pairs_the_defaults_are_kafkas() -> None:
    config = BrokerConfig()
    assert config.auto_create_topics_enable is True
    assert config.num_partitions == 1
    assert config.offsets_topic_num_partitions == 50
    assert config.log_retention_ms == 168 * 3_600_000
    assert config.log_cleanup_policy == ("delete",)
    assert config.warnings == []


def test_the_first_rebalance_waits_for_nobody_by_default_unlike_kafkas() -> None:
    assert BrokerConfig().group_config().group_initial_rebalance_delay_ms == 0


def test_values_are_read_by_type_and_blanks_around_them_do_not_count() -> None:
    config, warnings = BrokerConfig.from_pairs(
        {
            "auto.create.topics.enable": " FALSE ",
            "num.partitions": " +7 ",
            "log.cleanup.policy": "compact, delete",
            "log.message.timestamp.type": "LogAppendTime",
        }
    )
    assert config.auto_create_topics_enable is False
    assert config.num_partitions == 7
    assert config.log_cleanup_policy == ("compact", "delete")
    assert config.log_message_timestamp_type == "LogAppendTime"
    assert warnings == []


def test_every_key_with_an_effect_is_an_attribute() -> None:
    config = BrokerConfig()
    assert [name for name in BROKER_KEYS if not hasattr(config, name.replace(".", "_"))] == []


def test_the_coordinator_gets_what_was_configured() -> None:
    pairs = {
        "group.min.session.timeout.ms": "1",
        "group.max.session.timeout.ms": "2",
        "group.max.size": "3",
        "group.initial.rebalance.delay.ms": "4",
        "offsets.retention.minutes": "5",
        "offsets.retention.check.interval.ms": "6",
        "offset.metadata.max.bytes": "7",
        "offsets.topic.num.partitions": "8",
    }
    groups = BrokerConfig(pairs).group_config()
    assert {name: str(getattr(groups, name.replace(".", "_"))) for name in pairs} == pairs


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("num.partitions", "0", "an integer of at least 1"),
        ("num.partitions", "many", "an integer of at least 1"),
        ("num.partitions", "1_000", "an integer of at least 1"),
        ("num.partitions", "2147483648", "an integer of at least 1"),
        ("max.connections", "", "an integer of at least 0"),
        ("group.max.session.timeout.ms", "2147483648", "an integer of 32 bits"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("log.cleanup.policy", "forget", "a comma-separated list of compact, delete"),
        ("log.message.timestamp.type", "createtime", "one of CreateTime, LogAppendTime"),
        ("compression.gzip.level", "0", "-1 or an integer from 1 to 9"),
        ("log.cleaner.min.cleanable.ratio", "2", "a number from 0 to 1"),
        ("log.retention.ms", "0", "a positive number, or -1 for no limit"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_what_is_expected(key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig({key: value})
    assert (refused.value.key, refused.value.value, refused.value.expected) == (key, value, expected)
    assert str(refused.value) == f"{key}={value}: expected {expected}"


def test_keys_without_effect_and_unknown_ones_are_warned_about_once_each() -> None:
    _, warnings = BrokerConfig.from_pairs(
        {"num.io.threads": "8", "listener.name.external.ssl.provider": "x", "num.partitons": "3", "frobnicate": "1"}
    )
    assert warnings == [
        "frobnicate is not a configuration key of Kafka",
        "listener.name.external.ssl.provider has no effect here",
        "num.io.threads has no effect here",
        "num.partitons is not a configuration key of Kafka; did you mean num.partitions?",
    ]


def test_a_key_that_is_an_option_here_names_the_option() -> None:
    assert BrokerConfig({"log.dirs": "somewhere"}).warnings == [
        "log.dirs has no effect here; the directory is set by --data-dir"
    ]


@pytest.mark.parametrize(
    ("pairs", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
    ],
)
def test_the_finest_retention_that_is_given_counts(pairs: dict[str, str], retention_ms: int) -> None:
    config = BrokerConfig(pairs)
    assert config.log_retention_ms == retention_ms
    assert config.topic_value({}, "retention.ms") == retention_ms


@pytest.mark.parametrize(
    ("pairs", "segment_ms"),
    [({}, 604_800_000), ({"log.roll.hours": "2"}, 7_200_000), ({"log.roll.hours": "2", "log.roll.ms": "4"}, 4)],
)
def test_the_finest_roll_time_that_is_given_counts(pairs: dict[str, str], segment_ms: int) -> None:
    assert BrokerConfig(pairs).topic_value({}, "segment.ms") == segment_ms


def test_lowering_the_longest_session_takes_the_shortest_with_it() -> None:
    config = BrokerConfig({"group.max.session.timeout.ms": "3000"})
    assert (config.group_min_session_timeout_ms, config.group_max_session_timeout_ms) == (3_000, 3_000)
    assert config.adjusted == {"group.min.session.timeout.ms": "3000"}
    assert config.warnings == ["group.min.session.timeout.ms is 3000 too, as group.max.session.timeout.ms is"]


def test_raising_the_shortest_session_takes_the_longest_with_it() -> None:
    config = BrokerConfig({"group.min.session.timeout.ms": "3000000"})
    assert config.group_max_session_timeout_ms == 3_000_000
    assert len(config.warnings) == 1


def test_session_bounds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected at most group\.max\.session\.timeout\.ms \(5\)"):
        BrokerConfig({"group.min.session.timeout.ms": "6", "group.max.session.timeout.ms": "5"})


def test_a_short_session_of_the_new_protocol_needs_no_second_key() -> None:
    config = BrokerConfig({"group.consumer.session.timeout.ms": "3000"})
    assert config.group_consumer_min_session_timeout_ms == config.group_consumer_session_timeout_ms == 3_000
    assert config.group_consumer_min_heartbeat_interval_ms == config.group_consumer_heartbeat_interval_ms == 1_000
    assert sorted(config.warnings) == [
        "group.consumer.heartbeat.interval.ms is 1000, a third of group.consumer.session.timeout.ms",
        "group.consumer.min.heartbeat.interval.ms is 1000, a third of group.consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms is 3000 too, as group.consumer.session.timeout.ms is",
    ]


@pytest.mark.parametrize(
    ("bound", "value"),
    [
        ("group.consumer.min.session.timeout.ms", "70000"),
        ("group.consumer.max.session.timeout.ms", "6000"),
        ("group.consumer.min.heartbeat.interval.ms", "20000"),
        ("group.consumer.max.heartbeat.interval.ms", "300"),
        ("group.consumer.min.assignment.interval.ms", "20000"),
        ("group.consumer.max.assignment.interval.ms", "300"),
    ],
)
def test_a_bound_of_the_new_protocol_takes_the_value_and_the_other_bound_with_it(bound: str, value: str) -> None:
    config = BrokerConfig({bound: value})
    name = bound.replace(".min.", ".").replace(".max.", ".")
    assert config.adjusted[name] == value
    low, high = (name.replace("consumer.", f"consumer.{end}.").replace(".", "_") for end in ("min", "max"))
    assert getattr(config, low) <= int(value) <= getattr(config, high)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (
            {"group.consumer.session.timeout.ms": "9000", "group.consumer.min.session.timeout.ms": "9001"},
            r"at most group\.consumer\.session\.timeout\.ms \(9000\)",
        ),
        (
            {"group.consumer.session.timeout.ms": "5000", "group.consumer.heartbeat.interval.ms": "5000"},
            r"less than group\.consumer\.session\.timeout\.ms \(5000\)",
        ),
        ({"group.consumer.session.timeout.ms": "1"}, r"less than group\.consumer\.session\.timeout\.ms \(1\)"),
        ({"group.consumer.assignors": "uniform,org.example.Own"}, "a comma-separated list of uniform, range"),
        ({"group.consumer.assignors": ""}, "a comma-separated list of uniform, range"),
    ],
)
def test_settings_of_the_new_protocol_that_cannot_be_are_refused(pairs: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        BrokerConfig(pairs)


def test_the_old_name_of_the_node_id_is_understood() -> None:
    assert BrokerConfig({"broker.id": "4"}).node_id == 4
    assert BrokerConfig({"broker.id": "4", "node.id": "4"}).node_id == 4
    with pytest.raises(ConfigError, match=r"the same as node\.id"):
        BrokerConfig({"broker.id": "4", "node.id": "5"})


def test_a_topics_own_value_wins_over_the_brokers_and_the_brokers_over_the_default() -> None:
    config = BrokerConfig({"message.max.bytes": "500"})
    assert config.topic_value({"max.message.bytes": "400"}, "max.message.bytes") == 400
    assert config.topic_value({}, "max.message.bytes") == 500
    assert BrokerConfig().topic_value({}, "max.message.bytes") == 1_048_588


def test_keys_of_our_own_have_an_effect_are_checked_and_found_when_misspelt() -> None:
    given = {"kshim.history.max.events": "5", "kshim.history.max.bytes": "6", "kshim.history.topic.enable": "true"}
    config = BrokerConfig(given)
    assert (config.kshim_history_max_events, config.kshim_history_max_bytes) == (5, 6)
    assert config.kshim_history_topic_enable == "true"
    assert config.warnings == []
    with pytest.raises(ConfigError, match=r"kshim\.history\.max\.events"):
        BrokerConfig({"kshim.history.max.events": "-1"})
    [warning] = BrokerConfig({"kshim.history.max.event": "5"}).warnings
    assert warning.endswith("did you mean kshim.history.max.events?")


def test_keys_that_are_only_shown_are_warned_about_too() -> None:
    assert BrokerConfig({"log.preallocate": "true"}).warnings == ["log.preallocate has no effect here"]


def test_every_key_that_is_said_to_have_an_effect_is_read_by_some_other_module() -> None:
    sources = [path for path in SHIM.rglob("*.py") if not path.name.startswith("config_")]
    code = "".join(path.read_text(encoding="utf-8") for path in sources)
    groups = GroupConfig.__annotations__
    topic_keys = {key.name for key in TOPIC_KEYS.values() if key.meaning}
    assert {name for name in topic_keys if f'"{name}"' not in code} == set()
    defaults = {TOPIC_KEYS[name].synonym for name in topic_keys}
    unread = set()
    for key in BROKER_KEYS.values():
        attribute = key.name.replace(".", "_")
        if key.meaning and key.name not in defaults and f"config.{attribute}" not in code and attribute not in groups:
            unread.add(key.name)
    read_by_config_itself = {"broker.id", "log.retention.hours", "log.retention.minutes", "log.roll.hours"}
    assert unread == read_by_config_itself


def test_every_default_satisfies_its_own_rule() -> None:
    keys: list[Key] = [*BROKER_KEYS.values(), *TOPIC_KEYS.values()]
    for key in keys:
        if key.default is not None:
            parse_value(key, key.default)


@pytest.mark.parametrize(
    ("rule", "text", "is_allowed"),
    [
        ("-1|1..9", "-1", True),
        ("-1|1..9", "9", True),
        ("-1|1..9", "10", False),
        ("-1|1..9", "0", False),
        ("-2+", "-2", True),
        ("-2+", "-3", False),
    ],
)
def test_a_rule_is_a_choice_of_numbers_and_ranges(rule: str, text: str, is_allowed: bool) -> None:
    key = Key("k", "int", None, rule, "")
    if is_allowed:
        assert parse_value(key, text) == int(text)
    else:
        with pytest.raises(ConfigError):
            parse_value(key, text)
