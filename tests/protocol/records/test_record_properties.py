"""Random batches: ours against construct's description and kafka-python's codec, both ways; and random damage."""

from __future__ import annotations

import contextlib
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.batch import (
    AlikeRecords,
    build_batch,
    build_key_value_batch,
    build_records_batch,
    crc_matches,
    iter_batches,
    parse_batch_header,
    validate_batch,
)
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.record import Record, iter_records, iter_timestamps
from tests.protocol.records.construct_batch import BATCH, HEADER

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
# Short bytes are the interesting ones, but lengths must also cross one- and two-byte varints.
BYTES = st.binary(max_size=20) | st.integers(60, 140).map(bytes) | st.sampled_from([8_191, 8_192]).map(bytes)
NULLABLE = st.none() | BYTES
HEADERS = st.lists(st.tuples(st.text(max_size=5), NULLABLE), max_size=3).map(tuple)
TIMESTAMPS = st.integers(0, 2**53) | st.integers(1_700_000_000_000, 1_700_000_200_000)
RECORDS = st.lists(
    st.builds(Record, key=NULLABLE, value=NULLABLE, headers=HEADERS, timestamp_ms=TIMESTAMPS), min_size=1
)


def placed(records: list[Record], base_offset: int) -> list[Record]:
    """The records with the offsets a log would give them."""
    return [
        Record(record.key, record.value, record.headers, record.timestamp_ms, base_offset + i)
        for i, record in enumerate(records)
    ]


@given(RECORDS, st.integers(0, 2**62), INT32, INT32, INT16, INT32, st.booleans(), st.booleans())
def test_our_batches_read_and_build_the_same_through_construct(
    records: list[Record],
    base_offset: int,
    epoch: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
    is_control: bool,
) -> None:
    batch = build_batch(
        records,
        base_offset=base_offset,
        partition_leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
    )
    described = BATCH.parse(batch)
    header = parse_batch_header(batch)
    assert header._asdict() == {name: described[name] for name in header._fields}
    assert [
        Record(
            row.key,
            row.value,
            tuple((entry.key, entry.value) for entry in row.headers),
            described.base_timestamp_ms + row.timestamp_delta,
            described.base_offset + row.offset_delta,
        )
        for row in described.records
    ] == list(iter_records(batch))
    assert BATCH.build(described) == batch
    assert (header.is_transactional, header.is_control) == (is_transactional, is_control)


@given(RECORDS, st.integers(0, 2**62), st.sampled_from(Compression))
def test_records_round_trip_with_every_codec(records: list[Record], base_offset: int, codec: Compression) -> None:
    batch = build_batch(records, base_offset=base_offset, compression=codec)
    expected = placed(records, base_offset)
    assert list(iter_records(batch)) == expected
    assert list(iter_timestamps(batch)) == [(record.offset, record.timestamp_ms) for record in expected]
    assert build_batch(iter_records(batch), base_offset=base_offset, compression=codec) == batch
    assert validate_batch(batch).max_timestamp_ms == max(record.timestamp_ms for record in records)


@given(st.lists(st.tuples(BYTES, NULLABLE), min_size=1), TIMESTAMPS, st.booleans())
def test_the_fast_path_builds_what_the_general_one_builds(
    pairs: list[tuple[bytes, bytes | None]], timestamp_ms: int, is_transactional: bool
) -> None:
    assert build_key_value_batch(pairs, timestamp_ms, is_transactional=is_transactional) == build_batch(
        [Record(key, value, timestamp_ms=timestamp_ms) for key, value in pairs],
        base_sequence=0,
        is_transactional=is_transactional,
    )


def cut(data: bytes, size_bytes: int) -> list[bytes]:
    return [data[at : at + size_bytes] for at in range(0, len(data), size_bytes)]


@given(
    st.lists(st.tuples(BYTES, NULLABLE), max_size=70),
    st.tuples(BYTES, BYTES, BYTES),
    st.sampled_from([1, 3, 63, 64, 65, 129, 500, 520]),
    st.tuples(st.integers(1, 5), st.integers(1, 200)),
    st.binary(min_size=1, max_size=40),
)
def test_records_that_are_alike_are_built_as_if_one_by_one(
    before: list[tuple[bytes, bytes | None]],
    same: tuple[bytes, bytes, bytes],
    count: int,
    sizes: tuple[int, int],
    seed: bytes,
) -> None:
    key_start, value_start, value_end = same
    key_ends, middles = (cut((seed * size * count)[: size * count], size) for size in sizes)
    alike = AlikeRecords(key_start, value_start, value_end, [*chain(*zip(key_ends, middles, strict=True))])
    pairs = [(key_start + end, value_start + middle + value_end) for end, middle in zip(key_ends, middles, strict=True)]
    assert alike.record_count == count
    assert build_records_batch([before, alike, before], 5) == build_key_value_batch([*before, *pairs, *before], 5)


@given(RECORDS, st.sampled_from(Compression))
def test_kafka_python_reads_our_batches(records: list[Record], codec: Compression) -> None:
    batch = DefaultRecordBatch(build_batch(records, base_offset=5, compression=codec))
    assert batch.validate_crc()
    assert (batch.base_offset, batch.last_offset, batch.compression_type) == (5, 4 + len(records), codec)
    assert batch.max_timestamp == max(record.timestamp_ms for record in records)
    assert [
        Record(record.key, record.value, tuple(record.headers), record.timestamp, record.offset) for record in batch
    ] == placed(records, 5)


@given(RECORDS, st.sampled_from(Compression), st.booleans())
def test_we_read_kafka_pythons_batches(records: list[Record], codec: Compression, is_idempotent: bool) -> None:
    producer_id, producer_epoch, base_sequence = (7, 1, 33) if is_idempotent else (-1, -1, -1)
    builder = DefaultRecordBatchBuilder(2, codec, False, producer_id, producer_epoch, base_sequence, 1 << 30)
    for i, record in enumerate(records):
        builder.append(i, record.timestamp_ms, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())
    header = validate_batch(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
        producer_id,
        producer_epoch,
        base_sequence,
    )
    assert header.compression in (codec, Compression.NONE)  # kafka-python keeps what compression only makes longer
    assert list(iter_records(batch)) == placed(records, 0)
    if header.compression is Compression.NONE:
        assert batch == build_batch(
            records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
        )


@given(RECORDS, st.data())
def test_a_batch_cut_anywhere_is_refused(records: list[Record], data: st.DataObject) -> None:
    batch = build_batch(records)
    cut = data.draw(st.integers(0, len(batch) - 1))
    assert list(iter_batches(batch[:cut])) == []
    with pytest.raises(ProtocolError):
        validate_batch(batch[:cut])
    with pytest.raises(ProtocolError):
        list(iter_records(batch[:cut]))
    with pytest.raises(ProtocolError):
        list(iter_timestamps(batch[:cut]))


@given(RECORDS, st.data())
def test_records_cut_short_behind_an_adjusted_length_are_refused(records: list[Record], data: st.DataObject) -> None:
    batch = build_batch(records)
    cut = data.draw(st.integers(61, len(batch) - 1))
    shorter = batch[:8] + (cut - 12).to_bytes(4, "big") + batch[12:cut]
    with pytest.raises(ProtocolError):
        list(iter_records(shorter))


@settings(max_examples=400)
@given(
    RECORDS,
    st.sampled_from(Compression),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_damage_raises_protocol_error_or_reads_as_records(
    records: list[Record], codec: Compression, damage: list[tuple[int, int]]
) -> None:
    damaged = bytearray(build_batch(records, compression=codec))
    for at, byte in damage:
        damaged[at % len(damaged)] = byte
    batch = bytes(damaged)
    for read in (iter_records, iter_timestamps, iter_batches):
        with contextlib.suppress(ProtocolError):
            assert all(read(batch))
    if crc_matches(batch):
        return
    with pytest.raises(ProtocolError):
        validate_batch(batch)


@given(st.binary(max_size=200))
def test_random_bytes_raise_protocol_error_only(data: bytes) -> None:
    for batch in (data, build_batch([], last_offset_delta=0)[:61] + data):
        for read in (iter_records, iter_timestamps, iter_batches, validate_batch, parse_batch_header):
            with contextlib.suppress(ProtocolError):
                list(read(batch))


@given(st.binary(max_size=120), st.integers(1, 5))
def test_random_records_read_as_construct_reads_them(data: bytes, count: int) -> None:
    """Whatever our decoder takes for records, the description takes for the same records."""
    header = parse_batch_header(build_batch([], last_offset_delta=count - 1))
    described = dict(header._asdict(), batch_length=49 + len(data), record_count=count)
    batch = HEADER.build(described) + data
    try:
        records = list(iter_records(batch))
    except ProtocolError:
        return
    rows = BATCH.parse(batch).records
    assert [(record.key, record.value, len(record.headers)) for record in records] == [
        (row.key, row.value, len(row.headers)) for row in rows
    ]
