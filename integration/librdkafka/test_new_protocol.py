"""Consumers of librdkafka with `group.protocol=consumer` (KIP-848)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka
import pytest

from integration.support.kshim import KshimProcess

COUNT = 6
SESSION_MS = 6_000
CONFIG = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
ALL = list(range(COUNT))


class Group:
    """Consumers of one group that are polled together."""

    def __init__(self, bootstrap: str, closing: ExitStack) -> None:
        self._bootstrap = bootstrap
        self._closing = closing
        self._polled: list[confluent_kafka.Consumer] = []
        self.values: list[bytes] = []

    def produce(self, count: int) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self._bootstrap})
        for number in range(count):
            producer.produce("orders", str(number), partition=number % COUNT)
        assert producer.flush(60) == 0

    def consumer(self, **settings: str) -> confluent_kafka.Consumer:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                **settings,
            }
        )
        consumer.subscribe(["orders"])
        self._closing.callback(consumer.close)
        self._polled.append(consumer)
        return consumer

    def close(self, consumer: confluent_kafka.Consumer) -> None:
        self._polled.remove(consumer)
        consumer.close()

    def poll_until(self, is_reached: Callable[[], bool], timeout_s: float = 120) -> None:
        end = time.monotonic() + timeout_s
        while not is_reached():
            assert time.monotonic() < end, [partitions(consumer) for consumer in self._polled]
            for consumer in self._polled:
                message = consumer.poll(0.1)
                if message is not None:
                    assert message.error() is None, message.error()
                    self.values.append(message.value() or b"")


def partitions(consumer: confluent_kafka.Consumer) -> list[int]:
    return sorted(each.partition for each in consumer.assignment())


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    process = KshimProcess(tmp_path, topics={"orders": COUNT}, config=CONFIG)
    process.start()
    with ExitStack() as closing:
        closing.callback(process.stop)
        yield Group(process.bootstrap, closing)


def test_members_share_partitions_and_give_them_back_when_they_leave(group: Group) -> None:
    group.produce(60)
    first = group.consumer()
    group.poll_until(lambda: len(group.values) == 60)
    first.commit(asynchronous=False)
    second = group.consumer()
    group.poll_until(lambda: len(partitions(first)) == len(partitions(second)) == COUNT // 2)
    assert sorted(partitions(first) + partitions(second)) == ALL
    group.close(second)
    group.poll_until(lambda: partitions(first) == ALL)
    assert len(group.values) == 60  # nothing was read twice


def test_a_static_member_gets_its_partitions_back_and_loses_them_when_its_session_is_over(group: Group) -> None:
    first = group.consumer()
    static = group.consumer(**{"group.instance.id": "i"})
    group.poll_until(lambda: len(partitions(first)) == len(partitions(static)) == COUNT // 2)
    had = partitions(static)
    group.close(static)
    back = group.consumer(**{"group.instance.id": "i"})
    group.poll_until(lambda: partitions(back) == had)
    group.close(back)
    group.poll_until(lambda: partitions(first) == ALL)


def test_the_assignor_range_is_served(group: Group) -> None:
    first = group.consumer(**{"group.remote.assignor": "range"})
    second = group.consumer(**{"group.remote.assignor": "range"})
    group.poll_until(lambda: sorted(map(partitions, (first, second))) == [[0, 1, 2], [3, 4, 5]])
