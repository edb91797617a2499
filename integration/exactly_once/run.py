"""Copy jobs that consume, transform and produce in transactions, killed again and again: is each record there once?

    python -m integration.exactly_once.run --kills 50 --broker-kills 20 [--clients java,librdkafka] [--seed N]
        [--fsync POLICY] [--broker kafka] [--level N]

The Java client is one of transaction.version 2 where the broker is, librdkafka is always one of version 0. `--level 0` lets
both be of that. Two instances of the job a client, each with its transactional id; a producer that goes on all the while. At random
moments an instance is killed (SIGKILL) and started again, and so is the broker. In the end every value stands in each
copy exactly once, in the order of its partition, for readers of committed records, and the offsets of the groups are at
the end of the source.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from integration.exactly_once.copy_job import PREFIX
from integration.support.broker import Broker, Deadline
from integration.support.jars import KAFKA
from integration.support.java_program import java_program
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess

HERE = Path(__file__).parent
SOURCE = "source"
PARTITIONS = 4
INSTANCES = 2
RATE = 200
"""Records a second."""
PAUSE_S = (0.2, 2.5)
"""Between one kill and the next."""
END_S = 120
"""For the jobs to come to the end once nothing is killed any more: a dead transaction lives for ten seconds."""


def copy_command(client: str) -> list[str]:
    """How an instance is started, without its arguments. Raises as `java_program` does."""
    if client == "java":
        return java_program("CopyJob", [HERE / "CopyJob.java"], KAFKA, "-Xmx128m")
    return [sys.executable, "-m", "integration.exactly_once.copy_job"]


class Instance:
    """One process of the job, started again whenever it has ended."""

    def __init__(self, client: str, number: int, bootstrap: str, directory: Path) -> None:
        self._command = [*copy_command(client), bootstrap, SOURCE, f"copy-{client}", f"job-{client}"]
        self._command.append(f"{client}-{number}")
        self.log = directory / f"{client}-{number}.log"
        self.gave_up = 0
        self._process: subprocess.Popen[bytes] | None = None

    def keep_running(self) -> None:
        """Start it unless it runs."""
        if self._process is not None and self._process.poll() is not None:
            self.gave_up += 1
            self._process = None
        if self._process is None:
            with self.log.open("ab") as file:
                self._process = subprocess.Popen(self._command, stdout=file, stderr=file, stdin=subprocess.DEVNULL)

    def tail(self) -> str:
        """The end of what it wrote."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join([f"-- {self.log.name}:", *lines[-12:]])

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Writer:
    """Writes numbered values to the source, idempotently, in a thread, until told to stop."""

    def __init__(self, bootstrap: str) -> None:
        self.written: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        """By partition, in the order of their offsets, which is that in which they were acknowledged."""
        self._is_over = threading.Event()
        self._bootstrap = bootstrap
        self._failures: list[object] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when all is acknowledged."""
        self._is_over.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "the source's producer does not end"
        assert not self._failures, self._failures

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "log_level": 0,
                "linger.ms": 5,
            }
        )

        def delivered(error: object, message: object) -> None:
            if error is not None:
                self._failures.append(error)

        number = 0
        begun_s = time.monotonic()
        while not self._is_over.is_set():
            partition, value = number % PARTITIONS, b"%d" % number
            self.written[partition].append(value)
            producer.produce(SOURCE, value, partition=partition, on_delivery=delivered)
            producer.poll(0)
            number += 1
            time.sleep(max(begun_s + number / RATE - time.monotonic(), 0))
        producer.flush()


class Ended(NamedTuple):
    """How one copy stands."""

    values: list[list[bytes]]
    """By partition."""
    committed: int
    """The sum of the group's offsets in the source."""


def read_copy(bootstrap: str, client: str) -> Ended:
    """Everything that is committed in one copy, and how far its group says it is."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"job-{client}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for partition in range(PARTITIONS):
        reader.assign([TopicPartition(f"copy-{client}", partition, 0)])
        while True:
            message = reader.poll(10)
            assert message is not None, f"copy-{client}-{partition} is not read to its end"
            error = message.error()
            if error is None:
                values[partition].append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                break
    places = [TopicPartition(SOURCE, partition) for partition in range(PARTITIONS)]
    committed = sum(max(place.offset, 0) for place in reader.committed(places, timeout=30))
    reader.close()
    return Ended(values, committed)


def faults(written: list[list[bytes]], copied: list[list[bytes]]) -> list[str]:
    """What is wrong with a copy; empty: each value once, in order."""
    found = []
    for partition, (want, have) in enumerate(zip(written, copied, strict=True)):
        values = [value.removeprefix(PREFIX) for value in have]
        doubled = [value for value, count in Counter(values).items() if count > 1]
        missing = set(want) - set(values)
        if doubled:
            found.append(f"partition {partition}: {len(doubled)} doubled, e.g. {doubled[:3]}")
        if missing:
            found.append(f"partition {partition}: {len(missing)} missing, e.g. {sorted(missing)[:3]}")
        if not doubled and not missing and values != want:
            found.append(f"partition {partition}: out of order, or not of the source")
    return found


def create_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Make them, and wait until they are there."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        made.result(30)


def kill_repeatedly(
    broker: Broker, directory: Path, clients: Sequence[str], kills: int, broker_kills: int, seed: int
) -> str:
    """Returns a sentence with what happened. Raises AssertionError when a copy is not the source."""
    chance = random.Random(seed)
    broker.start()
    create_topics(broker.bootstrap, [SOURCE, *(f"copy-{client}" for client in clients)])
    writer = Writer(broker.bootstrap)
    instances = [
        Instance(client, number, broker.bootstrap, directory) for client in clients for number in range(INSTANCES)
    ]
    victims: list[Instance | None] = [*(chance.choice(instances) for _ in range(kills)), *[None] * broker_kills]
    chance.shuffle(victims)
    try:
        for victim in victims:
            for instance in instances:
                instance.keep_running()
            time.sleep(chance.uniform(*PAUSE_S))  # the moment of the kill is what this is about
            if victim is None:
                broker.kill()
                broker.start()
            else:
                victim.kill()
        writer.stop()
        total = sum(map(len, writer.written))
        deadline = Deadline(END_S)
        while any(read_copy(broker.bootstrap, client).committed < total for client in clients):
            deadline.check(f"the jobs copy all of {total}")
            for instance in instances:
                instance.keep_running()
            time.sleep(1)
        ends = {client: read_copy(broker.bootstrap, client) for client in clients}
    except AssertionError:
        print("\n".join(instance.tail() for instance in instances), file=sys.stderr)
        raise
    finally:
        for instance in instances:
            instance.kill()
        broker.stop()
    wrong = [f"{client}, {fault}" for client, end in ends.items() for fault in faults(writer.written, end.values)]
    assert not wrong, "\n".join(wrong)
    gave_up = sum(instance.gave_up for instance in instances)
    return (
        f"{kills} jobs killed, and {broker.name} {broker_kills} times, seed {seed}: {total} records, each once "
        f"and in order in the copies of {', '.join(clients)}; {gave_up} times a job gave up by itself and was restarted"
    )


def main() -> int:
    """Exit code 0: exactly once. An AssertionError says what is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--broker-kills", type=int, default=20)
    parser.add_argument("--clients", default="java,librdkafka")
    parser.add_argument("--fsync", default="interval", choices=["never", "interval", "always"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", default="kshim", choices=["kshim", "kafka"])
    parser.add_argument("--level", default=2, type=int, choices=[0, 1, 2], help="of transaction.version")
    options = parser.parse_args()
    clients = options.clients.split(",")
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        broker: Broker
        if options.broker == "kafka":
            broker = RealKafka(home / "kafka", features={"transaction.version": options.level})
        else:
            config = {"kshim.transaction.version": str(options.level)}
            broker = KshimProcess(home / "kshim", config=config, durable=True, options=(f"--fsync={options.fsync}",))
        print(kill_repeatedly(broker, home, clients, options.kills, options.broker_kills, options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
