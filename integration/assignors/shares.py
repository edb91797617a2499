"""Random share groups, and what Kafka's own assignor has their members read."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable

from integration.assignors.kafka_classes import KafkaClasses
from kshim.coordinator.groups.consumer.assignors.subscribers import Subscriber, Target, TopicPartition
from kshim.coordinator.hash_order import hash_map_order

_MOST_PARTITIONS = 40


class ShareGroup:
    """Members with their targets, and the partitions whose share state is there, by topic."""

    def __init__(self, source: random.Random) -> None:
        """A group in which nobody has anything yet."""
        self._source = source
        self._topics = [source.randbytes(16) for _ in range(source.choice((1, 1, 2, 3, 15)))]
        self._are_alike = source.random() < 0.6
        self._common = self._wish()
        self.assignable = {
            topic: set(range(source.choice((1, 2, 3, 4, 7, 20, _MOST_PARTITIONS)))) for topic in self._topics
        }
        if source.random() < 0.2:
            self.assignable[self._topics[0]] = {source.randrange(_MOST_PARTITIONS)}
        self._members: dict[str, Subscriber] = {}
        self._join(source.choice((1, 1, 2, 3, 6, 20)))

    @property
    def members(self) -> dict[str, Subscriber]:
        """In the order of Kafka's table of them."""
        return {member_id: self._members[member_id] for member_id in hash_map_order(self._members)}

    def change(self, target: Target) -> None:
        """Members have what they were to read; then some leave or want something else, others join, topics grow."""
        source = self._source
        for member_id, assigned in target.items():
            topics = self._members[member_id].topics
            if not self._are_alike and source.random() < 0.1:
                topics = self._wish()
            self._members[member_id] = Subscriber(topics, assigned)
        for member_id in list(self._members):
            if len(self._members) > 1 and source.random() < 0.2:
                del self._members[member_id]
        self._join(source.choice((0, 0, 1, 1, 2, 20)))
        if source.random() < 0.2:
            topic = source.choice(self._topics)
            self.assignable[topic] |= set(range(min(_MOST_PARTITIONS, len(self.assignable[topic]) + 2)))

    def _join(self, count: int) -> None:
        for _ in range(count):
            topics = self._common if self._are_alike else self._wish()
            self._members[f"{self._source.getrandbits(64):x}"] = Subscriber(topics)

    def _wish(self) -> frozenset[bytes]:
        return frozenset(self._source.sample(self._topics, self._source.randint(1, len(self._topics))))


def assigned_by_kafka(kafka: KafkaClasses, group: ShareGroup) -> Target:
    """What Kafka's assignor has each member read."""
    members = [
        {
            "id": member_id,
            "topics": [_text(topic) for topic in group.assignable if topic in member.topics],
            "assigned": _by_topic(member.assigned),
        }
        for member_id, member in group.members.items()
    ]
    assignable = {_text(topic): sorted(indexes) for topic, indexes in group.assignable.items()}
    question = {"about": "share members", "members": members, "assignable": assignable, "count": _MOST_PARTITIONS}
    return {
        member_id: frozenset((_topic_id(topic), index) for topic, indexes in found.items() for index in indexes)
        for member_id, found in kafka.ask(question).items()
    }


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in sorted(places):
        found.setdefault(_text(topic), []).append(index)
    return found


def _text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _topic_id(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")
