"""A child of the demo: one real kafka-python consumer that reports what it owns and what it reads.

`python -m kshim.tools.demo.member NAME BOOTSTRAP TOPIC GROUP SESSION_TIMEOUT_MS`; ends, leaving its group, with stdin.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

from kshim.tools.demo.reports import StopSignal, report

POLL_TIMEOUT_MS = 2_000
"""kafka-python can lose a join that ends between two polls (docs/kafka-python.md); records end a poll at once."""


def consume(name: str, bootstrap: str, topic: str, group: str, session_timeout_ms: int) -> None:
    """Read until stopped, then commit and leave."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer

    class Reporter(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
            report("revoked", member=name, partitions=_indexes(revoked))

        def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
            report("assigned", member=name, partitions=_indexes(assigned))

    stop = StopSignal()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id=name,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=session_timeout_ms // 6,
        auto_commit_interval_ms=1_000,
    )
    report("joining", member=name)
    consumer.subscribe([topic], listener=Reporter())
    consumer.partitions_for_topic(topic)  # its metadata, so that the first assignment is not empty
    while not stop.is_set():
        for partition, records in consumer.poll(timeout_ms=POLL_TIMEOUT_MS).items():
            offsets = [record.offset for record in records]
            report("read", member=name, partition=partition.partition, first=offsets[0], last=offsets[-1])
    report("leaving", member=name)
    consumer.close()
    report("left", member=name)


def _indexes(partitions: Collection[Any]) -> list[int]:
    return sorted(partition.partition for partition in partitions)


if __name__ == "__main__":
    consume(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
