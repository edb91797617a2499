"""Batches against Java's own record classes, both ways, with every codec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from integration.support.jvm import Jvm
from kshim_protocol.records.batch import build_batch, validate_batch
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from kshim_protocol.records.record import Record, iter_records

pytestmark = pytest.mark.java
any_codec = pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name.lower())

RECORDS = [
    Record(b"key", b"value", (), 1_000, 7),
    Record(None, b"", (("trace", b"\0\xff"), ("trace", None), ("größe", b"")), 900, 8),
    Record(b"gone", None, (), 2_000, 9),
    *(Record(b"%d" % i, b"kafka " * i, (), 1_500 + i, i) for i in range(10, 60)),
    Record(b"k" * 70_000, bytes(100_000), (), 1_501, 60),
]


def each(iterable: Any) -> Iterator[Any]:
    """The elements of a Java Iterable."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def as_record(jvm: Jvm, record: Any) -> Record:
    """Ours for Java's `Record`."""
    to_array = jvm.classes.org.apache.kafka.common.utils.Utils.toArray

    def data(buffer: Any) -> bytes | None:
        return None if buffer is None else bytes(to_array(buffer))

    headers = tuple(
        (header.key(), None if header.value() is None else bytes(header.value())) for header in record.headers()
    )
    return Record(data(record.key()), data(record.value()), headers, record.timestamp(), record.offset())


def memory_records(jvm: Jvm, data: bytes) -> Any:
    """Java's `MemoryRecords` on these bytes."""
    classes = jvm.classes
    return classes.org.apache.kafka.common.record.internal.MemoryRecords.readableRecords(
        classes.java.nio.ByteBuffer.wrap(data)
    )


def an_array(jvm: Jvm, kind: Any, length: int) -> Any:
    """A Java array of references."""
    return jvm._gateway.new_array(kind, length)


@any_codec
def test_java_reads_our_batches(jvm: Jvm, codec: Compression) -> None:
    data = build_batch(
        RECORDS,
        base_offset=5,
        producer_id=11,
        producer_epoch=3,
        base_sequence=44,
        is_transactional=True,
        compression=codec,
    )
    (batch,) = each(memory_records(jvm, data).batches())
    batch.ensureValid()
    assert (batch.baseOffset(), batch.lastOffset(), batch.maxTimestamp()) == (5, 60, 2_000)
    assert (batch.producerId(), batch.producerEpoch(), batch.baseSequence()) == (11, 3, 44)
    assert (batch.isTransactional(), batch.isControlBatch()) == (True, False)
    assert [as_record(jvm, record) for record in each(batch)] == RECORDS


@any_codec
def test_we_read_javas_batches(jvm: Jvm, codec: Compression) -> None:
    classes = jvm.classes
    compression = classes.org.apache.kafka.common.compress.Compression
    built = compression.NONE if codec is Compression.NONE else getattr(compression, codec.name.lower())().build()
    simple_record = classes.org.apache.kafka.common.record.internal.SimpleRecord
    header = classes.org.apache.kafka.common.header.internals.RecordHeader
    array = an_array(jvm, simple_record, len(RECORDS))
    for i, record in enumerate(RECORDS):
        headers = an_array(jvm, classes.org.apache.kafka.common.header.Header, len(record.headers))
        for at, (name, value) in enumerate(record.headers):
            headers[at] = header(name, value)
        array[i] = simple_record(record.timestamp_ms, record.key, record.value, headers)
    buffer = classes.org.apache.kafka.common.record.internal.MemoryRecords.withRecords(7, built, array).buffer()
    data = bytes(classes.org.apache.kafka.common.utils.Utils.toArray(buffer))
    assert validate_batch(data).compression is codec
    assert list(iter_records(data)) == RECORDS
    if codec in (Compression.NONE, Compression.SNAPPY, Compression.LZ4):  # gzip and zstd compress as they like
        assert build_batch(RECORDS, base_offset=7, partition_leader_epoch=-1, compression=codec) == data


@pytest.mark.parametrize("control_type", list(ControlType))
def test_java_reads_our_transaction_markers(jvm: Jvm, control_type: ControlType) -> None:
    marker = EndTransactionMarker(control_type, coordinator_epoch=6)
    data = build_end_transaction_batch(marker, producer_id=1, producer_epoch=2, timestamp_ms=3, base_offset=4)
    (batch,) = each(memory_records(jvm, data).batches())
    batch.ensureValid()
    assert (batch.isControlBatch(), batch.baseOffset(), batch.producerId()) == (True, 4, 1)
    (record,) = each(batch)
    end_marker = jvm.classes.org.apache.kafka.common.record.internal.EndTransactionMarker.deserialize(record)
    assert (end_marker.controlType().toString(), end_marker.coordinatorEpoch()) == (control_type.name, 6)
