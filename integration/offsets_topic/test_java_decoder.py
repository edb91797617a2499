"""Kafka's own classes decode every record that kshim writes, and see in it what kshim meant."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.offsets_topic.scene import Scene
from integration.support.broker import Deadline
from integration.support.jvm import Jvm
from integration.support.kshim import KshimProcess
from kshim.tools.logs.broker import BrokerLogs
from kshim.tools.logs.ids import uuid_text
from kshim_protocol.internal.record_types import RECORD_TYPES, parse_typed_key, parse_versioned_value
from kshim_protocol.records.record import iter_records
from kshim_protocol.records.scan import Batch
from kshim_protocol.schema import Row, Struct, row_is_in
from kshim_protocol.shape import default_of

pytestmark = pytest.mark.java

TOPIC = "__consumer_offsets"


@pytest.fixture
def kshim(tmp_path: Path) -> Iterator[KshimProcess]:
    """A kshim that looks for expired offsets ten times a second."""
    process = KshimProcess(tmp_path / "kshim", durable=True, config={"offsets.retention.check.interval.ms": "100"})
    process.start()
    yield process
    process.stop()


class JavaDecoder:
    """Kafka's classes for logs and for the records of its group coordinator."""

    def __init__(self, jvm: Jvm) -> None:
        kafka = jvm.classes.org.apache.kafka
        self._wrap = jvm.classes.java.nio.ByteBuffer.wrap
        self._records = kafka.common.record.internal.MemoryRecords
        self._serde = kafka.coordinator.group.GroupCoordinatorRecordSerde()
        self._json = kafka.coordinator.group.generated.CoordinatorRecordJsonConverters
        self._utils = kafka.common.utils.Utils

    def records(self, log: bytes) -> Iterator[tuple[int, bytes, bytes | None]]:
        """(offset, key, value) of all records in the bytes of a log, after every check that Kafka makes of a batch."""
        for batch in each(self._records.readableRecords(self._wrap(log)).batches()):
            batch.ensureValid()
            for record in each(batch):
                key = bytes(self._utils.toArray(record.key()))
                yield record.offset(), key, bytes(self._utils.toArray(record.value())) if record.hasValue() else None

    def decoded(self, key: bytes, value: bytes | None) -> tuple[Any, Any]:
        """Key and value as Kafka's tools print them."""
        record = self._serde.deserialize(self._wrap(key), None if value is None else self._wrap(value))
        written = record.value()
        shown_key = json.loads(self._json.writeRecordKeyAsJson(record.key()).toString())
        if written is None:
            return shown_key, None
        shown = self._json.writeRecordValueAsJson(written.message(), written.version())
        return shown_key, json.loads(shown.toString())


def each(iterable: Any) -> Iterator[Any]:
    """What a Java `for` would go over."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def as_kafka_prints(message: Struct, version: int) -> dict[str, Any]:
    """Our object as Kafka's JSON converters would write it: tagged fields only when they are not the default."""
    return {
        camel_case(row.name): _printed(getattr(message, row.name), row, version)
        for row in message.info.rows
        if row_is_in(row, version) and not (row.tag is not None and getattr(message, row.name) == default_of(row))
    }


def _printed(value: Any, row: Row, version: int) -> Any:
    if isinstance(value, tuple):
        return [as_kafka_prints(one, version) if isinstance(one, Struct) else one for one in value]
    if isinstance(value, bytes):
        return uuid_text(value) if row.type == "uuid" else base64.b64encode(value).decode()
    return value


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def logs_of(kshim: KshimProcess) -> dict[int, list[bytes]]:
    """All batches of the offsets topic, by partition."""
    host, _, port = kshim.bootstrap.rpartition(":")
    logs = BrokerLogs(host, int(port), client_id="test")
    try:
        return {
            partition: [found.data for found in logs.read(TOPIC, partition) if isinstance(found, Batch)]
            for partition in logs.partitions(TOPIC)
        }
    finally:
        logs.close()


def wait_for_expiry(kshim: KshimProcess, group: str) -> None:
    """Until the tombstones of a group's offsets are in the log."""
    deadline = Deadline(30)
    while True:
        batches = [batch for log in logs_of(kshim).values() for batch in log]
        records = [record for batch in batches for record in iter_records(batch)]
        if any(record.value is None and group.encode() in (record.key or b"") for record in records):
            return
        deadline.check(f"{group} expires")
        time.sleep(0.05)


def test_java_decodes_every_record_that_kshim_writes(kshim: KshimProcess, jvm: Jvm) -> None:
    with Scene(kshim.bootstrap, "decoded", "orders") as scene:
        scene.play()
        scene.commit(scene.named("expires"), 0, 1, retention_ms=1)
        wait_for_expiry(kshim, f"{scene.prefix}-expires")
    java = JavaDecoder(jvm)
    seen: list[tuple[str, int | None]] = []
    generations: dict[str, list[tuple[str, int, int]]] = {}
    for batches in logs_of(kshim).values():
        ours = [record for batch in batches for record in iter_records(batch)]
        theirs = list(java.records(b"".join(batches)))
        assert theirs == [(record.offset, record.key, record.value) for record in ours]
        for record in ours:
            assert record.key is not None
            number, key = parse_typed_key(record.key)
            assert key is not None
            java_key, java_value = java.decoded(record.key, record.value)
            assert java_key == as_kafka_prints(key, 0)
            if record.value is None:
                assert java_value is None
                seen.append((RECORD_TYPES[number].name, None))
                continue
            version, value = parse_versioned_value(RECORD_TYPES[number], record.value)
            assert java_value == as_kafka_prints(value, version)
            seen.append((RECORD_TYPES[number].name, version))
            if number == 2:
                found: Any = (key, value)
                row = (found[1].protocol_type, found[1].generation, len(found[1].members))
                generations.setdefault(found[0].group, []).append(row)
    assert set(seen) == {
        ("OffsetCommit", 4),
        ("OffsetCommit", 1),
        ("OffsetCommit", None),
        ("GroupMetadata", 3),
        ("GroupMetadata", None),
    }
    # First seen by a Join; the leader's Sync; a static replacement, in the same generation; the last member gone.
    assert generations["decoded-left"] == [("", 0, 0), ("consumer", 1, 1), ("consumer", 2, 0)]
    assert generations["decoded-static"] == [("", 0, 0), ("consumer", 1, 1), ("consumer", 1, 1)]
