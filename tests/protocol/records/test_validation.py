"""Records are checked without being decoded: what passes can be decoded, and what decodes passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.batch import build_batch, parse_batch_header
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.layout import HEADER_BYTES
from kshim_protocol.records.record import Record, iter_records
from kshim_protocol.records.selection import plain_records
from kshim_protocol.records.validation import RecordFacts, check_records, recompressed

BYTES = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.builds(
        Record,
        key=BYTES,
        value=BYTES,
        headers=st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple),
        timestamp_ms=st.integers(min_value=-1, max_value=2**50),
    ),
    min_size=1,
    max_size=20,
)


def checked(batch: bytes, *, slices_of: int = 1 << 30) -> RecordFacts:
    data, at, count = plain_records(batch, max_decompressed_bytes=1 << 20)
    facts = RecordFacts()
    while facts.count < count:
        at = check_records(data, at, min(slices_of, count - facts.count), facts, is_numbered=True)
    if at != len(data):
        raise ProtocolError("bytes are left", message="RecordBatch", field="records", offset=at)
    return facts


@given(RECORDS, st.integers(min_value=1, max_value=7))
def test_sound_records_pass_and_are_summed_up(records: list[Record], slices_of: int) -> None:
    batch = build_batch(records)
    facts = checked(batch, slices_of=slices_of)
    base_ms = parse_batch_header(batch).base_timestamp_ms
    times = [record.timestamp_ms for record in records]
    assert (base_ms + facts.least_delta_ms, base_ms + facts.greatest_delta_ms) == (min(times), max(times))
    assert facts.lacks_key == any(record.key is None for record in records)


@given(RECORDS, st.data())
def test_what_passes_can_be_decoded(records: list[Record], data: st.DataObject) -> None:
    batch = bytearray(build_batch(records))
    for _ in range(data.draw(st.integers(min_value=1, max_value=3))):
        at = data.draw(st.integers(min_value=HEADER_BYTES, max_value=len(batch) - 1))
        batch[at] = data.draw(st.integers(min_value=0, max_value=255))
    try:
        checked(bytes(batch))
    except ProtocolError:
        return
    try:
        decoded = list(iter_records(bytes(batch)))
    except ProtocolError as error:
        if "header key" not in error.reason:  # that it is text is nobody's business but its reader's
            raise
    else:
        assert len(decoded) == len(records)


@given(RECORDS)
def test_records_that_are_cut_do_not_pass(records: list[Record]) -> None:
    batch = build_batch(records)
    for end in range(HEADER_BYTES, len(batch)):
        with pytest.raises(ProtocolError):
            checked(batch[:end])


def test_offsets_inside_have_to_count_up_from_zero() -> None:
    batch = build_batch([Record(b"k", b"v", offset=offset) for offset in (0, 2)])
    with pytest.raises(ProtocolError, match="record 1: offset delta 2"):
        checked(batch)
    data, at, count = plain_records(batch, max_decompressed_bytes=1000)
    assert check_records(data, at, count, RecordFacts(), is_numbered=False) == len(batch)


@pytest.mark.parametrize("target", list(Compression))
@pytest.mark.parametrize("source", list(Compression))
def test_a_batch_can_be_compressed_by_another_codec(source: Compression, target: Compression) -> None:
    records = [Record(b"k", b"v" * 100, timestamp_ms=5 + i) for i in range(10)]
    batch = build_batch(records, compression=source, producer_id=7, producer_epoch=1, base_sequence=3)
    data, at, _ = plain_records(batch, max_decompressed_bytes=1 << 20)
    assert recompressed(batch, data[at:], target) == build_batch(
        records, compression=target, producer_id=7, producer_epoch=1, base_sequence=3
    )
