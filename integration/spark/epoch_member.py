"""A consumer of librdkafka with either protocol, in a process of its own.

    python -m integration.spark.epoch_member HOST:PORT GROUP TOPIC CLIENT_ID SLOW_S PROTOCOL

It writes each new assignment to stdout as a line of JSON. SIGTERM: it leaves its group and ends. SIGUSR1: it does not poll
for SLOW_S seconds, and so gives up nothing.
"""

from __future__ import annotations

import json
import sys
import time

import confluent_kafka

from integration.spark.member import Asked
from integration.spark.timeouts import HEARTBEAT_MS, SESSION_MS


def main(bootstrap: str, group_id: str, topic: str, client_id: str, slow_s: str, protocol: str) -> None:
    """Consume until SIGTERM."""
    asked = Asked()
    settings: dict[str, str | int | float | bool | None] = {
        "bootstrap.servers": bootstrap,
        "group.id": group_id,
        "client.id": client_id,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
        "topic.metadata.refresh.interval.ms": 1_000,
    }
    if protocol == "classic":
        settings |= {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": "range",
        }
    consumer = confluent_kafka.Consumer(settings)
    # With callbacks, what it is to give up waits for a poll, as in an application that commits first.
    consumer.subscribe([topic], on_assign=lambda *_: None, on_revoke=lambda *_: None)
    written: list[list[object]] = []
    while not asked.to_end:
        consumer.poll(0.1)
        if asked.to_be_slow:
            asked.to_be_slow = False
            time.sleep(float(slow_s))
        assignment: list[list[object]] = sorted([place.topic, place.partition] for place in consumer.assignment())
        if assignment != written:
            print(json.dumps(assignment), flush=True)
            written = assignment
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
