"""Producers and transactions of kafka-python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import kafka
from kafka.structs import OffsetAndMetadata

from integration.clients.driver import Unsupported
from integration.clients.kafka_python.settings import encoded
from integration.clients.python_driver.background import Load
from integration.clients.python_driver.commands import CopyCounts, ProducerCommands

_ANSWER_TIMEOUT_S = 50
_MAX_COPY_RECORDS = 100
_POLL_MS = 200


class Producing(ProducerCommands):
    """Loads and transactional producers, and producers that are made for one command."""

    def produce(
        self,
        topic: str,
        records: Sequence[Mapping[str, Any]],
        compression: str | None = None,
        idempotent: bool | None = None,
    ) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        if compression is not None:
            settings["compression_type"] = None if compression == "none" else compression
        if idempotent is not None:
            settings["enable_idempotence"] = idempotent
        producer = kafka.KafkaProducer(acks="all", **self.connection, **settings)
        try:
            return _sent(producer, topic, records)
        finally:
            producer.close()

    def load_start(self, load: str, topic: str, rate: int, idempotent: bool | None = None) -> None:
        settings = {} if idempotent is None else {"enable_idempotence": idempotent}
        producer = kafka.KafkaProducer(acks="all", **self.connection, **settings)

        def send(number: int, done: Callable[[bool], None]) -> None:
            value = str(number).encode()
            future = producer.send(topic, key=value, value=value)
            future.add_callback(lambda metadata: done(True))
            future.add_errback(lambda error: done(False))

        def finish() -> None:
            producer.flush()
            producer.close()

        self._loads[load] = Load(send, finish, rate)

    def transactional_open(self, producer: str, transactional_id: str, timeout_ms: int | None = None) -> None:
        opened = self._open(transactional_id, timeout_ms)
        self._transactional[producer] = opened

    def transaction_begin(self, producer: str) -> None:
        self._transactional[producer].begin_transaction()

    def transaction_send(self, producer: str, topic: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return _sent(self._transactional[producer], topic, records)

    def transaction_offsets(self, producer: str, group: str, offsets: Iterable[Sequence[Any]]) -> None:
        theirs = {
            kafka.TopicPartition(topic, part): OffsetAndMetadata(offset, "", -1) for topic, part, offset in offsets
        }
        self._transactional[producer].send_offsets_to_transaction(theirs, group)

    def transaction_commit(self, producer: str) -> None:
        self._transactional[producer].commit_transaction()

    def transaction_abort(self, producer: str) -> None:
        self._transactional[producer].abort_transaction()

    def transactional_close(self, producer: str) -> None:
        self._transactional.pop(producer).close()

    def copy(
        self,
        source: str,
        target: str,
        group: str,
        transactional_id: str,
        count: int,
        timeout_ms: int,
        abort_every: int | None = None,
    ) -> dict[str, Any]:
        until = time.monotonic() + timeout_ms / 1000
        consumer = kafka.KafkaConsumer(
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=_MAX_COPY_RECORDS,
            **self.connection,
        )
        producer = self._open(transactional_id, None)
        counts = CopyCounts(count, abort_every)
        try:
            consumer.subscribe([source])
            while not counts.is_done and time.monotonic() < until:
                batches = consumer.poll(timeout_ms=_POLL_MS)
                if not batches:
                    continue
                records = [record for batch in batches.values() for record in batch]
                if _copied(consumer, producer, target, batches, records, is_doomed=counts.is_doomed):
                    counts.committed(len(records))
                else:
                    counts.aborted()
                    _rewind(consumer)
        finally:
            consumer.close(autocommit=False)
            producer.close()
        return counts.answer

    def _open(self, transactional_id: str, timeout_ms: int | None) -> Any:
        settings = {} if timeout_ms is None else {"transaction_timeout_ms": timeout_ms}
        producer = kafka.KafkaProducer(transactional_id=transactional_id, **self.connection, **settings)
        producer.init_transactions()
        return producer


def _copied(consumer: Any, producer: Any, target: str, batches: Any, records: Any, *, is_doomed: bool) -> bool:
    """One transaction; whether it was committed."""
    producer.begin_transaction()
    for record in records:
        producer.send(target, key=record.key, value=record.value + b"!")
    producer.flush()
    if is_doomed:
        producer.abort_transaction()
        return False
    offsets = {each: OffsetAndMetadata(batch[-1].offset + 1, "", -1) for each, batch in batches.items()}
    try:
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()
    except kafka.errors.KafkaError as error:
        if not getattr(error, "retriable", False) and type(error).__name__ not in _ABORTABLE:
            raise
        producer.abort_transaction()
        return False
    return True


_ABORTABLE = {"IllegalGenerationError", "UnknownMemberIdError", "RebalanceInProgressError", "CommitFailedError"}


def _rewind(consumer: Any) -> None:
    for each in consumer.assignment():
        committed = consumer.committed(each)
        if committed is None:
            consumer.seek_to_beginning(each)
        else:
            consumer.seek(each, committed)


def _sent(producer: Any, topic: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    futures = []
    for record in records:
        headers = record.get("headers")
        if any(value is None for _, value in headers or ()):
            raise Unsupported("kafka-python's send takes no header without a value")
        futures.append(
            producer.send(
                topic,
                value=encoded(record["value"]),
                key=encoded(record.get("key")),
                partition=record.get("partition"),
                timestamp_ms=record.get("timestamp"),
                headers=headers and [(name, value.encode()) for name, value in headers],
            )
        )
    producer.flush()
    answers = [future.get(timeout=_ANSWER_TIMEOUT_S) for future in futures]
    return {"placed": [[answer.partition, answer.offset] for answer in answers]}
