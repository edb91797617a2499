"""The configuration of a topic or a broker as clients see it: value, where it comes from, what it overrides."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kshim.config.broker_config import BrokerConfig, canonical_text
from kshim.config.keys import BROKER_KEYS, TOPIC_KEYS, Key, KeyType, TopicKey

TOPIC: Final = 1
DYNAMIC_BROKER: Final = 2
DYNAMIC_CLUSTER_WIDE: Final = 3
STATIC_BROKER: Final = 4
DEFAULT: Final = 5
CONFIG_TYPES: Final[dict[KeyType, int]] = {
    "unknown": 0,
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

_LISTENER = "listener.name."
_SYNONYMS = {
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
}
"""Topic keys that more than one key of the broker decides, strongest first (ServerTopicConfigSynonyms).

Kafka reports no defaults of the weaker ones."""


class Synonym(NamedTuple):
    """One place that gives or would give the value. `source` is a number of ConfigEntry.ConfigSource, e.g. TOPIC."""

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

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is never shown."""
        return is_sensitive(self.key)


def is_sensitive(key: Key) -> bool:
    """Whether the values of a key are never shown."""
    return key.type in ("password", "unknown")


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
    from kshim.config.ignored_keys import IGNORED_KEYS

    names = _SYNONYMS.get(key.name, (key.synonym,) if key.synonym else ())
    for name in names:
        for synonym in broker_synonyms(config, BROKER_KEYS.get(name) or IGNORED_KEYS[name]):
            if synonym.source != DEFAULT or name == names[0]:
                yield synonym


def shown(key: Key, text: str) -> str | None:
    """A value as clients see it."""
    return None if is_sensitive(key) else canonical_text(key, text)


def broker_synonyms(
    config: BrokerConfig, key: Key, computed: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Synonym]:
    """All places that give a key of the broker, the one that counts first. Secret values are left out."""
    name = key.name
    layers = (DYNAMIC_BROKER, config.own), (DYNAMIC_CLUSTER_WIDE, config.cluster_wide), (STATIC_BROKER, config.static)
    for source, pairs in layers:
        text = computed.get(name, pairs.get(name)) if source == STATIC_BROKER else pairs.get(name)
        if text is not None:
            yield Synonym(name, shown(key, text), source)
    if key.default is not None:
        yield Synonym(name, key.default, DEFAULT)


def broker_entries(
    config: BrokerConfig, computed: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """Entries of a broker, by name: every key of Kafka's, those without effect here too, and what was added to it.

    `computed` holds what the broker itself knows better than its configuration, e.g. the port it got.
    """
    keys = known_broker_keys()
    added = {name: broker_key(name) for name in (*config.own, *config.cluster_wide) if name not in keys}
    for name, key in sorted((keys | added).items()):
        if names is not None and name not in names:
            continue
        synonyms = tuple(broker_synonyms(config, key, computed))
        if name in added and name.startswith(_LISTENER) and key.default is None:
            base = _without_listener(name)
            if base in keys:
                synonyms += tuple(broker_synonyms(config, keys[base]))
        first = synonyms[0] if synonyms else Synonym(name, None, DEFAULT)
        yield ConfigEntry(key, first.value, first.source, synonyms)


def cluster_wide_entries(config: BrokerConfig, names: Collection[str] | None = None) -> Iterator[ConfigEntry]:
    """Entries that hold for all brokers that have none of their own, by name."""
    for name, text in sorted(config.cluster_wide.items()):
        if names is None or name in names:
            key = broker_key(name)
            value = shown(key, text)
            yield ConfigEntry(key, value, DYNAMIC_CLUSTER_WIDE, (Synonym(name, value, DYNAMIC_CLUSTER_WIDE),))


def known_broker_keys() -> dict[str, Key]:
    """All of Kafka's keys of a broker, by name."""
    from kshim.config.ignored_keys import IGNORED_KEYS
    from kshim.config.security_keys import SECURITY_KEYS

    return BROKER_KEYS | IGNORED_KEYS | SECURITY_KEYS


def broker_key(name: str) -> Key:
    """A key of a broker: Kafka's own, the same for one listener, or an unknown one."""
    keys = known_broker_keys()
    if name in keys:
        return keys[name]
    base = keys.get(_without_listener(name)) if name.startswith(_LISTENER) else None
    return Key(name, base.type, None, base.rule, base.meaning) if base else Key(name, "unknown", None, "", "")


def _without_listener(name: str) -> str:
    return name.removeprefix(_LISTENER).partition(".")[2]
