"""A real consumer (kafka-python) in a process of its own: `python -m kshim_pipeline.demo.consumer HOST:PORT GROUP TOPIC ID`."""

from __future__ import annotations

import sys


def main(bootstrap: str, group_id: str, topic: str, client_id: str) -> None:
    """Consume until killed; SIGTERM ends it without a word, as a crash does."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group_id,
        client_id=client_id,
        session_timeout_ms=3_000,
        heartbeat_interval_ms=500,
        auto_offset_reset="earliest",
    )
    while True:
        consumer.poll(timeout_ms=60_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
