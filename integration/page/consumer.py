"""A consumer whose processing can be slow: `python -m integration.page.consumer BOOTSTRAP GROUP CLIENT_ID TOPIC`."""

from __future__ import annotations

import signal
import sys
import time

import kafka

SESSION_MS = 6_000
SLOW_S = 20
"""For so long it does not poll after SIGUSR1, and goes on sending heartbeats meanwhile."""


def main() -> None:
    """Consume until killed; SIGTERM closes it."""
    bootstrap, group, client_id, topic = sys.argv[1:]
    wanted: list[int] = []
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: wanted.append(number))
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=client_id,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        auto_commit_interval_ms=500,
        auto_offset_reset="earliest",
    )
    while signal.SIGTERM not in wanted:
        consumer.poll(timeout_ms=200)
        if signal.SIGUSR1 in wanted:
            wanted.remove(signal.SIGUSR1)
            time.sleep(SLOW_S)
    consumer.close()


if __name__ == "__main__":
    main()
