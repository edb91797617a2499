"""Producers and transactions of aiokafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import aiokafka
from aiokafka.errors import KafkaError

from integration.clients.aiokafka.settings import encoded, wait
from integration.clients.python_driver.background import Load
from integration.clients.python_driver.commands import CopyCounts, ProducerCommands

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
        settings: dict[str, Any] = {"compression_type": None if compression == "none" else compression}
        if idempotent is not None:
            settings["enable_idempotence"] = idempotent

        async def produce() -> dict[str, Any]:
            producer = await self._producer(settings)
            try:
                return await _sent(producer, topic, records)
            finally:
                await producer.stop()

        return wait(produce())

    def load_start(self, load: str, topic: str, rate: int, idempotent: bool | None = None) -> None:
        producer = wait(self._producer({} if idempotent is None else {"enable_idempotence": idempotent}))

        async def send_one(number: int, done: Callable[[bool], None]) -> None:
            value = str(number).encode()
            future = await producer.send(topic, key=value, value=value)
            future.add_done_callback(lambda future: done(future.exception() is None))

        self._loads[load] = Load(lambda number, done: wait(send_one(number, done)), lambda: wait(producer.stop()), rate)

    def transactional_open(self, producer: str, transactional_id: str, timeout_ms: int | None = None) -> None:
        self._transactional[producer] = wait(self._open(transactional_id, timeout_ms))

    def transaction_begin(self, producer: str) -> None:
        wait(self._transactional[producer].begin_transaction())

    def transaction_send(self, producer: str, topic: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return wait(_sent(self._transactional[producer], topic, records))

    def transaction_offsets(self, producer: str, group: str, offsets: Iterable[Sequence[Any]]) -> None:
        theirs = {aiokafka.TopicPartition(topic, part): offset for topic, part, offset in offsets}
        wait(self._transactional[producer].send_offsets_to_transaction(theirs, group))

    def transaction_commit(self, producer: str) -> None:
        wait(self._transactional[producer].commit_transaction())

    def transaction_abort(self, producer: str) -> None:
        wait(self._transactional[producer].abort_transaction())

    def transactional_close(self, producer: str) -> None:
        wait(self._transactional.pop(producer).stop())

    def copy(self, **fields: Any) -> dict[str, Any]:
        return wait(self._copy(**fields))

    async def _copy(
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
        consumer = aiokafka.AIOKafkaConsumer(
            source,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=_MAX_COPY_RECORDS,
            **self.connection,
        )
        producer = await self._open(transactional_id, None)
        counts = CopyCounts(count, abort_every)
        await consumer.start()
        try:
            while not counts.is_done and time.monotonic() < until:
                batches = await consumer.getmany(timeout_ms=_POLL_MS)
                if not batches:
                    continue
                if await _copied(group, producer, target, batches, is_doomed=counts.is_doomed):
                    counts.committed(sum(map(len, batches.values())))
                else:
                    counts.aborted()
                    await _rewind(consumer)
        finally:
            await consumer.stop()
            await producer.stop()
        return counts.answer

    async def _producer(self, settings: Mapping[str, Any]) -> Any:
        producer = aiokafka.AIOKafkaProducer(acks="all", **self.connection, **settings)
        await producer.start()
        return producer

    async def _open(self, transactional_id: str, timeout_ms: int | None) -> Any:
        settings = {} if timeout_ms is None else {"transaction_timeout_ms": timeout_ms}
        producer = aiokafka.AIOKafkaProducer(transactional_id=transactional_id, **self.connection, **settings)
        await producer.start()
        return producer


async def _copied(group: str, producer: Any, target: str, batches: Any, *, is_doomed: bool) -> bool:
    """One transaction; whether it was committed. aiokafka's takes the group's id, no metadata."""
    await producer.begin_transaction()
    try:
        sent = [
            await producer.send(target, key=record.key, value=record.value + b"!")
            for batch in batches.values()
            for record in batch
        ]
        await asyncio.gather(*sent)
        if not is_doomed:
            offsets = {partition: batch[-1].offset + 1 for partition, batch in batches.items()}
            await producer.send_offsets_to_transaction(offsets, group)
            await producer.commit_transaction()
            return True
    except KafkaError as error:
        if not error.retriable:
            raise
    await producer.abort_transaction()
    return False


async def _rewind(consumer: Any) -> None:
    for each in consumer.assignment():
        committed = await consumer.committed(each)
        if committed is None:
            await consumer.seek_to_beginning(each)
        else:
            consumer.seek(each, committed)


async def _sent(producer: Any, topic: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    futures = [
        await producer.send(
            topic,
            value=encoded(record["value"]),
            key=encoded(record.get("key")),
            partition=record.get("partition"),
            timestamp_ms=record.get("timestamp"),
            headers=[(name, encoded(value)) for name, value in record.get("headers", ())],
        )
        for record in records
    ]
    answers = await asyncio.gather(*futures)
    return {"placed": [[answer.partition, answer.offset] for answer in answers]}
