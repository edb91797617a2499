"""The broker's configuration: Kafka's own keys as text in, checked and typed attributes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from kshim.config.keys import BROKER_KEYS, OWN_KEYS, TOPIC_KEYS, Key, KeyType

if TYPE_CHECKING:
    from kshim.coordinator.groups.config import GroupConfig


Value = bool | int | float | str | tuple[str, ...] | None

_INTEGER_BITS: dict[KeyType, int] = {"short": 16, "int": 32, "long": 64}
_EXPECTED: dict[KeyType, str] = {"boolean": "true or false", "double": "a number"}
_WHY = {
    "log.dir": "the directory is set by --data-dir",
    "log.dirs": "the directory is set by --data-dir",
}
_CONSUMER_GROUP_TIMES = (
    "group.consumer.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.assignment.interval.ms",
)
_ASSIGNORS = ("uniform", "range")
_FREE_PREFIXES = ("listener.name.", "rsm.config.", "rlmm.config.")
"""Kafka accepts any key behind these."""
_SECRET_ENDS = ("password", ".keystore.key", "certificate.chain", "jaas.config")


def is_secret(name: str) -> bool:
    """Whether no message may show the value of this key."""
    return name.endswith(_SECRET_ENDS)


class ConfigError(ValueError):
    """A value that cannot be: `key`, the `value` given and what is `expected` instead."""

    def __init__(self, key: str, value: str | None, expected: str) -> None:
        shown = "" if value is None else "=[hidden]" if is_secret(key) else f"={value}"
        super().__init__(f"{key}{shown}: expected {expected}")
        self.key = key
        self.value = value
        self.expected = expected


class BrokerConfig:
    """Every key that has an effect here, as an attribute of its name in snake_case; times in ms, sizes in bytes.

    `given` holds all pairs that hold: `static` are those it was made from, over them lie `cluster_wide` and, over those,
    `own`, which `overlay` has put there. `adjusted` holds the values that follow another key, `warnings` one sentence for
    each of them and for each key that is unknown or without effect. Raises ConfigError for a value that cannot be.
    """

    add_partitions_to_txn_retry_backoff_max_ms: int
    add_partitions_to_txn_retry_backoff_ms: int
    allow_everyone_if_no_acl_found: bool
    auto_create_topics_enable: bool
    broker_rack: str | None
    connections_max_idle_ms: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    group_consumer_assignment_interval_ms: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_min_assignment_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    max_incremental_fetch_session_cache_slots: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    group_share_assignment_interval_ms: int
    group_share_delivery_count_limit: int
    group_share_heartbeat_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_max_delivery_count_limit: int
    group_share_max_heartbeat_interval_ms: int
    group_share_max_partition_max_record_locks: int
    group_share_max_record_lock_duration_ms: int
    group_share_max_session_timeout_ms: int
    group_share_max_share_sessions: int
    group_share_max_size: int
    group_share_min_assignment_interval_ms: int
    group_share_min_delivery_count_limit: int
    group_share_min_heartbeat_interval_ms: int
    group_share_min_partition_max_record_locks: int
    group_share_min_record_lock_duration_ms: int
    group_share_min_session_timeout_ms: int
    group_share_partition_max_record_locks: int
    group_share_record_lock_duration_ms: int
    group_share_session_timeout_ms: int
    group_streams_assignment_interval_ms: int
    group_streams_heartbeat_interval_ms: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_max_assignment_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_max_size: int
    group_streams_max_standby_replicas: int
    group_streams_min_assignment_interval_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_num_standby_replicas: int
    group_streams_rack_aware_assignment_tags: tuple[str, ...]
    group_streams_session_timeout_ms: int
    kshim_authentication_max_ms: int
    kshim_history_max_bytes: int
    kshim_history_max_events: int
    kshim_history_topic_enable: str
    kshim_share_version: int
    kshim_slow_reader_ms: int
    kshim_slow_sender_ms: int
    kshim_streams_version: int
    kshim_transaction_version: int
    kshim_unsent_max_bytes: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_enable: bool
    log_cleanup_policy: tuple[str, ...]
    log_flush_interval_messages: int
    log_flush_interval_ms: int | None
    log_message_timestamp_after_max_ms: int
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_type: str
    log_retention_bytes: int
    log_retention_ms: int
    """-1: for ever. Already holds what log.retention.minutes or log.retention.hours ask for."""
    log_retention_check_interval_ms: int
    log_roll_ms: int
    """Already holds what log.roll.hours asks for."""
    log_segment_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    max_request_partition_size_limit: int
    message_max_bytes: int
    node_id: int
    num_partitions: int
    offset_metadata_max_bytes: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_num_partitions: int
    offsets_topic_segment_bytes: int
    producer_id_expiration_ms: int
    queued_max_request_bytes: int
    """-1: the server's own limit."""
    share_coordinator_cold_partition_snapshot_interval_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_state_topic_segment_bytes: int
    socket_listen_backlog_size: int
    socket_request_max_bytes: int
    super_users: str
    transaction_max_timeout_ms: int
    transaction_state_log_num_partitions: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int

    def __init__(self, pairs: Mapping[str, str] | None = None) -> None:
        self.given: dict[str, str] = dict(pairs or {})
        self.static: Mapping[str, str] = self.given
        self.cluster_wide: Mapping[str, str] = {}
        self.own: Mapping[str, str] = {}
        self.adjusted: dict[str, str] = {}
        self.warnings: list[str] = []
        self._leaders: dict[str, str] = {}  # the key that each of `adjusted` follows
        for key in (*BROKER_KEYS.values(), *OWN_KEYS.values()):
            text = self.given.get(key.name, key.default)
            setattr(self, key.name.replace(".", "_"), None if text is None else parse_value(key, text))
        for name in self.given:
            if name not in OWN_KEYS and (name not in BROKER_KEYS or not BROKER_KEYS[name].meaning):
                self._check_other(name)
        self.warnings.sort()
        self._settle_node_id()
        self._settle_retention()
        self._settle_roll()
        self._settle_order("group.min.session.timeout.ms", "group.max.session.timeout.ms")
        self._settle_consumer_groups()

    @classmethod
    def from_pairs(cls, pairs: Mapping[str, str]) -> tuple[BrokerConfig, list[str]]:
        """The configuration and its warnings. Raises ConfigError."""
        config = cls(pairs)
        return config, config.warnings

    def overlay(self, cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Let dynamic values hold: those of all brokers, and over them those of this one, instead of any before.

        Raises ConfigError, with everything as it was.
        """
        static = self.static
        other = BrokerConfig({**static, **cluster_wide, **own})
        for name, leader in other._leaders.items():
            if leader in own or leader in cluster_wide:
                bound = getattr(self, name.replace(".", "_"))
                raise ConfigError(leader, other.given[leader], f"a value within {name} ({bound})")
        other.static, other.cluster_wide, other.own = static, dict(cluster_wide), dict(own)
        vars(self).update(vars(other))

    def group_config(self) -> GroupConfig:
        """What the coordinator needs of it."""
        from kshim.coordinator.groups.config import GroupConfig

        return GroupConfig(**{name: getattr(self, name) for name in GroupConfig.__annotations__})

    def topic_value(self, configs: Mapping[str, str], name: str) -> Value:
        """What holds for a topic with its own `configs`: its own value, the broker's, or Kafka's default, parsed.

        `name` is one of Kafka's topic keys, e.g. "retention.ms"; KeyError for another.
        """
        key = TOPIC_KEYS[name]
        return parse_value(key, self.topic_text(configs, name))

    def topic_text(self, configs: Mapping[str, str], name: str) -> str:
        """The same as text."""
        if name in configs:
            return configs[name]
        key = TOPIC_KEYS[name]
        if name == "retention.ms":
            return str(self.log_retention_ms)
        if name == "segment.ms":
            return str(self.log_roll_ms)
        return self.given.get(key.synonym, key.default)

    def listener_value(self, name: str, listener_name: str = "") -> Value:
        """What holds of a key of `config_security` for one listener: its own value, the common one, or the default.

        A blank value is as none. KeyError for another key; raises ConfigError.
        """
        from kshim.config.security_keys import SECURITY_KEYS

        key = SECURITY_KEYS[name]
        for given in (f"listener.name.{listener_name.lower()}.{name}", name):
            text = self.given.get(given)
            if text is not None and text.strip():
                return parse_value(_renamed(key, given), text)
        return None if key.default is None else parse_value(key, key.default)

    def own_connections_of(self, listener_name: str) -> int | None:
        """max.connections of one listener, where it has its own. Raises ConfigError."""
        name = f"listener.name.{listener_name.lower()}.max.connections"
        text = self.given.get(name)
        return None if text is None else cast("int", parse_value(_renamed(BROKER_KEYS["max.connections"], name), text))

    def _check_other(self, name: str) -> None:
        """A key that is not simply an attribute: check what can be, warn about what has no effect. Raises ConfigError."""
        from kshim.config.security_keys import SECURITY_KEYS

        own_name = name
        if name.startswith("listener.name."):
            own_name = name.removeprefix("listener.name.").partition(".")[2]
            if own_name == "max.connections":
                return
        key = SECURITY_KEYS.get(own_name) or SECURITY_KEYS.get(own_name.partition(".")[2])  # behind a mechanism's name
        if key is None:
            self.warnings.append(self._without_effect(name))
        else:
            parse_value(_renamed(key, name), self.given[name])

    def _without_effect(self, name: str) -> str:
        from kshim.config.ignored_keys import IGNORED_KEYS

        key = IGNORED_KEYS.get(name)
        if key is not None:
            parse_value(key, self.given[name])
        if key is not None or name in BROKER_KEYS:
            why = _WHY.get(name)
            return f"{name} has no effect here" + (f"; {why}" if why else "")
        if name.startswith(_FREE_PREFIXES):
            return f"{name} has no effect here"
        return unknown_key(name)

    def _settle_node_id(self) -> None:
        old = self.given.get("broker.id")
        if old is None:
            return
        old_id = parse_value(BROKER_KEYS["broker.id"], old)
        if "node.id" not in self.given:
            self.node_id = parse_value(BROKER_KEYS["node.id"], old)  # type: ignore[assignment]
        elif old_id != self.node_id:
            raise ConfigError("broker.id", old, f"the same as node.id ({self.node_id})")

    def _settle_retention(self) -> None:
        for name, unit_ms in (
            ("log.retention.ms", 1),
            ("log.retention.minutes", 60_000),
            ("log.retention.hours", 3_600_000),
        ):
            length: int | None = getattr(self, name.replace(".", "_"))
            if length is None:
                continue
            if length == 0:
                raise ConfigError(name, self.given[name], "a positive number, or -1 for no limit")
            self.log_retention_ms = length * unit_ms if length > 0 else -1
            return

    def _settle_roll(self) -> None:
        if self.log_roll_ms is None:
            hours: int = self.log_roll_hours
            self.log_roll_ms = hours * 3_600_000
        elif self.log_roll_ms < 1:
            raise ConfigError("log.roll.ms", self.given["log.roll.ms"], "an integer of at least 1")

    def _settle_consumer_groups(self) -> None:
        for value in _CONSUMER_GROUP_TIMES:
            low, high = (value.replace("consumer.", f"consumer.{bound}.") for bound in ("min", "max"))
            self._settle_order(low, high)
            self._settle_order(low, value)
            self._settle_order(value, high)
        self._settle_heartbeats()
        unknown = set(self.group_consumer_assignors) - set(_ASSIGNORS)
        if unknown or not self.group_consumer_assignors:
            text = self.given["group.consumer.assignors"]
            raise ConfigError("group.consumer.assignors", text, f"a comma-separated list of {', '.join(_ASSIGNORS)}")

    def _settle_heartbeats(self) -> None:
        """Several heartbeats fit into a session; a shorter session makes them more frequent, unless that is set, too."""
        session, heartbeat, lowest = (
            f"group.consumer.{name}.ms" for name in ("session.timeout", "heartbeat.interval", "min.heartbeat.interval")
        )
        session_ms = self.group_consumer_session_timeout_ms
        if self.group_consumer_heartbeat_interval_ms < session_ms:
            return
        if heartbeat in self.given or lowest in self.given or session_ms == 1:
            shown = str(self.group_consumer_heartbeat_interval_ms)
            raise ConfigError(heartbeat, shown, f"less than {session} ({session_ms})")
        interval_ms = max(1, session_ms // 3)
        for name in (lowest, heartbeat):
            if self._time(name) > interval_ms:
                self._follow(name, interval_ms, session, f"{name} is {interval_ms}, a third of {session}")

    def _settle_order(self, low: str, high: str) -> None:
        """Have two times in order: one that is set moves the other one out of its way, so that changing a value needs no
        second key."""
        low_ms, high_ms = self._time(low), self._time(high)
        if low_ms <= high_ms:
            return
        if low not in self.given:
            self._follow(low, high_ms, high)
        elif high not in self.given:
            self._follow(high, low_ms, low)
        else:
            raise ConfigError(low, str(low_ms), f"at most {high} ({high_ms})")

    def _time(self, name: str) -> int:
        value: int = getattr(self, name.replace(".", "_"))
        return value

    def _follow(self, name: str, value: int, leader: str, sentence: str = "") -> None:
        setattr(self, name.replace(".", "_"), value)
        self.adjusted[name] = str(value)
        self._leaders[name] = leader
        self.warnings.append(sentence or f"{name} is {value} too, as {leader} is")


def known_key(name: str) -> Key | None:
    """The key of this name, also one of a listener or a mechanism; None where Kafka's brokers and kshim have none."""
    if name in BROKER_KEYS:
        return BROKER_KEYS[name]
    from kshim.config.ignored_keys import IGNORED_KEYS
    from kshim.config.security_keys import SECURITY_KEYS

    if not name.startswith(_FREE_PREFIXES):
        return next((keys[name] for keys in (OWN_KEYS, SECURITY_KEYS, IGNORED_KEYS) if name in keys), None)
    of_listener = name.removeprefix("listener.name.").partition(".")[2]
    key = SECURITY_KEYS.get(of_listener) or SECURITY_KEYS.get(of_listener.partition(".")[2])
    return Key(name, "string", None, "", "") if key is None else _renamed(key, name)


def nearest_key(name: str) -> str | None:
    """The key that has an effect whose name is most like this one, None where none is."""
    from difflib import get_close_matches

    from kshim.config.security_keys import SECURITY_KEYS

    return next(iter(get_close_matches(name, (*BROKER_KEYS, *OWN_KEYS, *SECURITY_KEYS), n=1, cutoff=0.8)), None)


def unknown_key(name: str) -> str:
    """The sentence about a name for which `known_key` has none, with the nearest key.

    A properties file may hold such names, as in Kafka, where plug-ins read them; elsewhere they are refused.
    """
    near = nearest_key(name)
    shown = name if name.isprintable() else ascii(name)
    return f"{shown} is not a configuration key of Kafka" + (f"; did you mean {near}?" if near else "")


def _renamed(key: Key, name: str) -> Key:
    """The same key under another name, e.g. that of a listener."""
    return Key(name, key.type, key.default, key.rule, key.meaning)


def parse_value(key: Key, text: str) -> Value:
    """`text` as the type of `key`. Raises ConfigError, for a value outside its rule too.

    Source: ConfigDef.parseType. Blanks around a value do not count; a list is comma separated.
    """
    value = _typed(key, text)
    if key.rule and not _is_allowed(key, value):
        raise ConfigError(key.name, text, _expected(key))
    return value


def canonical_text(key: Key, text: str) -> str:
    """`text` as Kafka shows it: without blanks, lower-case booleans, plain numbers, lists without repetitions.

    Kafka: ConfigDef.convertToString.

    Raises ConfigError.
    """
    value = parse_value(key, text)
    if isinstance(value, tuple):
        return ",".join(dict.fromkeys(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _typed(key: Key, text: str) -> Value:
    stripped = text.strip()
    try:
        if key.type in _INTEGER_BITS:
            bound = 1 << (_INTEGER_BITS[key.type] - 1)
            number = int(stripped) if "_" not in stripped else bound
            if not -bound <= number < bound:
                raise ValueError
            return number
        if key.type == "double":
            return float(stripped)
    except ValueError:
        raise ConfigError(key.name, text, _expected(key)) from None
    if key.type == "boolean":
        if stripped.lower() not in ("true", "false"):
            raise ConfigError(key.name, text, _expected(key))
        return stripped.lower() == "true"
    if key.type == "list":
        return tuple(part.strip() for part in stripped.split(",")) if stripped else ()
    return stripped


def _is_allowed(key: Key, value: Any) -> bool:
    choices = key.rule.split("|")
    if isinstance(value, tuple):
        return all(part in choices for part in value)
    if isinstance(value, str):
        return value in choices or value.upper() in choices  # Kafka takes names of its enums in any case
    return any(_is_in(value, choice) for choice in choices)


def _is_in(number: float, choice: str) -> bool:
    if choice.endswith("+"):
        return number >= float(choice[:-1])
    low, _, high = choice.partition("..")
    return float(low) <= number <= float(high or low)


def _expected(key: Key) -> str:
    """What a value must be, in words."""
    if key.type in _EXPECTED and not key.rule:
        return _EXPECTED[key.type]
    if key.type in ("string", "list"):
        choices = ", ".join(key.rule.split("|"))
        return f"one of {choices}" if key.type == "string" else f"a comma-separated list of {choices}"
    noun = "a number" if key.type == "double" else "an integer"
    if not key.rule:
        return f"{noun} of {_INTEGER_BITS[key.type]} bits"
    parts = []
    for choice in key.rule.split("|"):
        low, dots, high = choice.partition("..")
        parts.append(f"from {low} to {high}" if dots else f"of at least {low[:-1]}" if low.endswith("+") else low)
    return f"{noun} {parts[-1]}" if len(parts) == 1 else f"{', '.join(parts[:-1])} or {noun} {parts[-1]}"
