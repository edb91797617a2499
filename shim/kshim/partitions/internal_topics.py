"""The topics the coordinators keep their state in, as Kafka makes them when they are first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.coordinator.step import OFFSETS_TOPIC

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.partitions.topics import Topic, Topics


def make_internal_topic(name: str, topics: Topics, config: BrokerConfig) -> Topic:
    """Make `__consumer_offsets` or `__transaction_state`. Raises LogError.

    Kafka: GroupCoordinatorService.groupMetadataTopicConfigs, TransactionStateManager.transactionTopicConfigs.
    """
    configs = {"cleanup.policy": "compact"}
    if name == OFFSETS_TOPIC:
        configs["compression.type"] = "producer"
        configs["segment.bytes"] = str(config.offsets_topic_segment_bytes)
        return topics.create(name, config.offsets_topic_num_partitions, configs)
    configs["compression.type"] = "uncompressed"
    configs["segment.bytes"] = str(config.transaction_state_log_segment_bytes)
    configs["unclean.leader.election.enable"] = "false"
    return topics.create(name, config.transaction_state_log_num_partitions, configs)
