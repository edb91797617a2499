"""A real consumer (kafka-python) in a process of its own: `python -m kshim_pipeline.demo.consumer HOST:PORT GROUP TOPIC ID`."""

from __future__ import annotations

import signal
import sys


def main(bootstrap: str, group_id: str, topic: str, client_id: str) -> None:
    """Consume until killed; leave on SIGTERM."""
    from kafka import KafkaConsumer

    is_over = False

    def end(*_: object) -> None:
        nonlocal is_over
        is_over = True

    signal.signal(signal.SIGTERM, end)

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group_id,
        client_id=client_id,
        session_timeout_ms=3_000,
        heartbeat_interval_ms=500,
        auto_offset_reset="earliest",
    )
    while not is_over:
        consumer.poll(timeout_ms=1_000)  # shorter polls lose joins: docs/kafka-python.md
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
