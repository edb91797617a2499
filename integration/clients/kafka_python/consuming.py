"""Reading and membership with kafka-python's `KafkaConsumer`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import kafka
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from integration.clients.kafka_python.settings import decoded
from integration.clients.python_driver.background import Journal
from integration.clients.python_driver.commands import MemberCommands, partition_lists, polled_records, record_fields

_POLL_MS = 500
_MEMBER_POLL_MS = 2_000
"""Long, for a join that completes between two polls is lost: see FINDINGS.md."""
_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
_SETTINGS = {
    "instance_id": "group_instance_id",
    "session_timeout_ms": "session_timeout_ms",
    "heartbeat_interval_ms": "heartbeat_interval_ms",
    "metadata_max_age_ms": "metadata_max_age_ms",
    "isolation": "isolation_level",
}


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._journal.event("revoked", partition_lists(revoked))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._journal.event("assigned", partition_lists(assigned))

    def on_partitions_lost(self, lost: Any) -> None:
        self._journal.event("lost", partition_lists(lost))


class _Consumer:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def poll(self) -> list[list[Any]]:
        batches = self._consumer.poll(timeout_ms=_MEMBER_POLL_MS)
        return polled_records(batches, decoded)

    def assignment(self) -> list[list[Any]]:
        return partition_lists(self._consumer.assignment())

    def commit(self) -> None:
        self._consumer.commit()

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.seek(kafka.TopicPartition(topic, partition), offset)

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class Consuming(MemberCommands):
    """Members, and consumers that are made for one command."""

    def read(
        self, topic: str, starts: Mapping[str, int | str], count: int, timeout_ms: int, isolation: str | None = None
    ) -> dict[str, Any]:
        consumer = self._consumer(isolation)
        try:
            consumer.assign([kafka.TopicPartition(topic, int(partition)) for partition in starts])
            for partition, start in starts.items():
                there = kafka.TopicPartition(topic, int(partition))
                match start:
                    case "beginning":
                        consumer.seek_to_beginning(there)
                    case "end":
                        consumer.seek_to_end(there)
                        consumer.position(there)
                    case _:
                        consumer.seek(there, start)
            records: list[Any] = []
            until = time.monotonic() + timeout_ms / 1000
            while len(records) < count and (left_s := until - time.monotonic()) > 0:
                for batch in consumer.poll(timeout_ms=min(left_s * 1000, _POLL_MS)).values():
                    records += batch
        finally:
            consumer.close()
        return record_fields(records, decoded)

    def offsets(self, topic: str, partitions: list[int], at: int | str, isolation: str | None = None) -> dict[str, Any]:
        consumer = self._consumer(isolation)
        theirs = [kafka.TopicPartition(topic, partition) for partition in partitions]
        try:
            match at:
                case "beginning":
                    found = consumer.beginning_offsets(theirs)
                case "end":
                    found = consumer.end_offsets(theirs)
                case _:
                    by_time = consumer.offsets_for_times(dict.fromkeys(theirs, at))
                    found = {each: result and result.offset for each, result in by_time.items()}
        finally:
            consumer.close()
        return {"offsets": {str(each.partition): offset for each, offset in found.items()}}

    def member_start(
        self,
        member: str,
        group: str,
        topics: list[str] | None = None,
        pattern: str | None = None,
        assignors: list[str] | None = None,
        **settings: Any,
    ) -> None:
        theirs = {_SETTINGS[name]: value for name, value in settings.items()}
        if assignors is not None:
            theirs["partition_assignment_strategy"] = [_ASSIGNORS[name] for name in assignors]

        def make(journal: Journal) -> _Consumer:
            consumer = kafka.KafkaConsumer(
                group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, **self.connection, **theirs
            )
            consumer.subscribe(topics=topics or (), pattern=pattern, listener=_Listener(journal))
            return _Consumer(consumer)

        self._start(member, make)

    def _consumer(self, isolation: str | None) -> Any:
        settings = {} if isolation is None else {"isolation_level": isolation}
        return kafka.KafkaConsumer(
            auto_offset_reset="earliest", enable_auto_commit=False, **self.connection, **settings
        )
