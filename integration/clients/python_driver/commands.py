"""The commands that are the same for every Python client: members, loads and transactional producers by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from integration.clients.python_driver.background import Consumer, Journal, Load, PolledMember


class MemberCommands(ABC):
    """Members by name. `connection` holds the client's own settings, as `open` has made them."""

    def __init__(self) -> None:
        self.connection: dict[str, Any] = {}
        self._members: dict[str, tuple[PolledMember, Journal]] = {}

    @abstractmethod
    def error_name(self, error: Exception) -> str:
        """Kafka's constant, or the name of the client's class."""

    def _start(self, member: str, make: Callable[[Journal], Consumer]) -> None:
        journal = Journal()
        self._members[member] = PolledMember(lambda: make(journal), journal, self.error_name), journal

    def member_log(self, members: list[str]) -> dict[str, Any]:
        return {"members": {name: self._members[name][1].take() for name in members}}

    def member_commit(self, member: str) -> None:
        self._members[member][0].ask(lambda consumer: consumer.commit())

    def member_seek(self, member: str, topic: str, partition: int, offset: int) -> None:
        self._members[member][0].ask(lambda consumer: consumer.seek(topic, partition, offset))

    def member_stop(self, member: str, commit: bool = False) -> dict[str, Any]:
        polled, journal = self._members.pop(member)
        polled.stop(commit=commit)
        return {"records": journal.take()["records"]}


class ProducerCommands:
    """Loads and transactional producers by name."""

    def __init__(self) -> None:
        self.connection: dict[str, Any] = {}
        self._loads: dict[str, Load] = {}
        self._transactional: dict[str, Any] = {}

    def load_stop(self, load: str) -> dict[str, Any]:
        return self._loads.pop(load).stop()


class CopyCounts:
    """What a copying application has done. `abort_every`: which transactions it aborts on purpose."""

    def __init__(self, count: int, abort_every: int | None) -> None:
        self._count = count
        self._abort_every = abort_every
        self.answer = {"copied": 0, "committed": 0, "aborted": 0}

    @property
    def is_done(self) -> bool:
        """Whether everything is copied."""
        return self.answer["copied"] >= self._count

    @property
    def is_doomed(self) -> bool:
        """Whether the next transaction is to be aborted."""
        number = self.answer["committed"] + self.answer["aborted"] + 1
        return self._abort_every is not None and number % self._abort_every == 0

    def committed(self, records: int) -> None:
        """A transaction with so many records was committed."""
        self.answer["copied"] += records
        self.answer["committed"] += 1

    def aborted(self) -> None:
        """A transaction was aborted."""
        self.answer["aborted"] += 1


def partition_lists(partitions: Any) -> list[list[Any]]:
    """`[[topic, partition]]` of a client's partitions."""
    return [[each.topic, each.partition] for each in partitions]


def polled_records(batches: Any, decoded: Callable[[Any], Any]) -> list[list[Any]]:
    """`Journal.records` of the batches by partition that kafka-python and aiokafka return."""
    return [
        [record.topic, record.partition, record.offset, decoded(record.value)]
        for records in batches.values()
        for record in records
    ]


def record_fields(records: Iterable[Any], decoded: Callable[[Any], Any]) -> dict[str, Any]:
    """The answer to `read`, of the records of kafka-python and aiokafka."""
    return {
        "records": [
            {
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": decoded(record.key),
                "value": decoded(record.value),
                "headers": [[name, decoded(value)] for name, value in record.headers],
            }
            for record in records
        ]
    }
