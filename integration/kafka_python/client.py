"""kafka-python as the group suite drives it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kafka
from kafka.admin import NewTopic, OffsetSpec

from integration.support.client import Member, Record, TopicPartition

_POLL_TIMEOUT_MS = 1_000
_ROOT = Path(__file__).resolve().parents[2]


class KafkaPythonMember:
    """A `KafkaConsumer` that polls in a thread of its own until there are records.

    It must not come back from its own `poll` in the middle of a join: see FINDINGS.md, "A join that completes between
    two polls".
    """

    def __init__(self, consumer: Any) -> None:
        """Take over a consumer that has subscribed."""
        self._consumer = consumer
        self._thread = ThreadPoolExecutor(1)
        self._polling: Future[list[Record]] | None = None
        self._interrupted = threading.Event()

    def poll(self, timeout_s: float) -> list[Record]:
        """The records of one `poll` of the consumer, or nothing while that one still runs."""
        if self._polling is None:
            self._polling = self._thread.submit(self._poll_until_records)
        wait([self._polling], timeout_s)
        if not self._polling.done():
            return []
        polling, self._polling = self._polling, None
        return polling.result()

    def assignment(self) -> frozenset[TopicPartition]:
        """The consumer's own view."""
        return frozenset(TopicPartition(tp.topic, tp.partition) for tp in self._consumer.assignment())

    def commit(self) -> None:
        """A synchronous commit."""
        self._end_polling()
        self._consumer.commit()

    def close(self) -> None:
        """Close, which leaves the group."""
        self._end_polling()
        self._thread.shutdown()
        self._consumer.close()

    def _poll_until_records(self) -> list[Record]:
        while not self._interrupted.is_set():
            batches = self._consumer.poll(timeout_ms=_POLL_TIMEOUT_MS)
            if batches:
                return [
                    Record(record.topic, record.partition, record.offset, record.value.decode())
                    for records in batches.values()
                    for record in records
                ]
        return []

    def _end_polling(self) -> None:
        """End the `poll` under way; what it returned and nobody has seen counts as not consumed."""
        if self._polling is None:
            return
        self._interrupted.set()
        unseen = self._polling.result()
        self._interrupted.clear()
        self._polling = None
        for record in reversed(unseen):
            self._consumer.seek(kafka.TopicPartition(record.topic, record.partition), record.offset)


class DoomedKafkaPythonMember:
    """A `KafkaConsumer` in a child process (`doomed.py`), which writes its assignment to stdout."""

    def __init__(self, bootstrap: str, group_id: str, topics: list[str], session_timeout_ms: int) -> None:
        """Start it."""
        command = [sys.executable, "-m", "integration.kafka_python.doomed"]
        command += [bootstrap, group_id, str(session_timeout_ms), *topics]
        self._process = subprocess.Popen(command, bufsize=0, cwd=_ROOT, stdout=subprocess.PIPE)
        self._unread = b""
        self._assignment: frozenset[TopicPartition] = frozenset()

    def poll(self, timeout_s: float) -> list[Record]:
        """See whether its assignment has changed. Its records stay with it."""
        assert self._process.poll() is None, "the member's process has ended"
        assert self._process.stdout is not None
        if select.select([self._process.stdout], [], [], timeout_s)[0]:
            self._unread += os.read(self._process.stdout.fileno(), 65536)
            *lines, self._unread = self._unread.split(b"\n")
            if lines:
                self._assignment = frozenset(TopicPartition(topic, part) for topic, part in json.loads(lines[-1]))
        return []

    def assignment(self) -> frozenset[TopicPartition]:
        """What it last wrote."""
        return self._assignment

    def commit(self) -> None:
        """Not its part."""
        raise AssertionError("a doomed member commits nothing")

    def close(self) -> None:
        """As good as `crash`: nothing of it is to be left behind."""
        self.crash()

    def crash(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextmanager
def _admin(bootstrap: str) -> Iterator[Any]:
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield admin
    finally:
        admin.close()


class KafkaPython:
    """The client library kafka-python."""

    name = "kafka-python"

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        """Through the admin client, which waits for the answer."""
        with _admin(bootstrap) as admin:
            admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])

    def wait_for_leaders(self, bootstrap: str, topic: str, partitions: int) -> None:
        """By ListOffsets, which kafka-python repeats while a leader is not ready."""
        latest = {kafka.TopicPartition(topic, partition): OffsetSpec.LATEST for partition in range(partitions)}
        with _admin(bootstrap) as admin:
            admin.wait_for_topics([topic])
            admin.list_partition_offsets(latest)

    def topics(self, bootstrap: str) -> set[str]:
        """By a Metadata request for all topics."""
        with _admin(bootstrap) as admin:
            return set(admin.list_topics())

    def member_count(self, bootstrap: str, group_id: str) -> int:
        """By DescribeGroups."""
        with _admin(bootstrap) as admin:
            return len(admin.describe_groups([group_id])[group_id]["members"])

    def produce(self, bootstrap: str, topic: str, values: Iterable[str]) -> None:
        """Through one producer; each record's own answer is looked at."""
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
        try:
            sent = [producer.send(topic, key=value.encode(), value=value.encode()) for value in values]
            producer.flush()
            for future in sent:
                future.get(timeout=0)
        finally:
            producer.close()

    def join(
        self, bootstrap: str, group_id: str, topics: list[str], *, session_timeout_ms: int | None = None
    ) -> Member:
        """Subscribe by name."""
        settings = {} if session_timeout_ms is None else {"session_timeout_ms": session_timeout_ms}
        consumer = self._consumer(bootstrap, group_id, **settings)
        consumer.subscribe(topics=topics)
        return KafkaPythonMember(consumer)

    def join_pattern(self, bootstrap: str, group_id: str, pattern: str) -> Member:
        """Subscribe by regular expression."""
        consumer = self._consumer(bootstrap, group_id)
        consumer.subscribe(pattern=pattern)
        return KafkaPythonMember(consumer)

    def join_doomed(
        self, bootstrap: str, group_id: str, topics: list[str], *, session_timeout_ms: int
    ) -> DoomedKafkaPythonMember:
        """A consumer in a child process."""
        return DoomedKafkaPythonMember(bootstrap, group_id, topics, session_timeout_ms)

    @staticmethod
    def _consumer(bootstrap: str, group_id: str, **settings: Any) -> Any:
        return kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group_id, auto_offset_reset="earliest", **settings
        )
