"""Producers and transactions of confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from integration.clients.confluent_kafka.settings import encoded
from integration.clients.python_driver.background import Load
from integration.clients.python_driver.commands import CopyCounts, ProducerCommands

_TIMEOUT_S = 50
_MAX_COPY_RECORDS = 100
_POLL_S = 0.2


class Producing(ProducerCommands):
    """Loads and transactional producers, and producers that are made for one command."""

    group_settings: Mapping[str, str]

    def produce(
        self,
        topic: str,
        records: Sequence[Mapping[str, Any]],
        compression: str | None = None,
        idempotent: bool | None = None,
    ) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        if compression is not None:
            settings["compression.type"] = compression
        if idempotent is not None:
            settings["enable.idempotence"] = idempotent
        return _sent(confluent_kafka.Producer({**self.connection, **settings}), topic, records)

    def load_start(self, load: str, topic: str, rate: int, idempotent: bool | None = None) -> None:
        settings = {} if idempotent is None else {"enable.idempotence": idempotent}
        producer = confluent_kafka.Producer({**self.connection, **settings})

        def send(number: int, done: Callable[[bool], None]) -> None:
            value = str(number).encode()
            producer.produce(topic, value, value, on_delivery=lambda error, _: done(error is None))
            producer.poll(0)

        self._loads[load] = Load(send, lambda: _flush(producer), rate)

    def transactional_open(self, producer: str, transactional_id: str, timeout_ms: int | None = None) -> None:
        self._transactional[producer] = self._open(transactional_id, timeout_ms)

    def transaction_begin(self, producer: str) -> None:
        self._transactional[producer].begin_transaction()

    def transaction_send(self, producer: str, topic: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return _sent(self._transactional[producer], topic, records)

    def transaction_offsets(self, producer: str, group: str, offsets: Iterable[Sequence[Any]]) -> None:
        # The metadata of a consumer that never joined: the group's id alone.
        consumer = confluent_kafka.Consumer({**self.connection, "group.id": group})
        try:
            self._transactional[producer].send_offsets_to_transaction(
                [TopicPartition(*each) for each in offsets], consumer.consumer_group_metadata(), _TIMEOUT_S
            )
        finally:
            consumer.close()

    def transaction_commit(self, producer: str) -> None:
        self._transactional[producer].commit_transaction(_TIMEOUT_S)

    def transaction_abort(self, producer: str) -> None:
        self._transactional[producer].abort_transaction(_TIMEOUT_S)

    def transactional_close(self, producer: str) -> None:
        del self._transactional[producer]

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
        consumer = confluent_kafka.Consumer(
            {
                **self.connection,
                **self.group_settings,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        producer = self._open(transactional_id, None)
        counts = CopyCounts(count, abort_every)
        try:
            consumer.subscribe([source])
            while not counts.is_done and time.monotonic() < until:
                messages = [each for each in consumer.consume(_MAX_COPY_RECORDS, _POLL_S) if each.error() is None]
                if not messages:
                    continue
                if _copied(consumer, producer, target, messages, is_doomed=counts.is_doomed):
                    counts.committed(len(messages))
                else:
                    counts.aborted()
                    _rewind(consumer)
        finally:
            consumer.close()
        return counts.answer

    def _open(self, transactional_id: str, timeout_ms: int | None) -> Any:
        settings: dict[str, Any] = {"transactional.id": transactional_id}
        if timeout_ms is not None:
            settings["transaction.timeout.ms"] = timeout_ms
        producer = confluent_kafka.Producer({**self.connection, **settings})
        producer.init_transactions(_TIMEOUT_S)
        return producer


def _copied(consumer: Any, producer: Any, target: str, messages: Sequence[Any], *, is_doomed: bool) -> bool:
    """One transaction; whether it was committed."""
    producer.begin_transaction()
    try:
        for message in messages:
            producer.produce(target, message.value() + b"!", message.key())
        if is_doomed:
            producer.flush(_TIMEOUT_S)
            producer.abort_transaction(_TIMEOUT_S)
            return False
        behind = {(message.topic(), message.partition()): message.offset() + 1 for message in messages}
        offsets = [TopicPartition(*partition, offset) for partition, offset in behind.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), _TIMEOUT_S)
        producer.commit_transaction(_TIMEOUT_S)
    except confluent_kafka.KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        producer.abort_transaction(_TIMEOUT_S)
        return False
    return True


def _rewind(consumer: Any) -> None:
    for each in consumer.committed(consumer.assignment(), _TIMEOUT_S):
        offset = each.offset if each.offset >= 0 else OFFSET_BEGINNING
        consumer.seek(TopicPartition(each.topic, each.partition, offset))


def _flush(producer: Any) -> None:
    assert producer.flush(2 * _TIMEOUT_S) == 0, "still under way"


def _sent(producer: Any, topic: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    answers: dict[int, Any] = {}
    for number, record in enumerate(records):
        more = {name: record[name] for name in ("partition", "timestamp") if name in record}
        headers = [(name, encoded(value)) for name, value in record.get("headers", ())]

        def done(error: Any, message: Any, number: int = number) -> None:
            answers[number] = error or [message.partition(), message.offset()]

        producer.produce(
            topic, encoded(record["value"]), encoded(record.get("key")), on_delivery=done, headers=headers, **more
        )
    _flush(producer)
    for answer in answers.values():
        if isinstance(answer, confluent_kafka.KafkaError):
            raise confluent_kafka.KafkaException(answer)
    return {"placed": [answers[number] for number in range(len(records))]}
