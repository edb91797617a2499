"""librdkafka as confluent-kafka wraps it."""

from __future__ import annotations

from typing import Any

import confluent_kafka

from integration.support.client import Record, TopicPartition

_MAX_RECORD_COUNT = 500


class LibrdkafkaMember:
    """A `Consumer`. Every error that it reports, by whichever way, is raised by the next `poll`."""

    gives_up_before_joining = True

    def __init__(self, settings: dict[str, Any], topics: list[str]) -> None:
        """Subscribe by name; `settings` are librdkafka's own."""
        self._errors: list[Any] = []
        self._assignment_count = 0
        self._consumer = confluent_kafka.Consumer({**settings, "error_cb": self._errors.append})
        self._consumer.subscribe(topics, on_assign=self._assigned)

    def poll(self, timeout_s: float) -> list[Record]:
        """What has come after at most that time."""
        messages = self._consumer.consume(_MAX_RECORD_COUNT, timeout_s)
        errors = self._errors + [message.error() for message in messages if message.error() is not None]
        if errors:
            raise confluent_kafka.KafkaException(errors[0])
        return [_record(message) for message in messages]

    def assignment(self) -> frozenset[TopicPartition]:
        """The consumer's own view."""
        return frozenset(TopicPartition(each.topic, each.partition) for each in self._consumer.assignment())

    def generation(self) -> int:
        """How many assignments it was given, empty ones counted: librdkafka does not show its generation."""
        return self._assignment_count

    def commit(self) -> None:
        """A synchronous commit."""
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        """Close, which leaves the group unless the member is static."""
        self._consumer.close()

    def _assigned(self, consumer: object, partitions: object) -> None:
        self._assignment_count += 1


def _record(message: Any) -> Record:
    return Record(message.topic(), message.partition(), message.offset(), message.value().decode())
