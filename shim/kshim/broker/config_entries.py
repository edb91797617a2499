"""The configuration of a topic or a broker as clients see it: value, where it comes from, what it overrides."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from kshim.broker.config import BrokerConfig, canonical_text
from kshim.broker.config_keys import BROKER_KEYS, TOPIC_KEYS, Key, KeyType, TopicKey

__all__ = [
    "CONFIG_TYPES",
    "DEFAULT",
    "STATIC_BROKER",
    "TOPIC",
    "ConfigEntry",
    "Synonym",
    "broker_entries",
    "topic_entries",
]

TOPIC: Final = 1
STATIC_BROKER: Final = 4
DEFAULT: Final = 5
CONFIG_TYPES: Final[dict[KeyType, int]] = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
"""Numbers of DescribeConfigsResponse.ConfigType."""

_SYNONYMS = {
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
}
"""Topic keys that more than one key of the broker decides, strongest first (ServerTopicConfigSynonyms)."""


class Synonym(NamedTuple):
    """One place that gives or would give the value. `source` is TOPIC, STATIC_BROKER or DEFAULT."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """One key and what holds for it. `synonyms` are all places that name it, the one that counts first."""

    key: Key
    value: str | None
    source: int
    synonyms: tuple[Synonym, ...]

    @property
    def name(self) -> str:
        """Name of the key."""
        return self.key.name


def topic_entries(
    config: BrokerConfig, configs: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """Entries of a topic with its own `configs`, by name; only those of `names` when given."""
    for key in TOPIC_KEYS.values():
        if names is not None and key.name not in names:
            continue
        synonyms = tuple(_topic_synonyms(config, configs, key))
        source = synonyms[0].source if synonyms else DEFAULT
        value = canonical_text(key, config.topic_text(configs, key.name))
        yield ConfigEntry(key, value, source, synonyms)


def _topic_synonyms(config: BrokerConfig, configs: Mapping[str, str], key: TopicKey) -> Iterator[Synonym]:
    if key.name in configs:
        yield Synonym(key.name, canonical_text(key, configs[key.name]), TOPIC)
    from kshim.broker.config_ignored import IGNORED_KEYS

    for name in _SYNONYMS.get(key.name, (key.synonym,) if key.synonym else ()):
        broker_key = BROKER_KEYS.get(name) or IGNORED_KEYS[name]
        if name in config.given:
            yield Synonym(name, canonical_text(broker_key, config.given[name]), STATIC_BROKER)
        if broker_key.default is not None:
            yield Synonym(name, broker_key.default, DEFAULT)


def broker_entries(
    config: BrokerConfig, computed: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """Entries of a broker, by name: every key of Kafka's, those without effect here too.

    `computed` holds what the broker itself knows better than its configuration, e.g. the port it got.
    """
    from kshim.broker.config_ignored import IGNORED_KEYS
    from kshim.broker.config_security import SECURITY_KEYS

    for name, key in sorted((BROKER_KEYS | IGNORED_KEYS | SECURITY_KEYS).items()):
        if names is not None and name not in names:
            continue
        is_secret = key.type == "password"
        synonyms = []
        given = computed.get(name, config.given.get(name))
        if given is not None:
            shown = None if is_secret else canonical_text(key, given)
            synonyms.append(Synonym(name, shown, STATIC_BROKER))
        if key.default is not None:
            synonyms.append(Synonym(name, key.default, DEFAULT))
        first = synonyms[0] if synonyms else Synonym(name, None, DEFAULT)
        yield ConfigEntry(key, first.value, first.source, tuple(synonyms))
