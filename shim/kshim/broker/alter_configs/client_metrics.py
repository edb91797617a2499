"""Subscriptions to clients' metrics (KIP-714): kept and described. No client gets one: pushing metrics is not supported here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kshim.config.broker_config import ConfigError, canonical_text, parse_value
from kshim.config.entries import DEFAULT, ConfigEntry, Synonym
from kshim.config.keys import Key
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.node import Node


CLIENT_METRICS: Final = 7
"""ConfigEntry.ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG."""
_INTERVAL_MS = (100, 3_600_000)
_MATCHABLE = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
_KEYS: Final = {
    key.name: key
    for key in (
        Key("interval.ms", "int", "300000", "", ""),
        Key("match", "list", "", "", ""),
        Key("metrics", "list", "", "", ""),
    )
}


def check_client_metrics(node: Node, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Kafka: ClientMetricsConfigs.validate."""
    for key, text in after.items():
        if key not in _KEYS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown client metrics configuration {key}")
        try:
            value = parse_value(_KEYS[key], text)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        if isinstance(value, int) and not _INTERVAL_MS[0] <= value <= _INTERVAL_MS[1]:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{key} must be between {_INTERVAL_MS[0]} and {_INTERVAL_MS[1]}, not {value}",
            )
        for part in value if isinstance(value, tuple) else ():
            if not part:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key} has an empty entry")
            if key == "match":
                _check_pattern(part)


def client_metrics_entries(configs: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Entries of a subscription, by name."""
    for key in _KEYS.values():
        if key.name in configs:
            value = canonical_text(key, configs[key.name])
            yield ConfigEntry(key, value, CLIENT_METRICS, (Synonym(key.name, value, CLIENT_METRICS),))
        else:
            yield ConfigEntry(key, key.default, DEFAULT, ())


def _check_pattern(text: str) -> None:
    """Raises KafkaError INVALID_CONFIG."""
    name, equals, pattern = text.partition("=")
    try:
        is_pattern = bool(equals) and name.strip() in _MATCHABLE and re.compile(pattern.strip()) is not None
    except re.error:
        is_pattern = False
    if not is_pattern:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{text!r} is not of the form PROPERTY=PATTERN")
