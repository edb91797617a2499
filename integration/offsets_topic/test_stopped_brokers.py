"""Groups move between a stopped Kafka and kshim, both ways, in the files of the offsets topic."""

from __future__ import annotations

import gc
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.kafka_python.client import KafkaPython
from integration.offsets_topic.commands import TOPIC, batches, kshim
from integration.offsets_topic.java_groups import commit_in_transactions
from integration.offsets_topic.scene import Scene
from integration.support.fixtures import available
from integration.support.group_suite import PARTITION_COUNT, members, poll_until, settle
from integration.support.jvm import Jvm
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from kshim_protocol.errors import ErrorCode

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.long]

RECORD_COUNT = 300


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[RealKafka]:
    """A Kafka of its own: its offsets topic is taken away and replaced."""
    broker = available(lambda: RealKafka(tmp_path / "kafka"))
    broker.start()
    yield broker
    broker.kill()


def test_groups_go_from_kafka_to_kshim_and_back(kafka: RealKafka, jvm: Jvm, tmp_path: Path) -> None:
    with Scene(kafka.bootstrap, "both", "orders") as scene:
        scene.play()
        stays = scene.join(scene.named("goes-on"))
        commit_in_transactions(jvm, kafka.bootstrap, scene.named("transaction"), scene.topic)
        in_kafka = scene.answers()
    kafka.stop()

    moved = KshimProcess(tmp_path / "kshim", durable=True)
    kshim("import", f"--from-dir={kafka.data}", f"--data-dir={moved.data}", f"--topic={scene.topic}")
    assert batches(moved.data) == batches(kafka.data)
    moved.start()
    try:
        with Scene(moved.bootstrap, "both", "orders") as there:
            assert there.answers(scene.groups) == in_kafka
            assert there.heartbeat(stays) is ErrorCode.NONE
            # From here on kshim writes: what was there goes on, and groups of every kind are new.
            there.commit(stays.group, 2, 77, member=stays, metadata="in kshim")
            there.leave(there.join(there.named("newcomer")))
            there.prefix = "kshim"
            there.play()
            groups = [*scene.groups, *there.groups]
            in_kshim = there.answers(groups)
    finally:
        moved.stop()

    put_into_kafka(moved.data, kafka.data)
    kafka.start()
    with Scene(kafka.bootstrap, "both", "orders") as back:
        assert back.answers(groups) == in_kshim
        back.commit(back.named("simple"), 0, 1)
    assert "ERROR" not in "".join(line for line in kafka.log.read_text().splitlines() if TOPIC in line)
    kafka.stop()


def test_live_consumers_go_on_when_kshim_takes_the_place_of_kafka(kafka: RealKafka, tmp_path: Path) -> None:
    client = KafkaPython()
    client.create_topic(kafka.bootstrap, "orders", PARTITION_COUNT)
    client.wait_for_leaders(kafka.bootstrap, "orders", PARTITION_COUNT)
    moved = KshimProcess(tmp_path / "kshim", durable=True, options=(f"--listen={kafka.bootstrap}",))
    try:
        with members() as group:
            for _ in range(2):
                group.add(client.join(kafka.bootstrap, "billing", ["orders"]))
                settle(group, ["orders"])
            client.produce(kafka.bootstrap, "orders", map(str, range(RECORD_COUNT)))
            first = poll_until(group, RECORD_COUNT)
            for member in group:
                member.commit()
            owned = [member.assignment() for member in group]
            kafka.stop()
            kshim("import", f"--from-dir={kafka.data}", f"--data-dir={moved.data}", "--topic=orders")
            moved.start()
            client.produce(moved.bootstrap, "orders", map(str, range(RECORD_COUNT, 2 * RECORD_COUNT)))
            rest = poll_until(group, RECORD_COUNT)
            assert [member.assignment() for member in group] == owned
            assert "Preparing to rebalance" not in moved.log.read_text()
    finally:
        moved.stop()
    close_refused_sockets()
    assert sorted(int(record.value) for record in (*first, *rest)) == list(range(2 * RECORD_COUNT))


def close_refused_sockets() -> None:
    """kafka-python forgets the sockets of connections that were refused; whichever test runs later would be blamed."""
    for found in gc.get_objects():
        if type(found) is socket.socket and found.fileno() != -1 and found.getsockname()[0] == "0.0.0.0":
            found.close()


def put_into_kafka(source: Path, target: Path) -> None:
    """Replace the segments of Kafka's offsets topic by those of another directory, as docs/dump-offsets.md says."""
    for folder in target.glob(f"{TOPIC}-*"):
        for path in folder.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for segment in (source / folder.name).glob("*.log"):
            shutil.copy(segment, folder)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (target / name).unlink(missing_ok=True)
