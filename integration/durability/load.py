"""Clients at work, each in a thread of its own; they are told nothing of the broker's deaths."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import kafka
from kafka.errors import KafkaError as ClientError

from integration.durability.ledger import Ledger
from integration.support.client import TopicPartition
from kshim.tools.client import BrokerGone, Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

LIVE_GROUP = "live"
TOPIC = "orders"
ELSEWHERE = "elsewhere"
"""What the simple groups commit for: twenty partitions, in which there is nothing."""
COMMIT_VERSION = 8
_BREATH_S = 0.005
"""All clients and the checks share one interpreter: without it they would wait for each other, not for the broker."""


class Load:
    """A producer, consumers in one group, and committers that send as fast as they are answered."""

    def __init__(self, bootstrap: str, ledger: Ledger, *, members: int = 2, committers: int = 2) -> None:
        self.consumed = 0
        self._bootstrap = bootstrap
        self._ledger = ledger
        self._is_over = threading.Event()
        self._is_produced = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [self._thread(self._produce)]
        self._threads += [self._thread(self._consume) for _ in range(members)]
        self._threads += [self._thread(self._commit, f"simple-{number}") for number in range(committers)]

    def start(self) -> None:
        """Let everybody begin."""
        for thread in self._threads:
            thread.start()

    def stop_producing(self) -> None:
        """No new records; the consumers go on."""
        self._is_produced.set()

    def stop(self) -> None:
        """End all threads; raises what one of them failed with."""
        self._is_produced.set()
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), f"{thread.name} does not end"
        if self._failures:
            raise self._failures[0]

    def _thread(self, work: Callable[..., None], *arguments: str) -> threading.Thread:
        def run() -> None:
            try:
                work(*arguments)
            except BaseException as error:
                self._failures.append(error)

        return threading.Thread(target=run, name=f"{work.__name__}{arguments}", daemon=True)

    def _produce(self) -> None:
        producer = kafka.KafkaProducer(bootstrap_servers=self._bootstrap, acks="all", linger_ms=5, retries=1_000)
        number = 0
        while not self._is_produced.is_set():
            futures = []
            for _ in range(20):
                value = b"%d" % number
                number += 1
                futures.append((value, producer.send(TOPIC, value, key=value)))
            for value, future in futures:
                try:
                    written = future.get(timeout=60)
                except ClientError:
                    continue  # not acknowledged: nothing was promised
                self._ledger.produced(TopicPartition(TOPIC, written.partition), written.offset, value)
            time.sleep(_BREATH_S)
        producer.close()

    def _consume(self) -> None:
        consumer = kafka.KafkaConsumer(
            TOPIC,
            bootstrap_servers=self._bootstrap,
            group_id=LIVE_GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        while not self._is_over.is_set():
            try:  # kafka-python lets a refused connection out of poll now and then
                batches = consumer.poll(timeout_ms=1_000)  # shorter polls lose joins: docs/kafka-python.md
                if not batches:
                    continue
                offsets = {partition: records[-1].offset + 1 for partition, records in batches.items()}
                consumer.commit({tp: kafka.OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()})
            except ClientError:
                continue  # a rebalance, or the broker is away for long: the records come again
            self._ledger.committed(
                LIVE_GROUP, {TopicPartition(tp.topic, tp.partition): offset for tp, offset in offsets.items()}
            )
            self.consumed += sum(map(len, batches.values()))
        consumer.close()

    def _commit(self, group_id: str) -> None:
        """A group without members: ever growing offsets of twenty partitions."""
        host, _, port = self._bootstrap.rpartition(":")
        client: Client | None = None
        offset = 0
        while not self._is_over.is_set():
            offset += 1
            partitions = tuple(
                OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
                for index in range(20)
            )
            request = OffsetCommitRequest(
                group_id=group_id,
                member_id="",
                topics=(OffsetCommitRequestTopic(name=ELSEWHERE, partitions=partitions),),
            )
            try:
                client = client or Client(host, int(port), client_id=group_id)
                response: Any = client.ask(request, COMMIT_VERSION)
            except (BrokerGone, TimeoutError):
                if client is not None:
                    client.close()
                client = None
                time.sleep(0.01)
                continue
            done = {
                TopicPartition(ELSEWHERE, row.partition_index): offset
                for topic in response.topics
                for row in topic.partitions
                if row.error_code == ErrorCode.NONE
            }
            self._ledger.committed(group_id, done)
            time.sleep(_BREATH_S)
        if client is not None:
            client.close()
