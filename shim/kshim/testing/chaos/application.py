"""An application to play a profile onto: consumers of a group and a producer, by kafka-python, each in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

PARTITIONS: Final = 4
NAMES: Final = ("consumer-1", "consumer-2", "consumer-3")

_END_S: Final = 20
"""How long a client is given to end."""
_PACE_S: Final = 0.02
"""The rest between two records of the producer, of which there is always a next one, so that no consumer waits for long."""
_POLL_MS: Final = 1_000
"""kafka-python must not give up a poll in the middle of a rebalance: see docs/kafka-python.md, "Lost joins between short polls"."""
_ATTEMPT_MS: Final = 5_000
_QUICK: Final = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 100}


class Client(ABC):
    """What runs in a thread of its own between `start` and `stop`, and may be started again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Begin; returns at once."""
        self.stopping.clear()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it. Idempotent. Raises RuntimeError when it has failed before, or does not end."""
        self.stopping.set()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.join(_END_S)
        if thread.is_alive():
            raise RuntimeError(f"{self.name} did not end within {_END_S} s")
        failure, self._failure = self._failure, None
        if failure is not None:
            raise RuntimeError(f"{self.name} had ended with {failure!r}") from failure

    @abstractmethod
    def run(self) -> None:
        """What it does until `stopping` is set."""

    def _run(self) -> None:
        try:
            self.run()
        except BaseException as failure:
            self._failure = failure


class Consumer(Client):
    """A member of a group: it tells `processed` of each record, and commits what it has polled.

    `options` are those of KafkaConsumer, the address and the group included.
    """

    def __init__(
        self, name: str, topic: str, options: Mapping[str, Any], processed: Callable[[str, int, int], object]
    ) -> None:
        super().__init__(name)
        self.topic = topic
        self.processed = processed
        self.has_to_commit = False
        self._options = {
            **_QUICK,
            "client_id": name,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 100,
            "fetch_max_wait_ms": 50,
            **options,
        }
        self._running = threading.Event()
        self._resting = threading.Event()
        self._running.set()

    def pause(self) -> None:
        """Stop polling, as a process does that collects garbage; returns once it has stopped."""
        self._running.clear()
        self._resting.wait(_END_S)

    def resume(self) -> None:
        """Go on polling."""
        self._running.set()

    def stop(self) -> None:
        """End it, also while it is paused. Raises RuntimeError as `Client.stop`."""
        self.stopping.set()
        self._running.set()
        super().stop()

    def run(self) -> None:
        """Poll, process and commit."""
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(**self._options)
        try:
            self.subscribe(consumer)
            # Who leads the group assigns by the metadata that it has, which otherwise has no partition at first; it would then join
            # again as soon as it has the metadata.
            consumer.partitions_for_topic(self.topic)
            while not self.stopping.is_set():
                if not self._running.is_set():
                    self._resting.set()
                    self._running.wait()
                    self._resting.clear()
                else:
                    self.work(consumer)
        finally:
            self._resting.set()
            consumer.close(timeout_ms=_END_S * 1_000 // 2)
            self._resting.clear()

    def subscribe(self, consumer: Any) -> None:
        """Before the first poll."""
        consumer.subscribe([self.topic])

    def work(self, consumer: Any) -> None:
        """Poll once."""
        polled = consumer.poll(_POLL_MS)
        for records in polled.values():
            for record in records:
                self.processed(record.topic, record.partition, record.offset)
        self.has_to_commit |= bool(polled)
        if self.has_to_commit:
            self.commit(consumer)

    def commit(self, consumer: Any) -> None:
        """Commit what was polled; what is refused is tried again after the next poll."""
        from kafka.errors import KafkaError

        with suppress(KafkaError):
            consumer.commit(timeout_ms=_ATTEMPT_MS)
            self.has_to_commit = False


class Producer(Client):
    """Writes one record after the other, to each partition in turn, and tells `acknowledged` of those that are written."""

    def __init__(
        self, topic: str, partitions: int, options: Mapping[str, Any], acknowledged: Callable[[str, bytes], object]
    ) -> None:
        super().__init__(f"{topic}-producer")
        self._topic, self._partitions, self._acknowledged = topic, partitions, acknowledged
        self._options = {**_QUICK, "client_id": self.name, "acks": "all", **options}
        self._numbers = count()

    def run(self) -> None:
        """Produce; what was sent last is waited for."""
        from kafka import KafkaProducer

        producer = KafkaProducer(**self._options)
        try:
            while not self.stopping.wait(_PACE_S):
                number = next(self._numbers)
                value = f"record {number}".encode()
                sent = producer.send(self._topic, value, partition=number % self._partitions)
                sent.add_callback(self._on_acknowledged, value)
        finally:
            producer.close(timeout=_END_S / 2)

    def _on_acknowledged(self, value: bytes, _metadata: object) -> None:
        self._acknowledged(self._topic, value)


class Application:
    """Three consumers of a group, and a producer. `connection` has the options with which kafka-python connects.

    Raises RuntimeError without the extra `kshim[demo]`, which brings kafka-python.
    """

    def __init__(
        self,
        topic: str,
        group: str,
        connection: Mapping[str, Any],
        *,
        is_static: bool,
        processed: Callable[[str, int, int], object],
        acknowledged: Callable[[str, bytes], object],
    ) -> None:
        try:
            import kafka  # noqa: F401
        except ImportError as error:
            raise RuntimeError(
                "chaos without a group of yours needs the extra kshim[demo]: python -m pip install 'kshim[demo]'"
            ) from error
        self.topic = topic
        self.consumers: dict[str, Consumer] = {}
        for name in NAMES:
            options = {**connection, "group_id": group, **({"group_instance_id": name} if is_static else {})}
            self.consumers[name] = Consumer(name, topic, options, processed)
        self._clients: tuple[Client, ...] = (
            *self.consumers.values(),
            Producer(topic, PARTITIONS, connection, acknowledged),
        )

    def start(self) -> None:
        """Begin; returns at once."""
        for client in self._clients:
            client.start()

    def stop(self) -> None:
        """End all clients at once. Raises RuntimeError as `Client.stop`."""
        for client in self._clients:
            client.stopping.set()
        failures = []
        for client in self._clients:
            try:
                client.stop()
            except RuntimeError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
