"""Reading and membership with aiokafka's `AIOKafkaConsumer`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from integration.clients.aiokafka.settings import decoded, wait
from integration.clients.driver import Unsupported
from integration.clients.python_driver.background import Journal
from integration.clients.python_driver.commands import MemberCommands, partition_lists, polled_records, record_fields

_POLL_MS = 100
_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
_SETTINGS = {
    "instance_id": "group_instance_id",
    "session_timeout_ms": "session_timeout_ms",
    "heartbeat_interval_ms": "heartbeat_interval_ms",
    "metadata_max_age_ms": "metadata_max_age_ms",
    "isolation": "isolation_level",
}


class _Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._journal.event("revoked", partition_lists(revoked))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._journal.event("assigned", partition_lists(assigned))


class _Consumer:
    def __init__(
        self, settings: dict[str, Any], topics: list[str] | None, pattern: str | None, journal: Journal
    ) -> None:
        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(**settings)
            consumer.subscribe(topics=topics or (), pattern=pattern, listener=_Listener(journal))
            await consumer.start()
            return consumer

        self._consumer = wait(start())

    def poll(self) -> list[list[Any]]:
        batches = wait(self._consumer.getmany(timeout_ms=_POLL_MS))
        return polled_records(batches, decoded)

    def assignment(self) -> list[list[Any]]:
        return partition_lists(self._consumer.assignment())

    def commit(self) -> None:
        wait(self._consumer.commit())

    def seek(self, topic: str, partition: int, offset: int) -> None:
        async def seek() -> None:
            self._consumer.seek(aiokafka.TopicPartition(topic, partition), offset)

        wait(seek())

    def close(self) -> None:
        wait(self._consumer.stop())


class Consuming(MemberCommands):
    """Members, and consumers that are made for one command."""

    def read(
        self, topic: str, starts: Mapping[str, int | str], count: int, timeout_ms: int, isolation: str | None = None
    ) -> dict[str, Any]:
        async def read() -> list[Any]:
            consumer = self._consumer(isolation)
            await consumer.start()
            try:
                consumer.assign([aiokafka.TopicPartition(topic, int(partition)) for partition in starts])
                for partition, start in starts.items():
                    there = aiokafka.TopicPartition(topic, int(partition))
                    match start:
                        case "beginning":
                            await consumer.seek_to_beginning(there)
                        case "end":
                            await consumer.seek_to_end(there)
                        case _:
                            consumer.seek(there, start)
                records: list[Any] = []
                until = time.monotonic() + timeout_ms / 1000
                while len(records) < count and (left_s := until - time.monotonic()) > 0:
                    for batch in (await consumer.getmany(timeout_ms=int(left_s * 1000) + 1)).values():
                        records += batch
                return records
            finally:
                await consumer.stop()

        return record_fields(wait(read()), decoded)

    def offsets(self, topic: str, partitions: list[int], at: int | str, isolation: str | None = None) -> dict[str, Any]:
        theirs = [aiokafka.TopicPartition(topic, partition) for partition in partitions]

        async def ask() -> dict[Any, Any]:
            consumer = self._consumer(isolation)
            await consumer.start()
            try:
                match at:
                    case "beginning":
                        found: dict[Any, Any] = await consumer.beginning_offsets(theirs)
                    case "end":
                        found = await consumer.end_offsets(theirs)
                    case _:
                        by_time = await consumer.offsets_for_times(dict.fromkeys(theirs, at))
                        found = {each: result and result.offset for each, result in by_time.items()}
                return found
            finally:
                await consumer.stop()

        return {"offsets": {str(each.partition): offset for each, offset in wait(ask()).items()}}

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
            if "cooperative-sticky" in assignors:
                raise Unsupported("aiokafka has no cooperative assignor")
            theirs["partition_assignment_strategy"] = [_ASSIGNORS[name] for name in assignors]
        ours = self._settings({"group_id": group, **theirs})
        self._start(member, lambda journal: _Consumer(ours, topics, pattern, journal))

    def _settings(self, more: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.connection, "auto_offset_reset": "earliest", "enable_auto_commit": False, **more}

    def _consumer(self, isolation: str | None) -> Any:
        """To be called in the loop."""
        return aiokafka.AIOKafkaConsumer(**self._settings({"isolation_level": isolation} if isolation else {}))
