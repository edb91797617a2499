"""What members subscribe to, as topics that exist."""

from __future__ import annotations

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.consumer.group import ConsumerGroup, Member


def subscribed_names(group: ConsumerGroup) -> frozenset[str]:
    """All names to which somebody subscribes."""
    return frozenset(name for member in group.members.values() for name in member.metadata.subscribed_topic_names)


def subscribed_ids(member: Member, topics: TopicCatalog) -> frozenset[bytes]:
    """The ids of those topics of one member that exist."""
    found = map(topics.topic_id, member.metadata.subscribed_topic_names)
    return frozenset(topic_id for topic_id in found if topic_id is not None)
