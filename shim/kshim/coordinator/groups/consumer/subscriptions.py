"""What members subscribe to, by names and by expressions that are resolved, as topics that exist."""

from __future__ import annotations

from collections.abc import Mapping

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.consumer.group import ConsumerGroup, Member
from kshim.coordinator.groups.consumer.updates import Resolved


def subscribed_names(group: ConsumerGroup) -> frozenset[str]:
    """All names to which somebody subscribes."""
    return frozenset(group.name_members).union(*(found.topics for found in group.expressions.values()))


def names_of(member: Member, expressions: Mapping[str, Resolved]) -> frozenset[str]:
    """The names to which one member subscribes, with what its expression stands for."""
    names = frozenset(member.metadata.subscribed_topic_names)
    found = expressions.get(member.metadata.subscribed_topic_regex or "")
    return names if found is None else names | found.topics


def subscribed_ids(member: Member, expressions: Mapping[str, Resolved], topics: TopicCatalog) -> frozenset[bytes]:
    """The ids of those topics of one member that exist."""
    found = map(topics.topic_id, names_of(member, expressions))
    return frozenset(topic_id for topic_id in found if topic_id is not None)
