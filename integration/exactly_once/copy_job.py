"""An exactly-once copy with librdkafka: `python -m integration.exactly_once.copy_job BOOTSTRAP IN OUT GROUP ID`.

Reads IN as a member of GROUP, writes each value with `copied:` before it to the same partition of OUT, and commits
records and offsets in one transaction of transactional id ID. Runs until it is killed. A transaction that has to be
aborted is done again from the committed offsets; what is fatal ends the process with 1, and it is started again.
"""

from __future__ import annotations

import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

BATCH_RECORDS = 50
PREFIX = b"copied:"


class CopyJob:
    """One instance of the job."""

    def __init__(self, bootstrap: str, source: str, target: str, group: str, transactional_id: str) -> None:
        self._target = target
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 10_000,
                "linger.ms": 2,
            }
        )
        self._producer.init_transactions()
        self._consumer.subscribe([source])

    def run(self) -> None:
        """Copy for ever. Raises KafkaException when the producer is fenced or broken."""
        while True:
            records = [record for record in self._consumer.consume(BATCH_RECORDS, 0.2) if record.error() is None]
            if not records:
                continue
            try:
                self._copy(records)
            except KafkaException as exception:
                error = exception.args[0]
                if error.fatal():
                    raise
                self._producer.abort_transaction()
                self._go_back()

    def _copy(self, records: list[Any]) -> None:
        self._producer.begin_transaction()
        following: dict[tuple[str, int], int] = {}
        for record in records:
            self._producer.produce(self._target, PREFIX + record.value(), record.key(), record.partition())
            following[record.topic(), record.partition()] = record.offset() + 1
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in following.items()]
        self._producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata())
        while True:
            try:
                self._producer.commit_transaction()
                return
            except KafkaException as exception:
                if not exception.args[0].retriable():
                    raise

    def _go_back(self) -> None:
        """Read on where the group's committed offsets are."""
        assigned = self._consumer.assignment()
        if not assigned:
            return
        for place in self._consumer.committed(assigned, timeout=30):
            self._consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))


def main() -> None:
    """See the module."""
    CopyJob(*sys.argv[1:]).run()


if __name__ == "__main__":
    main()
