"""What fetch sessions (KIP-227) are worth: CPU of broker and client for one consumer of many partitions.

    python -m bench.fetch_sessions [--rounds 3] [--partitions 100] [--seconds 5] [--rate 300]

Two brokers take turns, one with sessions and one without (`max.incremental.fetch.session.cache.slots=0`). A consumer of
all partitions of a topic, kafka-python's in a process of its own or Java's on a JVM, first has nothing to read, then
RATE records a second, each to the next partition. Printed: median [lowest-highest] of the rounds of CPU milliseconds a
second, of the broker's process and of the client's, with the kernel's part.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration.support.jvm import Jvm
from integration.support.kshim import KshimProcess
from integration.support.unavailable import Unavailable
from kshim.tools.client import Client
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record

TOPIC = "t"
WARM_UP_S = 3.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PYTHON_CLIENT = """
import sys
from kafka import KafkaConsumer, TopicPartition
consumer = KafkaConsumer(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest", enable_auto_commit=False)
consumer.assign([TopicPartition(sys.argv[2], i) for i in range(int(sys.argv[3]))])
print("ready", flush=True)
while True:
    consumer.poll(timeout_ms=200)
"""


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def python_consumer(bootstrap: str, partitions: int) -> Iterator[int]:
    """A kafka-python consumer; its process id."""
    command = [sys.executable, "-c", _PYTHON_CLIENT, bootstrap, TOPIC, str(partitions)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield child.pid
        finally:
            child.kill()


@contextmanager
def java_consumer(bootstrap: str, partitions: int) -> Iterator[int]:
    """A consumer of Apache Kafka's client on a JVM, polled by a thread of it; the JVM's process id."""
    jvm = Jvm("-Xmx256m", "-XX:TieredStopAtLevel=1")
    try:
        kafka = jvm.classes.org.apache.kafka
        deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        consumer = kafka.clients.consumer.KafkaConsumer(
            {
                "bootstrap.servers": bootstrap,
                "auto.offset.reset": "earliest",
                "key.deserializer": deserializer,
                "value.deserializer": deserializer,
            }
        )
        consumer.assign([kafka.common.TopicPartition(TOPIC, index) for index in range(partitions)])
        jvm_poll(jvm, consumer, 0.2)
        polling = Polling(jvm, consumer)
        try:
            yield jvm.process.pid
        finally:
            polling.stop()
    finally:
        jvm.kill()


def jvm_poll(jvm: Jvm, consumer: Any, timeout_s: float) -> None:
    consumer.poll(jvm.classes.java.time.Duration.ofMillis(int(timeout_s * 1000)))


class Polling:
    """Polls a Java consumer, five times a second at least, until stopped."""

    def __init__(self, jvm: Jvm, consumer: Any) -> None:
        import threading

        self._stopping = False
        self._thread = threading.Thread(target=self._run, args=(jvm, consumer), daemon=True)
        self._thread.start()

    def _run(self, jvm: Jvm, consumer: Any) -> None:
        while not self._stopping:
            jvm_poll(jvm, consumer, 0.2)

    def stop(self) -> None:
        self._stopping = True
        self._thread.join()


def write(client: Client, partitions: int, rate: int, seconds: float) -> None:
    """Records at a steady rate, one a request."""
    batch = build_batch([Record(b"k", b"v" * 100, timestamp_ms=int(time.time() * 1000))])
    begun_s = time.monotonic()
    for index in range(int(rate * seconds)):
        data = (PartitionProduceData(index=index % partitions, records=batch),)
        topics = (TopicProduceData(name=TOPIC, partition_data=data),)
        client.ask(ProduceRequest(transactional_id=None, acks=1, timeout_ms=10_000, topic_data=topics), 12)
        time.sleep(max(0.0, begun_s + (index + 1) / rate - time.monotonic()))


def measured(kind: str, slots: int, options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """CPU ms a second of broker and client, idle and busy."""
    config = {"max.incremental.fetch.session.cache.slots": str(slots)}
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        broker = KshimProcess(Path(directory) / "kshim", config=config, topics={TOPIC: options.partitions})
        broker.start()
        try:
            host, _, port = broker.bootstrap.rpartition(":")
            writer = Client(host, int(port), client_id="writer")
            with (python_consumer if kind == "kafka-python" else java_consumer)(
                broker.bootstrap, options.partitions
            ) as pid:
                write(writer, options.partitions, options.rate, WARM_UP_S)
                for phase in ("idle", "busy"):
                    before, begun_s = (cpu_s(broker.pid), cpu_s(pid)), time.monotonic()
                    if phase == "idle":
                        time.sleep(options.seconds)
                    else:
                        write(writer, options.partitions, options.rate, options.seconds)
                    took_s = time.monotonic() - begun_s
                    found[phase] = tuple(
                        1000 * (after - used) / took_s
                        for after, used in zip((cpu_s(broker.pid), cpu_s(pid)), before, strict=True)
                    )
            writer.close()
        finally:
            broker.stop()
    return found  # type: ignore[return-value]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=int, default=300)
    options = parser.parse_args()
    for kind in ("kafka-python", "java"):
        rounds: dict[int, list[dict[str, tuple[float, float]]]] = {1000: [], 0: []}
        try:
            for _ in range(options.rounds):
                for slots, found in rounds.items():
                    found.append(measured(kind, slots, options))
        except Unavailable as missing:
            print(f"{kind}: {missing}")
            continue
        for phase in ("idle", "busy"):
            for slots, found in rounds.items():
                columns = []
                for index in (0, 1):
                    values = [each[phase][index] for each in found]
                    columns.append(f"{statistics.median(values):7.1f} [{min(values):.1f}-{max(values):.1f}]")
                name = f"{kind}, {phase}, {'sessions' if slots else 'no sessions'}"
                print(f"{name:36}broker {columns[0]:22} client {columns[1]}", flush=True)


if __name__ == "__main__":
    main()
