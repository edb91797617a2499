"""A process of consumers: `python -m integration.soak.member BOOTSTRAP LEDGER SEED GROUP:TOPIC...`.

Each consumer polls in a thread of its own. Before it commits, what it has read goes to LEDGER, a line a range:
`read GROUP PARTITION FIRST NEXT`; so do `error` lines, with everything that librdkafka reports. Every few seconds one of
them closes and another joins in its place. It ends when its stdin does.
"""

from __future__ import annotations

import random
import sys
import threading
from typing import Any, TextIO

import confluent_kafka
from confluent_kafka import KafkaError

CHURN_S = (4.0, 12.0)
ABORTED = b"aborted"
"""What the value of a record begins with whose transaction is going to be aborted."""
EXPLAINED = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._NO_OFFSET,
        KafkaError._STATE,
        KafkaError._ASSIGNMENT_LOST,
    }
)
"""What a commit may be refused with while the group rebalances: the records are read again by whoever gets them."""


def end_with_stdin(is_over: threading.Event) -> None:
    """Set `is_over` once the parent has closed our stdin, or is gone."""

    def wait() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait, daemon=True).start()


class Ledger:
    """Lines for the parent, each written whole."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def line(self, *words: object) -> None:
        """Write one and hand it to the system, for this process may be killed."""
        with self._lock:
            print(*words, file=self._file, flush=True)


class Member:
    """One consumer, from joining to leaving."""

    def __init__(self, bootstrap: str, group: str, topic: str, ledger: Ledger) -> None:
        self.group = group
        self.topic = topic
        self._ledger = ledger
        self._is_leaving = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": f"soak-{group}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 1_000,
                "partition.assignment.strategy": "cooperative-sticky" if group.endswith("sticky") else "range",
                "error_cb": lambda error: ledger.line("error", "client", error.name(), error.str().replace("\n", " ")),
            }
        )
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Close, which leaves the group; returns when that is done."""
        self._is_leaving.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_leaving.is_set():
                messages = self._consumer.consume(500, 0.3)
                if messages:
                    self._digest(messages)
            self._consumer.close()
        except confluent_kafka.KafkaException as error:
            self._ledger.line("error", "thread", error.args[0].name(), error.args[0].str())
        except Exception as error:  # nothing may go unseen
            self._ledger.line("error", "thread", type(error).__name__, error)

    def _digest(self, messages: list[Any]) -> None:
        ranges: dict[int, tuple[int, int]] = {}
        for message in messages:
            if message.error() is not None:
                self._ledger.line("error", "message", message.error().name(), message.error().str())
                continue
            if message.value().startswith(ABORTED):
                self._ledger.line("error", "aborted", f"{message.topic()}-{message.partition()} {message.offset()}")
            first, following = ranges.get(message.partition(), (message.offset(), message.offset()))
            if message.offset() < following:
                self._ledger.line("error", "order", f"{message.partition()} {message.offset()} after {following}")
            ranges[message.partition()] = (first, message.offset() + 1)
        for partition, (first, following) in ranges.items():
            self._ledger.line("read", self.group, partition, first, following)
        try:
            self._consumer.commit(
                offsets=[
                    confluent_kafka.TopicPartition(self.topic, partition, following)
                    for partition, (_, following) in ranges.items()
                ],
                asynchronous=False,
            )
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() not in EXPLAINED:
                self._ledger.line("error", "commit", error.args[0].name(), error.args[0].str())


def main() -> None:
    """Run until stdin ends."""
    bootstrap, path, seed, *places = sys.argv[1:]
    chance = random.Random(int(seed))
    is_over = threading.Event()
    end_with_stdin(is_over)
    with open(path, "a") as file:
        ledger = Ledger(file)
        homes = [place.split(":") for place in places]
        members = [Member(bootstrap, group, topic, ledger) for group, topic in homes]
        while not is_over.wait(chance.uniform(*CHURN_S)):
            index = chance.randrange(len(members))
            old = members[index]
            old.leave()
            members[index] = Member(bootstrap, old.group, old.topic, ledger)
            ledger.line("churn", old.group)
        for member in members:
            member.leave()


if __name__ == "__main__":
    main()
