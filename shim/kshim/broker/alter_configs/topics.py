"""The configuration of topics, altered while they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kshim.partitions.topic_validator import check_name, checked_configs
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.partitions.partition import Topic


def topic_configs(node: Node, name: str) -> Mapping[str, str]:
    """What is set for a topic, internal ones too, as in Kafka; nothing for a topic that does not exist."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic name is required")
    check_name(name)
    topic = node.cluster.topics.named(name)
    return {} if topic is None else topic.configs


def check_topic(node: Node, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """As for a new topic."""
    checked_configs(after.items())


def keep_topic(node: Node, name: str, after: Mapping[str, str]) -> None:
    """Store the configuration with the topic. Raises LogError."""
    topic, topics = topic_named(node, name), node.cluster.topics
    before, topic.configs = topic.configs, dict(after)
    try:
        topics.save()
    except LogError:
        topic.configs = before
        raise
    node.cluster.partitions.configured(topic)


def topic_named(node: Node, name: str) -> Topic:
    """Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
    topic = node.cluster.topics.named(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
    return topic
