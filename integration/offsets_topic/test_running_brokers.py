"""A dump says the same of a broker and of its files; an import from a running broker takes every byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import kafka
import pytest

from integration.java.client import to_string_function
from integration.offsets_topic.commands import TOPIC, batches, dumped, kshim
from integration.offsets_topic.java_groups import be_consumer_group, commit_in_transactions, java_consumer
from integration.offsets_topic.scene import Scene
from integration.support.broker import Deadline
from integration.support.jvm import Jvm
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.record_types import parse_typed_key
from kshim_protocol.records.record import Record, iter_records


@pytest.fixture
def durable_kshim(tmp_path: Path) -> Iterator[KshimProcess]:
    process = KshimProcess(tmp_path / "kshim", durable=True)
    process.start()
    yield process
    process.stop()


@pytest.mark.kafka
@pytest.mark.java
def test_a_dump_of_kafka_and_of_its_files_agree(real_kafka: RealKafka, jvm: Jvm) -> None:
    with Scene(real_kafka.bootstrap, "dumped", "dumped-topic") as scene:
        scene.play()
        commit_in_transactions(jvm, real_kafka.bootstrap, scene.named("transaction"), scene.topic)
        be_consumer_group(jvm, real_kafka.bootstrap, scene.named("consumer"), scene.topic)
    from_broker = dumped(f"--bootstrap-server={real_kafka.bootstrap}", prefix="dumped-")
    from_files = dumped(f"--data-dir={real_kafka.data}", prefix="dumped-")
    assert from_files == from_broker
    names = {document["key"]["name"] for document in from_broker}
    consumer_group = {"Metadata", "MemberMetadata", "TargetAssignmentMetadata", "TargetAssignmentMember"}
    assert names >= {"OffsetCommit", "GroupMetadata", *(f"ConsumerGroup{name}" for name in consumer_group)}
    pending = [document for document in from_broker if document["batch"]["is_transactional"]]
    assert [document["value"]["offset"] for document in pending] == [10, 99, 20]


def test_a_dump_of_kshim_and_of_its_files_agree(durable_kshim: KshimProcess) -> None:
    with Scene(durable_kshim.bootstrap, "dumped", "dumped-topic") as scene:
        scene.play()
    from_broker = dumped(f"--bootstrap-server={durable_kshim.bootstrap}", prefix="dumped-")
    assert dumped(f"--data-dir={durable_kshim.data}", prefix="dumped-") == from_broker
    assert {document["key"]["group"] for document in from_broker} == set(scene.groups)


@pytest.mark.kafka
@pytest.mark.java
def test_groups_of_a_running_kafka_go_on_in_kshim(real_kafka: RealKafka, jvm: Jvm, tmp_path: Path) -> None:
    with Scene(real_kafka.bootstrap, "moved", "moved-topic") as scene:
        scene.play()
        stays = scene.join(scene.named("goes-on"))
        commit_in_transactions(jvm, real_kafka.bootstrap, scene.named("transaction"), scene.topic)
        expected = scene.answers()
    moved = KshimProcess(tmp_path, durable=True)
    source = f"--bootstrap-server={real_kafka.bootstrap}"
    before = batches(real_kafka.data)
    kshim("import", source, f"--data-dir={moved.data}", f"--topic={scene.topic}")
    imported, after = batches(moved.data), batches(real_kafka.data)
    assert before.keys() == imported.keys() == after.keys()
    for partition, log in imported.items():  # groups of other tests may write meanwhile
        assert len(before[partition]) <= len(log)
        assert log == after[partition][: len(log)]
    moved.start()
    try:
        with Scene(moved.bootstrap, "moved", scene.topic) as there:
            assert there.answers(scene.groups) == expected
            assert there.heartbeat(stays) is ErrorCode.NONE
            there.commit(stays.group, 2, 77, member=stays)
    finally:
        moved.stop()
    assert expected["offsets"]["moved-transaction"] == {
        (scene.topic, 0): (10, -1, "in transaction"),
        (scene.topic, 1): (20, -1, "in transaction"),
    }


@pytest.mark.java
def test_java_and_kafka_python_consumers_read_the_topic_of_kshim(durable_kshim: KshimProcess, jvm: Jvm) -> None:
    with Scene(durable_kshim.bootstrap, "read", "orders") as scene:
        scene.play()
    records = [
        (partition, record)
        for partition, log in batches(durable_kshim.data).items()
        for batch in log
        for record in iter_records(batch)
    ]
    assert all(parse_typed_key(record.key or b"")[1] is not None for _, record in records)
    assert read_by_kafka_python(durable_kshim.bootstrap, len(records)) == {
        (partition, record.offset): (record.key, record.value) for partition, record in records
    }
    assert read_by_java(jvm, durable_kshim.bootstrap, len(records)) == {
        (partition, record.offset): sizes(record) for partition, record in records
    }


def sizes(record: Record) -> tuple[int, int]:
    """Of key and value, -1 for a tombstone."""
    return len(record.key or b""), -1 if record.value is None else len(record.value)


def read_by_kafka_python(bootstrap: str, count: int) -> dict[tuple[int, int], tuple[bytes, bytes | None]]:
    """(key, value) by (partition, offset), of the whole topic."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    found: dict[tuple[int, int], tuple[bytes, bytes | None]] = {}
    deadline = Deadline(30)
    try:
        consumer.assign([kafka.TopicPartition(TOPIC, partition) for partition in consumer.partitions_for_topic(TOPIC)])
        while len(found) < count:
            for records in consumer.poll(timeout_ms=500).values():
                found.update({(record.partition, record.offset): (record.key, record.value) for record in records})
            deadline.check(f"kafka-python reads {count} records, so far {len(found)}")
    finally:
        consumer.close()
    return found


def read_by_java(jvm: Jvm, bootstrap: str, count: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Sizes of key and value by (partition, offset), of the whole topic, read as text: bytes do not print."""
    java, streams = jvm.classes.java, jvm.classes.java.util.stream
    consumer = java_consumer(jvm, {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"})
    partition_class = jvm.classes.org.apache.kafka.common.TopicPartition
    found: dict[tuple[int, int], tuple[int, int]] = {}
    deadline = Deadline(30)
    try:
        consumer.assign([partition_class(TOPIC, info.partition()) for info in consumer.partitionsFor(TOPIC)])
        while len(found) < count:
            records = consumer.poll(java.time.Duration.ofMillis(500))
            lines = streams.StreamSupport.stream(records.spliterator(), False).map(to_string_function(jvm))
            text = lines.collect(streams.Collectors.joining("\n"))
            for numbers in _JAVA_RECORD.findall(text):
                partition, offset, key_size, value_size = map(int, numbers)
                found[partition, offset] = key_size, value_size
            deadline.check(f"Java reads {count} records, so far {len(found)}")
    finally:
        consumer.close()
    return found


_JAVA_RECORD = re.compile(
    r"partition = (\d+), .*?offset = (\d+), .*?serialized key size = (-?\d+), serialized value size = (-?\d+)"
)
