"""A session of real clients on recorded brokers: members come, one leaves, one is killed, one reads in its own way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from kshim.testing import Kshim

RECORDS = 20


def record_a_session(path: Path) -> None:
    """Two kafka-python consumers share a topic; one is a process that is killed, and its session expires. A consumer and
    a transactional producer of librdkafka do the same beside them, and leave."""
    with Kshim(topics={"t": 4}, record=path) as kshim:
        kshim.produce("t", *[f"value {number}" for number in range(RECORDS)])
        group = kshim.group("g")
        doomed = subprocess.Popen(
            [sys.executable, "-m", "integration.kafka_python.doomed", kshim.bootstrap_servers, "g", "45000", "t"],
            stdout=subprocess.PIPE,
        )
        try:
            group.wait_stable(members=1, timeout=30)
            consumer = KafkaConsumer(
                "t",
                bootstrap_servers=kshim.bootstrap_servers,
                group_id="g",
                auto_offset_reset="earliest",
                heartbeat_interval_ms=200,
            )
            poll_until(consumer, lambda: len(consumer.assignment()) == 2)
            _librdkafka(kshim)
            consumer.commit()
        finally:
            doomed.kill()
            doomed.wait()
            assert doomed.stdout is not None
            doomed.stdout.close()
        while len(group.members) == 2:
            consumer.poll(600)  # heartbeats, so that its own session does not expire
            kshim.clock.advance(10)
        poll_until(consumer, lambda: len(consumer.assignment()) == 4)
        consumer.close()
        group.wait_empty()


def poll_until(consumer: Any, is_so: Callable[[], bool]) -> None:
    """Poll as an application does."""
    for _ in range(300):
        if is_so():
            return
        consumer.poll(100)
    raise AssertionError("it never came to that")


def _librdkafka(kshim: Kshim) -> None:
    servers = kshim.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "tx"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", b"in a transaction")
    producer.commit_transaction()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "other", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    seen = 0
    while seen < RECORDS + 1:
        message = consumer.poll(10)
        assert message is not None
        seen += message.error() is None
    consumer.close()


def record_a_short_session(path: Path) -> None:
    """A producer, and two consumers that come and leave, in real time: some seconds."""
    with Kshim(topics={"t": 4}, record=path) as kshim:
        servers = kshim.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        for number in range(RECORDS):
            producer.produce("t", f"value {number}".encode())
        producer.flush()
        consumers = []
        for count in (1, 2):
            consumers.append(
                KafkaConsumer(
                    "t",
                    bootstrap_servers=servers,
                    group_id="short",
                    auto_offset_reset="earliest",
                    heartbeat_interval_ms=300,
                )
            )
            for _ in range(300):
                for consumer in consumers:
                    consumer.poll(50)
                if all(len(consumer.assignment()) == 4 // count for consumer in consumers):
                    break
        for consumer in consumers:
            consumer.commit()
        for consumer in consumers:
            consumer.close()
        kshim.group("short").wait_empty()
