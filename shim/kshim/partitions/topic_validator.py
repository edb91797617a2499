"""What a topic may be called, how many partitions it may have, and what may be configured for it.

The order of checks and the errors are those of a live Kafka 4.4; the sentences are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kshim.config.broker_config import ConfigError, parse_value
from kshim.config.keys import TOPIC_KEYS
from kshim.partitions.partition import INTERNAL_TOPICS
from kshim.partitions.topics import NewTopic, Topics
from kshim_protocol.errors import ErrorCode, KafkaError

MAX_NAME_LENGTH = 249
MAX_PARTITIONS_PER_REQUEST = 10_000
"""Kafka writes a request's topics and partitions as one batch of at most so many records."""
METADATA_TOPIC = "__cluster_metadata"
"""Kafka keeps its own metadata there; clients may not make it."""

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_new_topic(topics: Topics, name: str, configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The configuration of a topic that is to be made, if it may be.

    Raises KafkaError: INVALID_REQUEST (a topic of the broker's own), TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION,
    INVALID_CONFIG.
    """
    if name == METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"clients cannot create {METADATA_TOPIC}")
    if name in topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic {name!r} already exists.")
    check_name(name)
    if name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is created by the broker when it is first needed")
    check_no_collision(name, topics.alike(name))
    return checked_configs(configs)


def checked_topic(
    topics: Topics,
    name: str,
    partition_count: int,
    configs: Iterable[tuple[str, str | None]] = (),
    leader_ids: Sequence[int] | None = None,
) -> NewTopic:
    """A topic that may be made as it is described, alone.

    Raises KafkaError: as `check_new_topic`, INVALID_PARTITIONS, or POLICY_VIOLATION.
    """
    checked = check_new_topic(topics, name, configs)
    check_partition_count(partition_count)
    check_total(1 + partition_count)
    return NewTopic(name, partition_count, checked, leader_ids)


def name_problem(name: str) -> str | None:
    """Why `name` cannot be the name of a topic, or None when it can. Kafka: Topic.validate."""
    if not name:
        return "a topic name cannot be empty"
    if name in (".", ".."):
        return f"{name!r} cannot be a topic name"
    if len(name) > MAX_NAME_LENGTH:
        return f"a topic name has at most {MAX_NAME_LENGTH} characters, this one {len(name)}"
    if not _NAME_CHARACTERS.issuperset(name):
        return f"{name!r} may hold only ASCII letters, digits, '.', '_' and '-'"
    return None


def check_name(name: str) -> None:
    """Raises KafkaError INVALID_TOPIC_EXCEPTION."""
    problem = name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def check_no_collision(name: str, existing: Iterable[str]) -> None:
    """Raises KafkaError INVALID_TOPIC_EXCEPTION when a topic differs only in '.' and '_', which metrics cannot distinguish."""
    if "." not in name and "_" not in name:
        return
    folded = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == folded:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic {name!r} collides with existing topic: {other}")


def check_partition_count(count: int) -> None:
    """Raises KafkaError INVALID_PARTITIONS."""
    if count < 1:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"the number of partitions must be at least 1, not {count}")


def check_total(topic_and_partition_count: int) -> None:
    """All that one request is to create. Raises KafkaError POLICY_VIOLATION."""
    if topic_and_partition_count > MAX_PARTITIONS_PER_REQUEST:
        reason = f"a request may create at most {MAX_PARTITIONS_PER_REQUEST} topics and partitions"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, reason)


def check_replication_factor(factor: int, node_count: int) -> None:
    """Raises KafkaError INVALID_REPLICATION_FACTOR. -1 asks for the default."""
    if factor == -1 or 1 <= factor <= node_count:
        return
    if factor > node_count:
        reason = f"{factor} replicas need as many brokers, and there are {node_count}"
    else:
        reason = f"the replication factor is positive, or -1 for the default, not {factor}"
    raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)


def check_assignment(broker_ids: Sequence[int], known_ids: Sequence[int]) -> None:
    """The replicas that a client chose for one partition. Raises KafkaError INVALID_REPLICA_ASSIGNMENT."""
    if not broker_ids:
        reason = "a partition needs at least one replica"
    elif len(set(broker_ids)) < len(broker_ids):
        reason = f"a broker cannot hold a partition twice: {list(broker_ids)}"
    elif unknown := [broker_id for broker_id in broker_ids if broker_id not in known_ids]:
        reason = f"there is no broker {unknown[0]}"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


def checked_configs(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The configuration of a new topic; of equal names the last one counts. Raises KafkaError INVALID_CONFIG.

    Kafka: LogConfig.validate. Values stay as they were sent, blanks included.
    """
    checked: dict[str, str] = {}
    for name, value in configs:
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} requires a value")
        checked[name] = value
    for name, value in checked.items():
        _check_config(name, value)
    shortest, longest = (
        int(checked.get(name, TOPIC_KEYS[name].default)) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if shortest > longest:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms ({shortest}) cannot be above max.compaction.lag.ms ({longest})",
        )
    return checked


def _check_config(name: str, value: str) -> None:
    key = TOPIC_KEYS.get(name)
    if key is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    try:
        parsed = parse_value(key, value)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    if isinstance(parsed, tuple) and "" in parsed:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} has an empty entry")
    if name.endswith(".throttled.replicas") and not _names_replicas(parsed):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be * or a list of PARTITION:BROKER, not {value}")
    if name == "remote.storage.enable" and parsed is True:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "tiered storage is not supported")


def _names_replicas(parsed: object) -> bool:
    assert isinstance(parsed, tuple)
    if parsed == ("*",):
        return True
    return all(
        colon and partition.isdigit() and broker.isdigit()
        for partition, colon, broker in (entry.partition(":") for entry in parsed)
    )
