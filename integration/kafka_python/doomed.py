"""A kafka-python consumer that runs until it is killed, writing each new assignment to stdout as a line of JSON.

Usage: `python -m integration.kafka_python.doomed BOOTSTRAP GROUP SESSION_TIMEOUT_MS TOPIC...`
"""

from __future__ import annotations

import json
import sys

from kafka import KafkaConsumer


def main(bootstrap: str, group_id: str, session_timeout_ms: str, *topics: str) -> None:
    """Poll for ever."""
    consumer = KafkaConsumer(
        *topics, bootstrap_servers=bootstrap, group_id=group_id, session_timeout_ms=int(session_timeout_ms)
    )
    written: list[list[object]] = []
    while True:
        consumer.poll(timeout_ms=1_000)
        assignment: list[list[object]] = sorted([tp.topic, tp.partition] for tp in consumer.assignment())
        if assignment != written:
            print(json.dumps(assignment), flush=True)
            written = assignment


if __name__ == "__main__":
    main(*sys.argv[1:])
