"""A kafka-python consumer that can be made to misbehave, in a process of its own.

    python -m integration.spark.member HOST:PORT GROUP TOPIC CLIENT_ID SLOW_S

It writes each new assignment to stdout as a line of JSON. SIGTERM: it leaves its group and ends. SIGUSR1: what it does
next with a record takes SLOW_S seconds.
"""

from __future__ import annotations

import json
import signal
import sys
import time

from kafka import KafkaConsumer

from integration.spark.timeouts import HEARTBEAT_MS, MAX_POLL_MS, SESSION_MS


class Asked:
    """What signals asked for."""

    def __init__(self) -> None:
        self.to_end = False
        self.to_be_slow = False
        signal.signal(signal.SIGTERM, self._note)
        signal.signal(signal.SIGUSR1, self._note)

    def _note(self, number: int, _: object) -> None:
        if number == signal.SIGTERM:
            self.to_end = True
        else:
            self.to_be_slow = True


def main(bootstrap: str, group_id: str, topic: str, client_id: str, slow_s: str) -> None:
    """Consume until SIGTERM."""
    asked = Asked()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group_id,
        client_id=client_id,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=MAX_POLL_MS,
    )
    written: list[list[object]] = []
    while not asked.to_end:
        consumer.poll(timeout_ms=1_000)  # shorter polls lose joins: docs/kafka-python.md
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
