"""Reading and membership with confluent-kafka's `Consumer`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from integration.clients.confluent_kafka.settings import code_name, decoded, error_name
from integration.clients.driver import Unsupported
from integration.clients.python_driver.background import Journal
from integration.clients.python_driver.commands import MemberCommands, partition_lists

_POLL_S = 0.1
_MAX_RECORDS = 500
_TIMEOUT_S = 40
_STARTS = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END}
_FATAL = {
    "Static consumer fenced": "FENCED_INSTANCE_ID",
    "The instance ID is still used": "UNRELEASED_INSTANCE_ID",
}
_SETTINGS = {
    "instance_id": "group.instance.id",
    "session_timeout_ms": "session.timeout.ms",
    "heartbeat_interval_ms": "heartbeat.interval.ms",
    "isolation": "isolation.level",
}


class _Consumer:
    def __init__(
        self, settings: dict[str, Any], topics: list[str], journal: Journal, *, commits_on_revoke: bool
    ) -> None:
        self._journal = journal
        self._commits_on_revoke = commits_on_revoke
        self._consumer = confluent_kafka.Consumer({**settings, "error_cb": self._told})
        self._consumer.subscribe(
            topics,
            on_assign=lambda _, partitions: journal.event("assigned", partition_lists(partitions)),
            on_revoke=self._revoked,
            on_lost=lambda _, partitions: journal.event("lost", partition_lists(partitions)),
        )

    def poll(self) -> list[list[Any]]:
        records = []
        for message in self._consumer.consume(_MAX_RECORDS, _POLL_S):
            if (error := message.error()) is None:
                records.append([message.topic(), message.partition(), message.offset(), decoded(message.value())])
            else:
                self._journal.error(_told_error(error))
        return records

    def assignment(self) -> list[list[Any]]:
        return partition_lists(self._consumer.assignment())

    def commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException as error:
            if error_name(error) != "_NO_OFFSET":  # nothing new since the last commit
                raise

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(topic, partition, offset))

    def close(self) -> None:
        self._consumer.close()

    def _revoked(self, consumer: Any, partitions: Any) -> None:
        if self._commits_on_revoke:
            self.commit()
        self._journal.event("revoked", partition_lists(partitions))

    def _told(self, error: Any) -> None:
        """Most is for information: a lost connection, for instance."""
        if error.fatal():
            self._journal.error(_told_error(error))


class Consuming(MemberCommands):
    """Members, and consumers that are made for one command."""

    group_settings: Mapping[str, str]
    """The group protocol, unless it is the client's default."""

    def read(
        self, topic: str, starts: Mapping[str, int | str], count: int, timeout_ms: int, isolation: str | None = None
    ) -> dict[str, Any]:
        consumer = self._consumer(isolation)
        try:
            positions = [(int(partition), _STARTS.get(str(start), start)) for partition, start in starts.items()]
            consumer.assign([TopicPartition(topic, partition, int(offset)) for partition, offset in positions])
            messages: list[Any] = []
            until = time.monotonic() + timeout_ms / 1000
            while len(messages) < count and (left_s := until - time.monotonic()) > 0:
                for message in consumer.consume(_MAX_RECORDS, min(left_s, _POLL_S)):
                    if message.error() is not None:
                        raise confluent_kafka.KafkaException(message.error())
                    messages.append(message)
        finally:
            consumer.close()
        return {"records": [_told(message) for message in messages]}

    def offsets(self, topic: str, partitions: list[int], at: int | str, isolation: str | None = None) -> dict[str, Any]:
        consumer = self._consumer(isolation)
        try:
            if isinstance(at, str):
                index = ["beginning", "end"].index(at)
                found: dict[str, int | None] = {
                    str(each): consumer.get_watermark_offsets(TopicPartition(topic, each), _TIMEOUT_S)[index]
                    for each in partitions
                }
            else:
                by_time = consumer.offsets_for_times(
                    [TopicPartition(topic, each, at) for each in partitions], _TIMEOUT_S
                )
                found = {str(each.partition): None if each.offset == OFFSET_END else each.offset for each in by_time}
        finally:
            consumer.close()
        return {"offsets": found}

    def member_start(
        self,
        member: str,
        group: str,
        topics: list[str] | None = None,
        pattern: str | None = None,
        assignors: list[str] | None = None,
        metadata_max_age_ms: int | None = None,
        commit_on_revoke: bool = False,
        **settings: Any,
    ) -> None:
        theirs = {"group.id": group, **{_SETTINGS[name]: value for name, value in settings.items()}}
        if assignors is not None and self.group_settings:
            theirs["group.remote.assignor"] = assignors[0]
        elif assignors is not None:
            if "sticky" in assignors:
                raise Unsupported("librdkafka has no eager sticky assignor")
            theirs["partition.assignment.strategy"] = ",".join(assignors)
        if metadata_max_age_ms is not None:
            theirs["metadata.max.age.ms"] = metadata_max_age_ms
            theirs["topic.metadata.refresh.interval.ms"] = metadata_max_age_ms
        properties = self._properties({**self.group_settings, **theirs})
        subscription = topics if pattern is None else [pattern]  # a name that begins with ^ is a pattern
        self._start(
            member,
            lambda journal: _Consumer(properties, subscription or [], journal, commits_on_revoke=commit_on_revoke),
        )

    def _properties(self, more: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.connection, "auto.offset.reset": "earliest", "enable.auto.commit": False, **more}

    def _consumer(self, isolation: str | None) -> Any:
        more = {"group.id": "none, but the library wants one"}
        if isolation is not None:
            more["isolation.level"] = isolation
        return confluent_kafka.Consumer(self._properties(more))


def _told_error(error: Any) -> str:
    """A fatal error has no code of its own, only the text of the one behind it."""
    named = (name for text, name in _FATAL.items() if text in error.str())
    return f"{next(named, None) or code_name(error)}: {error.str()}"


def _told(message: Any) -> dict[str, Any]:
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": decoded(message.key()),
        "value": decoded(message.value()),
        "headers": [[name, decoded(value)] for name, value in message.headers() or ()],
    }
