"""Leaving records out of a batch: what stays is as it was, at its offset."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.batch import build_batch, crc_matches, parse_batch_header
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.record import Record, iter_records
from kshim_protocol.records.selection import (
    EncodedRecord,
    batch_with,
    empty_batch,
    encode_selected,
    plain_records,
    read_keys,
    read_records,
)

RECORDS = st.lists(
    st.builds(
        Record,
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple),
        st.integers(0, 1 << 45),
    ),
    min_size=1,
    max_size=80,
)
CODECS = st.sampled_from([Compression.NONE, Compression.GZIP])


def as_tuples(batch: bytes) -> list[tuple[object, ...]]:
    return [
        (record.offset, record.key, record.value, record.headers, record.timestamp_ms) for record in iter_records(batch)
    ]


def read_all(batch: bytes, slice_count: int) -> tuple[bytes, list[EncodedRecord]]:
    data, at, left = plain_records(batch, max_decompressed_bytes=1 << 20)
    records: list[EncodedRecord] = []
    base_offset = parse_batch_header(batch).base_offset
    while left:
        at = read_records(data, at, min(left, slice_count), base_offset, records)
        left -= min(left, slice_count)
    assert at == len(data)
    return data, records


@given(RECORDS, CODECS, st.integers(1, 100), st.integers(0, 1 << 40))
def test_the_last_offset_of_each_key_is_found(
    records: list[Record], codec: Compression, slice_count: int, base_offset: int
) -> None:
    batch = build_batch(records, base_offset=base_offset, compression=codec)
    data, at, left = plain_records(batch, max_decompressed_bytes=1 << 20)
    latest: dict[bytes, int] = {}
    while left:
        at = read_keys(data, at, min(left, slice_count), base_offset, latest)
        left -= min(left, slice_count)
    assert latest == {record.key: record.offset for record in iter_records(batch) if record.key is not None}


@given(RECORDS, CODECS, st.integers(1, 100), st.randoms(use_true_random=False), st.integers(0, 1 << 45) | st.none())
def test_what_is_selected_is_as_it_was(
    records: list[Record], codec: Compression, slice_count: int, chance: object, horizon_ms: int | None
) -> None:
    options = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 3, "is_transactional": True}
    batch = build_batch(records, base_offset=5, compression=codec, **options)  # type: ignore[arg-type]
    before = parse_batch_header(batch)
    data, found = read_all(batch, slice_count)
    assert [record[2] for record in found] == [record.value is not None for record in records]
    chosen = [record for record in found if chance.random() < 0.5]  # type: ignore[attr-defined]
    base_ms = before.base_timestamp_ms if horizon_ms is None else horizon_ms
    made = batch_with(
        batch,
        encode_selected(data, chosen, before.base_timestamp_ms - base_ms),
        len(chosen),
        base_timestamp_ms=base_ms,
        max_timestamp_ms=before.max_timestamp_ms,
        has_delete_horizon=horizon_ms is not None,
    )
    assert crc_matches(made)
    offsets = {record[0] for record in chosen}
    assert as_tuples(made) == [row for row in as_tuples(batch) if row[0] in offsets]
    after = parse_batch_header(made)
    assert after.has_delete_horizon == (horizon_ms is not None)
    unchanged = {"base_offset", "last_offset_delta", "producer_id", "producer_epoch", "base_sequence"}
    assert all(getattr(after, name) == getattr(before, name) for name in unchanged)
    assert (after.compression, after.is_transactional) == (codec, True)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_an_empty_batch_keeps_its_producer_and_its_last_offset(codec: Compression) -> None:
    batch = build_batch(
        [Record(b"k", b"v", timestamp_ms=9), Record(b"k", None, timestamp_ms=11)],
        base_offset=5,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        compression=codec,
        delete_horizon_ms=50,
    )
    empty = parse_batch_header(empty_batch(batch))
    assert (empty.record_count, empty.size_bytes, empty.last_offset, empty.max_timestamp_ms) == (0, 61, 6, 11)
    assert (empty.producer_id, empty.producer_epoch, empty.base_sequence) == (7, 1, 3)
    assert (empty.compression, empty.has_delete_horizon) == (Compression.NONE, False)
    assert crc_matches(empty_batch(batch))


@given(RECORDS, st.data())
def test_damaged_records_raise_protocol_errors_and_nothing_else(records: list[Record], data: st.DataObject) -> None:
    batch = bytearray(build_batch(records))
    at = data.draw(st.integers(61, len(batch) - 1))
    batch[at] ^= data.draw(st.integers(1, 255))
    latest: dict[bytes, int] = {}
    found: list[EncodedRecord] = []
    with contextlib.suppress(ProtocolError):
        read_keys(bytes(batch), 61, len(records), 0, latest)
    with contextlib.suppress(ProtocolError):
        read_records(bytes(batch), 61, len(records), 0, found)
