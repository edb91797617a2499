"""The configuration of brokers, altered while they run. Kafka: DynamicBrokerConfig."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kshim.broker.alter_configs.broker_keys import CLUSTER_WIDE_KEYS, LISTENER_KEYS, START_KEYS
from kshim.config.broker_config import BrokerConfig, ConfigError, parse_value
from kshim.config.dynamic import CLUSTER_WIDE
from kshim.config.entries import broker_key, known_broker_keys
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.node import Node


_LISTENER = "listener.name."


def broker_configs(node: Node, name: str) -> Mapping[str, str]:
    """What is set for the broker that is asked, by its id, or "" for all of them.

    Several brokers of one process share what is configured; altering only one of them is refused. Keys that nobody
    knows are kept and never shown, as in Kafka, where plug-ins of the broker read them.
    """
    if name != CLUSTER_WIDE:
        check_broker_id(node, name)
        if not node.cluster.dynamic_configs.has_own:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "the brokers of this process share one configuration; alter it with an empty broker id",
            )
    return node.cluster.dynamic_configs.of("brokers", name)


def check_broker(node: Node, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Only what is changed has to be alterable; all together have to be a configuration."""
    for key in (*before, *after):
        if before.get(key) != after.get(key):
            _check_alterable(key, is_cluster_wide=name == CLUSTER_WIDE)
    config = node.cluster.config
    try:
        for key, text in after.items():
            parse_value(broker_key(key), text)
            if key == "max.connections.per.ip.overrides":
                _check_overrides(text)
        layers = (after, config.own) if name == CLUSTER_WIDE else (config.cluster_wide, after)
        BrokerConfig(config.static).overlay(*layers)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None


def logger_configs(node: Node, name: str) -> Mapping[str, str]:
    """Nothing: no logger of a broker can be named."""
    check_broker_id(node, name)
    return {}


def check_loggers(node: Node, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """There is no logger."""
    for logger in after:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown logger {logger!r}")


def check_broker_id(node: Node, name: str) -> None:
    """Raises KafkaError INVALID_REQUEST for another broker than the one that is asked."""
    if not name.removeprefix("-").isdecimal() or int(name) != node.node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {node.node_id}, not {name!r}")


def _check_alterable(name: str, *, is_cluster_wide: bool) -> None:
    """Raises KafkaError INVALID_REQUEST."""
    if name in CLUSTER_WIDE_KEYS:
        return
    base = name.removeprefix(_LISTENER).partition(".")[2] if name.startswith(_LISTENER) else ""
    if base:
        if base in LISTENER_KEYS:
            return
        if is_cluster_wide:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} can only be altered for a single broker")
        if any(base == key or base.endswith(f".{key}") for key in START_KEYS):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"kshim reads {name} only at the start")
    elif name in START_KEYS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"kshim reads {name} only at the start")
    elif name in known_broker_keys():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} cannot be altered while the broker runs")


def _check_overrides(text: str) -> None:
    """Raises ConfigError."""
    for pair in filter(None, map(str.strip, text.split(","))):
        host, _, count = pair.rpartition(":")
        if not host or not (count.isascii() and count.isdigit()):
            raise ConfigError("max.connections.per.ip.overrides", text, "HOST:COUNT, several separated by commas")
