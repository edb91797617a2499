"""A consumer in a process of its own, which a test can stop as a long garbage collection does.

Usage: `python -m integration.clock.worker CLIENT BOOTSTRAP GROUP TOPIC NAME`. It runs until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from typing import NoReturn

SESSION_MS = 45_000
HEARTBEAT_MS = 100
"""So soon it learns of a rebalance, which is what a test waits for."""


def kafka_python(bootstrap: str, group_id: str, topic: str, name: str) -> NoReturn:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group_id,
        client_id=name,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    while True:
        consumer.poll(1_000)  # shorter polls lose joins: docs/kafka-python.md


def confluent_kafka(bootstrap: str, group_id: str, topic: str, name: str) -> NoReturn:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "client.id": name,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
    )
    consumer.subscribe([topic])
    while True:
        consumer.poll(0.1)


def aiokafka(bootstrap: str, group_id: str, topic: str, name: str) -> NoReturn:
    from aiokafka import AIOKafkaConsumer

    async def consume() -> NoReturn:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group_id,
            client_id=name,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        await consumer.start()
        while True:
            await consumer.getmany(timeout_ms=100)

    asyncio.run(consume())


CLIENTS = {"kafka-python": kafka_python, "confluent-kafka": confluent_kafka, "aiokafka": aiokafka}

if __name__ == "__main__":
    CLIENTS[sys.argv[1]](*sys.argv[2:])
