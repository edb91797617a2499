"""Consumers with a defect each, which chaos is to find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka import OffsetAndMetadata, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor

from kshim.testing.chaos.application import Consumer


class Dropping(Consumer):
    """Does not process every other record, and commits them all."""

    def __init__(self, name: str, topic: str, options: Any, processed: Any) -> None:
        def drop(topic: str, partition: int, offset: int) -> None:
            if offset % 2 == 0:
                processed(topic, partition, offset)

        super().__init__(name, topic, options, drop)


class Rereading(Consumer):
    """Begins with the first record whenever partitions are assigned to it."""

    def __init__(self, name: str, topic: str, options: Any, processed: Any) -> None:
        super().__init__(name, topic, {**options, "max_poll_records": 1}, processed)

    def subscribe(self, consumer: Any) -> None:
        consumer.subscribe([self.topic], listener=SeekToBeginning(consumer))


class SeekToBeginning(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def on_partitions_revoked(self, revoked: object) -> None:
        pass

    def on_partitions_assigned(self, assigned: Sequence[object]) -> None:
        if assigned:
            self._consumer.seek_to_beginning()


class Keeping(Consumer):
    """Ignores that partitions are revoked: it goes on committing what it has read of them."""

    def __init__(self, name: str, topic: str, options: Any, processed: Any) -> None:
        super().__init__(name, topic, options, processed)
        self._kept: dict[TopicPartition, OffsetAndMetadata] = {}

    def commit(self, consumer: Any) -> None:
        super().commit(consumer)
        owned = consumer.assignment()
        if not self.has_to_commit:
            revoked = {partition: offset for partition, offset in self._kept.items() if partition not in owned}
            if revoked:
                consumer.commit(revoked)
            self._kept |= {partition: OffsetAndMetadata(consumer.position(partition), "", -1) for partition in owned}


class Hoarding(Consumer):
    """Assigns each partition to each member."""

    def __init__(self, name: str, topic: str, options: Any, processed: Any) -> None:
        super().__init__(name, topic, {**options, "partition_assignment_strategy": [Everything]}, processed)


class Everything(RangePartitionAssignor):  # type: ignore[misc]
    name = "everything"

    @classmethod
    def assign(cls, cluster: Any, group_subscriptions: Any) -> Any:
        assignment = super().assign(cluster, group_subscriptions)
        everything = [each for given in assignment.values() for each in given.assigned_partitions]
        return {name: type(given)(given.version, everything, given.user_data) for name, given in assignment.items()}


class StayingDown(Consumer):
    """Does not start a second time."""

    _has_started = False

    def start(self) -> None:
        if not self._has_started:
            super().start()
        self._has_started = True


class Failing(Consumer):
    """Ends when it has processed something for the third time while it had one of the two partitions, so that the other is a member."""

    _polls = 0

    def commit(self, consumer: Any) -> None:
        super().commit(consumer)
        self._polls += len(consumer.assignment()) == 1
        if self._polls == 3:
            raise ZeroDivisionError("a defect of the application")
