"""The configuration of topics, altered while they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kshim.config.keys import TOPIC_KEYS
from kshim.partitions.topic_validator import check_name, checked_configs
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.config.keys import Key
    from kshim.partitions.partition import Topic


class TopicResource:
    """A `Resource`. Internal topics too may be altered, as in Kafka."""

    def configs(self, node: Node, name: str) -> Mapping[str, str]:
        """See `Resource.configs`; nothing for a topic there is not."""
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic name is required")
        check_name(name)
        topic = node.cluster.topics.named(name)
        return {} if topic is None else topic.configs

    def key(self, name: str) -> Key | None:
        """See `Resource.key`."""
        return TOPIC_KEYS.get(name)

    def check(self, node: Node, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """As for a new topic."""
        checked_configs(after.items())

    def check_exists(self, node: Node, name: str) -> None:
        """See `Resource.check_exists`."""
        self._topic(node, name)

    def keep(self, node: Node, name: str, after: Mapping[str, str]) -> None:
        """See `Resource.keep`."""
        topic, topics = self._topic(node, name), node.cluster.topics
        before, topic.configs = topic.configs, dict(after)
        try:
            topics.save()
        except LogError:
            topic.configs = before
            raise
        node.cluster.partitions.configured(topic)

    def _topic(self, node: Node, name: str) -> Topic:
        topic = node.cluster.topics.named(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        return topic
