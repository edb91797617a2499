"""The topics that the broker makes for itself: those of the coordinators, and that of the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kshim.coordinator.step import OFFSETS_TOPIC, SHARE_STATE_TOPIC

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.partitions.partition import Topic
    from kshim.partitions.topics import Topics

_SHARE_STATE_CONFIGS: Final = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "retention.ms": "-1",
}
EVENTS_TOPIC: Final = "__kshim_events"
_EVENTS_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": "604800000"}
_EVENTS_CONFIGS_WHEN_ASKED: Final = _EVENTS_CONFIGS | {"retention.bytes": "67108864", "segment.bytes": "16777216"}
"""Nobody has decided that it may grow."""


def make_internal_topic(name: str, topics: Topics, config: BrokerConfig) -> Topic:
    """Make `__consumer_offsets`, `__transaction_state` or `__share_group_state`. Raises LogError.

    Kafka: GroupCoordinatorService.groupMetadataTopicConfigs, TransactionStateManager.transactionTopicConfigs,
    ShareCoordinatorService.shareGroupStateTopicConfigs.
    """
    configs = {"cleanup.policy": "compact"}
    if name == OFFSETS_TOPIC:
        configs["compression.type"] = "producer"
        configs["segment.bytes"] = str(config.offsets_topic_segment_bytes)
        return topics.create(name, config.offsets_topic_num_partitions, configs)
    if name == SHARE_STATE_TOPIC:
        configs = _SHARE_STATE_CONFIGS | {"segment.bytes": str(config.share_coordinator_state_topic_segment_bytes)}
        return topics.create(name, config.share_coordinator_state_topic_num_partitions, configs)
    configs["compression.type"] = "uncompressed"
    configs["segment.bytes"] = str(config.transaction_state_log_segment_bytes)
    configs["unclean.leader.election.enable"] = "false"
    return topics.create(name, config.transaction_state_log_num_partitions, configs)


def unlisted_topics(config: BrokerConfig) -> frozenset[str]:
    """Topics that only those see who ask for them by name."""
    return frozenset({EVENTS_TOPIC} if config.kshim_history_topic_enable == "when-asked" else ())


def make_events_topic(topics: Topics, config: BrokerConfig) -> None:
    """Make the topic of the history if the configuration asks for it and it is not there. Raises LogError.

    Must be called before clients connect, so that it causes no rebalance of consumers that subscribe to a pattern.
    """
    if config.kshim_history_topic_enable == "true" and EVENTS_TOPIC not in topics:
        topics.create(EVENTS_TOPIC, 1, _EVENTS_CONFIGS)


def make_events_topic_when_asked(topics: Topics) -> bool:
    """Make the topic of the history if it is not there; whether it was made. Raises LogError."""
    is_new = EVENTS_TOPIC not in topics
    if is_new:
        topics.create(EVENTS_TOPIC, 1, _EVENTS_CONFIGS_WHEN_ASKED)
    return is_new
