"""A service that consumes with kafka-python."""

from __future__ import annotations

import kafka
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from integration.real_incidents.settings import Commands, settings

_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
_TEXTS = ("bootstrap.servers", "group.id", "client.id", "group.instance.id", "auto.offset.reset")


def main() -> None:
    """Consume until stopped, then close."""
    given, commands = settings(), Commands()
    work_ms, topics, pattern = int(given.pop("work.ms")), given.pop("topics", None), given.pop("pattern", None)
    assignor = _ASSIGNORS[given.pop("partition.assignment.strategy")]
    own = {key.replace(".", "_"): value if key in _TEXTS else int(value) for key, value in given.items()}
    consumer = kafka.KafkaConsumer(partition_assignment_strategy=[assignor], **own)
    consumer.subscribe(topics=topics.split(",") if topics else None, pattern=pattern)
    while not commands.is_stopping:
        if consumer.poll(timeout_ms=1_000):
            commands.work(work_ms)
        else:
            commands.work(0)
    consumer.close()


if __name__ == "__main__":
    main()
