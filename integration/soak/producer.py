"""A process of producers: `python -m integration.soak.producer BOOTSTRAP LEDGER RATE TOPIC...`.

RATE records a second go to each topic, half of them from an idempotent producer, half in transactions of a quarter of a
second, one in eight of which is aborted. LEDGER gets `error` lines, and `wrote TOPIC PARTITION OFFSET...` for what was
acknowledged and, in a transaction, committed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError

from integration.soak.member import ABORTED, Ledger, end_with_stdin

TURN_S = 0.25
ABORTED_EVERY = 8
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


class Acknowledged:
    """Offsets that one producer was told, until they are written down."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._offsets: dict[tuple[str, int], list[int]] = defaultdict(list)

    def __call__(self, error: Any, message: Any) -> None:
        """A delivery report."""
        if error is None:
            self._offsets[message.topic(), message.partition()].append(message.offset())
        elif error.code() not in _PURGED:
            self._ledger.line("error", "delivery", error.name(), error.str())

    def hold(self) -> None:
        """They count: to the ledger with them."""
        for (topic, partition), offsets in self._offsets.items():
            self._ledger.line("wrote", topic, partition, *offsets)
        self.forget()

    def forget(self) -> None:
        """They were aborted."""
        self._offsets.clear()


def main() -> None:
    """Run until stdin ends."""
    bootstrap, path, rate, *topics = sys.argv[1:]
    is_over = threading.Event()
    end_with_stdin(is_over)
    count = max(int(float(rate) * TURN_S / 2), 1)
    with open(path, "a") as file:
        ledger = Ledger(file)
        common: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "linger.ms": 10,
            "error_cb": lambda error: ledger.line("error", "producer", error.name(), error.str()),
        }
        plain = confluent_kafka.Producer({**common, "enable.idempotence": True, "compression.type": "lz4"})
        careful = confluent_kafka.Producer({**common, "transactional.id": "soak", "compression.type": "zstd"})
        plainly, carefully = Acknowledged(ledger), Acknowledged(ledger)
        careful.init_transactions()
        turn = 0
        begun_s = time.monotonic()
        while not is_over.wait(max(begun_s + turn * TURN_S - time.monotonic(), 0)):
            turn += 1
            is_kept = turn % ABORTED_EVERY != 0
            careful.begin_transaction()
            for topic in topics:
                for number in range(count):
                    value = b"%d-%d" % (turn, number) + b"." * 200
                    plain.produce(topic, value, key=b"%d" % number, on_delivery=plainly)
                    key = b"%d" % (number + turn)
                    careful.produce(topic, value if is_kept else ABORTED + value, key=key, on_delivery=carefully)
            plain.poll(0)
            plainly.hold()
            if is_kept:
                careful.commit_transaction()
                carefully.hold()
            else:
                careful.flush()
                careful.abort_transaction()
                carefully.forget()
        plain.flush()
        plainly.hold()


if __name__ == "__main__":
    main()
