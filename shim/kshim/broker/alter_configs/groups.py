"""The configuration of groups: kept for any name, whether there is such a group or not, as in Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kshim.broker.alter_configs.group_keys import GROUP_BOUNDS, GROUP_KEYS, GroupKey
from kshim.config.broker_config import BrokerConfig, ConfigError, Value, canonical_text, parse_value
from kshim.config.entries import DEFAULT, ConfigEntry, Synonym, broker_key, broker_synonyms
from kshim.config.keys import Key
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.node import Node


GROUP: Final = 8
"""ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG."""
_DURATION = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?", re.IGNORECASE)


def check_group(node: Node, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Values lie within what the broker allows groups, and a session is longer than the interval of its heartbeats.

    Source: Kafka's GroupConfig.validate, with its texts.
    """
    config = node.cluster.config
    for key in after:
        if key not in GROUP_KEYS:
            raise _refused(f"Unknown group config name: {key}")
    values = {key: _parsed(GROUP_KEYS[key], text) for key, text in after.items()}
    for key, value in values.items():
        _check_value(config, GROUP_KEYS[key], value)
    for kind in ("consumer", "share", "streams"):
        _check_heartbeats(config, values, f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms")


def group_entries(config: BrokerConfig, configs: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Entries of a group with its own `configs`, by name."""
    for key in GROUP_KEYS.values():
        if key.is_internal and key.name not in configs:
            continue
        synonyms = []
        if key.name in configs:
            synonyms.append(Synonym(key.name, canonical_text(key, configs[key.name]), GROUP))
        if key.is_internal:
            synonyms.append(Synonym(key.synonym, key.default, DEFAULT))
        elif key.synonym:
            synonyms += broker_synonyms(config, broker_key(key.synonym), config.adjusted)
        else:
            synonyms.append(Synonym(key.name, key.default, DEFAULT))
        yield ConfigEntry(key, synonyms[0].value, synonyms[0].source, tuple(synonyms))


def _parsed(key: GroupKey, text: str) -> Value:
    """Raises KafkaError INVALID_CONFIG with the text of Kafka's ConfigException."""
    without_rule = Key(key.name, key.type, key.default, "", "")
    try:
        value = parse_value(without_rule, text)
    except ConfigError:
        wrong = "Expected value to be either true or false"
        if key.type != "boolean":
            wrong = f"Not a number of type {key.type.upper()}"
        raise _invalid(key, text, wrong) from None
    try:
        return parse_value(key, text)
    except ConfigError:
        wrong = f"String must be one of: {key.rule.replace('|', ', ')}"
        if key.rule.endswith("+"):
            wrong = f"Value must be at least {key.rule[:-1]}"
        raise _invalid(key, value, wrong) from None


def _invalid(key: GroupKey, value: Value, wrong: str) -> KafkaError:
    return _refused(f"Invalid value {value} for configuration {key.name}: {wrong}")


def _check_value(config: BrokerConfig, key: GroupKey, value: Value) -> None:
    """Raises KafkaError INVALID_CONFIG."""
    if isinstance(value, int) and not isinstance(value, bool):
        low, high = (_bound(config, name) for name in (key.lowest, key.highest))
        if (low is not None and value < low) or (high is not None and value > high):
            raise _refused(f"{key.name} must be {_range(low, high)}")
    elif key.name == "share.auto.offset.reset":
        if value not in ("earliest", "latest") and not _DURATION.fullmatch(str(value)):
            wrong = (
                f"Invalid value `{value}` for configuration {key.name}. The value must be either 'earliest', 'latest' or of "
                "the format 'by_duration:<PnDTnHnMn.nS>'."
            )
            raise _invalid(key, value, wrong)
    elif key.name == "streams.assignor.name":
        assignors = str(_broker_text(config, "group.streams.assignors")).split(",")
        if value not in assignors:
            raise _refused(
                f"{key.name} '{value}' is not a registered task assignor. "
                f"Registered assignors are: [{', '.join(assignors)}]."
            )
    elif key.name == "errors.deadletterqueue.topic.name":
        if str(value).startswith("__"):
            raise _refused(f"{key.name}: DLQ topic name must not start with '__'")
    elif isinstance(value, tuple) and "" in value:
        raise _refused(f"Configuration '{key.name}' values must not be empty.")
    elif isinstance(value, tuple) and len(set(value)) < len(value):
        raise _refused(f"{key.name} must not contain duplicate tag keys.")


def _range(low: int | None, high: int | None) -> str:
    if low is not None and high is not None:
        return f"in the range {low} to {high} inclusive."
    return f"greater than or equal to {low}" if high is None else f"less than or equal to {high}"


def _check_heartbeats(config: BrokerConfig, values: Mapping[str, Value], session: str, interval: str) -> None:
    """Raises KafkaError INVALID_CONFIG."""
    if session not in values and interval not in values:
        return
    session_ms, interval_ms = (values.get(key, _bound(config, f"group.{key}")) for key in (session, interval))
    if isinstance(session_ms, int) and isinstance(interval_ms, int) and session_ms <= interval_ms:
        raise _refused(f"{session} must be greater than {interval}")


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def _bound(config: BrokerConfig, name: str) -> int | None:
    return int(str(_broker_text(config, name))) if name else None


def _broker_text(config: BrokerConfig, name: str) -> str | None:
    return config.adjusted.get(name) or config.given.get(name) or GROUP_BOUNDS.get(name) or broker_key(name).default
