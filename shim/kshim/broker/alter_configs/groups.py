"""The configuration of groups: kept for any name, whether there is such a group or not, as in Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kshim.broker.alter_configs.group_keys import GROUP_KEYS, GroupKey
from kshim.config.broker_config import BrokerConfig, ConfigError, canonical_text, parse_value
from kshim.config.entries import DEFAULT, ConfigEntry, Synonym, broker_key, broker_synonyms
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.node import Node


GROUP: Final = 8
"""ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG."""
_DURATION = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?", re.IGNORECASE)


def check_group(node: Node, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Values lie within what the broker allows groups."""
    for key, text in after.items():
        found = GROUP_KEYS.get(key)
        if found is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown group configuration {key}")
        try:
            _check_value(node.cluster.config, found, text)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None


def group_entries(config: BrokerConfig, configs: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Entries of a group with its own `configs`, by name."""
    for key in GROUP_KEYS.values():
        synonyms = []
        if key.name in configs:
            synonyms.append(Synonym(key.name, canonical_text(key, configs[key.name]), GROUP))
        if key.synonym:
            synonyms += broker_synonyms(config, broker_key(key.synonym))
        else:
            synonyms.append(Synonym(key.name, key.default, DEFAULT))
        yield ConfigEntry(key, synonyms[0].value, synonyms[0].source, tuple(synonyms))


def _check_value(config: BrokerConfig, key: GroupKey, text: str) -> None:
    """Raises ConfigError."""
    value = parse_value(key, text)
    if isinstance(value, int) and not isinstance(value, bool):
        low, high = (_bound(config, name) for name in (key.lowest, key.highest))
        if (low is not None and value < low) or (high is not None and value > high):
            raise ConfigError(key.name, text, f"from {low or 0} to {high}")
    elif key.name == "share.auto.offset.reset":
        if value not in ("earliest", "latest") and not _DURATION.fullmatch(text.strip()):
            raise ConfigError(key.name, text, "earliest, latest or by_duration:<ISO 8601 duration>")
    elif key.name == "streams.assignor.name":
        assignors = str(_broker_text(config, "group.streams.assignors")).split(",")
        if value not in assignors:
            raise ConfigError(key.name, text, f"one of {', '.join(assignors)}")
    elif key.name == "errors.deadletterqueue.topic.name":
        if text.strip().startswith("__"):
            raise ConfigError(key.name, text, "a name that does not begin with __")
    elif isinstance(value, tuple) and ("" in value or len(set(value)) < len(value)):
        raise ConfigError(key.name, text, "a comma-separated list without repetitions or empty entries")


def _bound(config: BrokerConfig, name: str) -> int | None:
    return int(str(_broker_text(config, name))) if name else None


def _broker_text(config: BrokerConfig, name: str) -> str | None:
    return config.given.get(name, broker_key(name).default)
