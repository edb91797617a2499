"""A consumer whose processing can be slow: `python -m integration.page.consumer BOOTSTRAP GROUP CLIENT_ID TOPIC`."""

from __future__ import annotations

import signal
import sys
import time

import kafka

SESSION_MS = 6_000
SLOW_S = 20
"""For so long it does not poll after SIGUSR1, and goes on sending heartbeats meanwhile."""
WORKS_S = 5
"""When it has had its partitions for so long it says so on its output: it has committed often enough to tell what is usual."""


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
    assigned: set[kafka.TopicPartition] = set()
    assigned_s, has_worked = 0.0, False
    while signal.SIGTERM not in wanted:
        consumer.poll(timeout_ms=200)
        if consumer.assignment() != assigned:
            assigned, assigned_s = consumer.assignment(), time.monotonic()
        if assigned and not has_worked and time.monotonic() - assigned_s > WORKS_S:
            has_worked = True
            print("has worked", flush=True)
        if signal.SIGUSR1 in wanted:
            wanted.remove(signal.SIGUSR1)
            time.sleep(SLOW_S)
    consumer.close()


if __name__ == "__main__":
    main()
