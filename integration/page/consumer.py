"""A consumer whose processing can be slow: `python -m integration.page.consumer BOOTSTRAP GROUP CLIENT_ID TOPIC`."""

from __future__ import annotations

import signal
import sys
import threading
import time

import kafka

SESSION_MS = 6_000
SLOW_S = 20
"""For so long it does not poll after SIGUSR1, and goes on sending heartbeats meanwhile."""
WORKS_S = 5
"""So long after it got its partitions it says so on its output: it has committed often enough to tell what is usual."""
POLL_MS = 600_000
"""kafka-python 3.0 loses a join that ends between two polls, and is then a member no more: all of a test is one poll."""


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Says once that it has worked."""

    def __init__(self) -> None:
        self._is_started = False

    def on_partitions_revoked(self, revoked: object) -> None:
        """Nothing to do."""

    def on_partitions_assigned(self, assigned: object) -> None:
        """The first time starts the clock."""
        if not self._is_started:
            self._is_started = True
            timer = threading.Timer(WORKS_S, lambda: print("has worked", flush=True))
            timer.daemon = True
            timer.start()


def main() -> None:
    """Consume until killed."""
    bootstrap, group, client_id, topic = sys.argv[1:]
    # Python runs the handler in the thread that polls, which therefore does nothing else meanwhile.
    signal.signal(signal.SIGUSR1, lambda _number, _frame: time.sleep(SLOW_S))
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=client_id,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        auto_commit_interval_ms=500,
        auto_offset_reset="earliest",
    )
    consumer.subscribe([topic], listener=_Listener())
    while True:
        consumer.poll(timeout_ms=POLL_MS)


if __name__ == "__main__":
    main()
