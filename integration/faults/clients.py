"""kafka-python and confluent-kafka, each committing the offset of one partition, with little patience."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import confluent_kafka
import kafka
from kafka.structs import OffsetAndMetadata

TOPIC = "orders"
PATIENCE_S = 30.0
"""How long kafka-python may try a commit that is to succeed."""
IMPATIENCE_S = 2.0
"""And one that is to fail."""
_REQUEST_MS = 800
_PAUSE_MS = 20


class Committer(Protocol):
    """A client that commits. As a member it polls until it has its partition first, after an error too."""

    def commit(self, offset: int, patience_s: float = PATIENCE_S) -> str:
        """`ok`, or the name of the error that the application gets."""


class KafkaPython:
    """kafka-python's consumer."""

    def __init__(self, consumer: Any, *, is_member: bool) -> None:
        self._consumer = consumer
        self._is_member = is_member
        self._partition = kafka.TopicPartition(TOPIC, 0)

    def commit(self, offset: int, patience_s: float = PATIENCE_S) -> str:
        """See `Committer.commit`."""
        if self._is_member:
            self._consumer.poll(timeout_ms=0)
            while not self._consumer.assignment():
                self._consumer.poll(timeout_ms=1_000)
        try:
            self._consumer.commit(
                {self._partition: OffsetAndMetadata(offset, "", -1)}, timeout_ms=int(patience_s * 1_000)
            )
        except kafka.errors.KafkaError as error:
            return type(error).__name__
        return "ok"


class ConfluentKafka:
    """confluent-kafka's consumer. librdkafka tries a commit three times."""

    def __init__(self, consumer: Any, *, is_member: bool) -> None:
        self._consumer = consumer
        self._is_member = is_member

    def commit(self, offset: int, patience_s: float = PATIENCE_S) -> str:
        """See `Committer.commit`."""
        if self._is_member:
            self._consumer.poll(0)
            while not self._consumer.assignment():
                self._consumer.poll(1)
        wanted = [confluent_kafka.TopicPartition(TOPIC, 0, offset)]
        try:
            (answer,) = self._consumer.commit(offsets=wanted, asynchronous=False)
        except confluent_kafka.KafkaException as raised:
            return str(raised.args[0].name())
        return "ok" if answer.error is None else str(answer.error.name())


@contextmanager
def kafka_python(bootstrap_servers: str, group_id: str, *, is_member: bool) -> Iterator[Committer]:
    """A consumer of kafka-python, closed at the end."""
    log = logging.getLogger("kafka")
    level = log.level
    log.setLevel(logging.CRITICAL)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        group_id=group_id,
        enable_auto_commit=False,
        request_timeout_ms=_REQUEST_MS,
        fetch_max_wait_ms=100,
        session_timeout_ms=300 if not is_member else 30_000,
        heartbeat_interval_ms=100 if not is_member else 10_000,
        retry_backoff_ms=_PAUSE_MS,
        reconnect_backoff_ms=_PAUSE_MS,
        reconnect_backoff_max_ms=2 * _PAUSE_MS,
    )
    try:
        if is_member:
            consumer.subscribe([TOPIC])
        else:
            consumer.assign([kafka.TopicPartition(TOPIC, 0)])
        yield KafkaPython(consumer, is_member=is_member)
    finally:
        consumer.close(autocommit=False)
        log.setLevel(level)


@contextmanager
def confluent(bootstrap_servers: str, group_id: str, *, is_member: bool) -> Iterator[Committer]:
    """A consumer of confluent-kafka, closed at the end."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group_id,
            "enable.auto.commit": False,
            # A Fetch that waits holds up the lookup of the coordinator behind it. While that takes longer than the pauses,
            # librdkafka 2.16 drops each coordinator that it finds, for the commit that it tries again fails on the change.
            "fetch.wait.max.ms": 10,
            "socket.timeout.ms": _REQUEST_MS,
            "retry.backoff.ms": _PAUSE_MS,
            "retry.backoff.max.ms": 2 * _PAUSE_MS,
            "reconnect.backoff.ms": _PAUSE_MS,
            "reconnect.backoff.max.ms": 2 * _PAUSE_MS,
            "log_level": 0,
        }
    )
    try:
        if is_member:
            consumer.subscribe([TOPIC])
        else:
            consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0)])
        yield ConfluentKafka(consumer, is_member=is_member)
    finally:
        consumer.close()


CLIENTS = {"kafka-python": kafka_python, "confluent-kafka": confluent}
