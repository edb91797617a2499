"""Whole batches: Kafka's own bytes, building, cutting a run of bytes into batches, what Produce refuses."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import crc32c
import pytest

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records import crc
from kshim_protocol.records.batch import (
    BatchHeader,
    CorruptBatchError,
    InvalidBatchError,
    build_batch,
    build_key_value_batch,
    crc_matches,
    iter_batches,
    parse_batch_header,
    set_base_offset,
    validate_batch,
)
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_batch,
    parse_control_record,
)
from kshim_protocol.records.crc import crc32c as our_crc32c
from kshim_protocol.records.record import Record, iter_records, iter_timestamps

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "consumer_offsets.json").read_text())
GOLDEN_BATCHES: list[dict[str, Any]] = GOLDEN["batches"]
GOLDEN_RECORDS: list[dict[str, Any]] = GOLDEN["records"]
any_golden_batch = pytest.mark.parametrize("case", GOLDEN_BATCHES, ids=[case["case"] for case in GOLDEN_BATCHES])

ONE = build_key_value_batch([(b"key", b"value")], 1_000)
THREE = build_key_value_batch([(b"a", b"1"), (b"b", None), (b"c", b"3")], 2_000, base_offset=10)


def resealed(batch: bytes) -> bytes:
    """The batch with the right CRC for its changed bytes."""
    return batch[:17] + struct.pack(">I", crc32c.crc32c(batch[21:])) + batch[21:]


def changed(batch: bytes, at: int, format_: str, value: int) -> bytes:
    """The batch with one field of its header changed, and the CRC to match."""
    data = bytearray(batch)
    struct.pack_into(format_, data, at, value)
    return resealed(bytes(data))


@any_golden_batch
def test_the_header_of_kafkas_batch_reads_as_kafka_says(case: dict[str, Any]) -> None:
    batch, expected = bytes.fromhex(case["hex"]), case["header"]
    header = parse_batch_header(batch)
    assert header == BatchHeader(
        base_offset=expected["baseOffset"],
        batch_length=expected["batchLength"],
        partition_leader_epoch=expected["partitionLeaderEpoch"],
        magic=expected["magic"],
        crc=int(expected["crc32c"], 16),
        attributes=expected["attributes"],
        last_offset_delta=expected["lastOffsetDelta"],
        base_timestamp_ms=expected["baseTimestamp"],
        max_timestamp_ms=expected["maxTimestamp"],
        producer_id=expected["producerId"],
        producer_epoch=expected["producerEpoch"],
        base_sequence=expected["baseSequence"],
        record_count=expected["recordCount"],
    )
    assert header.size_bytes == len(batch)
    assert crc_matches(batch)


@any_golden_batch
def test_kafkas_batch_is_built_again_byte_for_byte(case: dict[str, Any]) -> None:
    batch = bytes.fromhex(case["hex"])
    header = parse_batch_header(batch)
    again = build_batch(
        iter_records(batch),
        base_offset=header.base_offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )
    assert again.hex() == batch.hex()


@any_golden_batch
def test_kafkas_batch_is_built_again_by_the_fast_paths(case: dict[str, Any]) -> None:
    batch = bytes.fromhex(case["hex"])
    header = parse_batch_header(batch)
    records = list(iter_records(batch))
    if header.is_control:
        marker = parse_control_record(records[0])
        assert marker == EndTransactionMarker(ControlType.COMMIT, coordinator_epoch=0)
        again = build_end_transaction_batch(
            marker,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            timestamp_ms=header.max_timestamp_ms,
            base_offset=header.base_offset,
        )
    else:
        again = build_key_value_batch(
            [(record.key or b"", record.value) for record in records],
            header.base_timestamp_ms,
            base_offset=header.base_offset,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            is_transactional=header.is_transactional,
        )
    assert again.hex() == batch.hex()


def test_every_golden_record_survives_a_batch_of_all_of_them() -> None:
    pairs = [
        (bytes.fromhex(case["keyHex"]), None if case["valueHex"] is None else bytes.fromhex(case["valueHex"]))
        for case in GOLDEN_RECORDS
    ]
    assert any(value is None for _, value in pairs)
    batch = build_key_value_batch(pairs, 5_000, base_offset=7)
    assert [(record.key, record.value) for record in iter_records(batch)] == pairs
    assert [record.offset for record in iter_records(batch)] == list(range(7, 7 + len(pairs)))
    assert batch == build_batch(
        [Record(key, value, timestamp_ms=5_000) for key, value in pairs], base_offset=7, base_sequence=0
    )


@pytest.mark.parametrize("size_bytes", [0, 63, 64, 500, 511, 512, 513, 8191, 8192, 100_000])
def test_the_fast_path_agrees_with_the_general_one_for_any_length(size_bytes: int) -> None:
    pairs = [(b"k" * size_bytes, b"v"), (b"k", b"v" * size_bytes), (b"k" * size_bytes, None)]
    assert build_key_value_batch(pairs, 9) == build_batch(
        [Record(key, value, timestamp_ms=9) for key, value in pairs], base_sequence=0
    )


def test_a_batch_of_thousands_keeps_its_offsets() -> None:
    batch = build_key_value_batch([(b"%d" % i, None) for i in range(20_000)], 1, base_offset=5)
    assert [record.offset for record in iter_records(batch)] == list(range(5, 20_005))
    assert parse_batch_header(batch).last_offset == 20_004


def test_offsets_given_by_records_leave_gaps_and_are_kept() -> None:
    records = [Record(b"a", b"1", offset=12), Record(b"b", b"2"), Record(b"c", b"3", offset=20)]
    batch = build_batch(records, base_offset=10, last_offset_delta=15)
    assert [record.offset for record in iter_records(batch)] == [12, 13, 20]
    assert parse_batch_header(batch).last_offset == 25


@pytest.mark.parametrize("offsets", [[5, 5], [5, 4], [-1, 10]])
def test_offsets_must_rise(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="does not come after"):
        build_batch([Record(b"a", b"", offset=offset) for offset in offsets], base_offset=10 if offsets[0] < 0 else 0)


def test_a_batch_without_records_needs_the_offset_it_ends_at() -> None:
    batch = build_batch([], base_offset=3, last_offset_delta=4)
    header = parse_batch_header(batch)
    assert (header.record_count, header.last_offset, header.max_timestamp_ms) == (0, 7, -1)
    assert list(iter_records(batch)) == []
    with pytest.raises(ValueError, match="last offset delta"):
        build_batch([])
    with pytest.raises(ValueError, match="needs a record"):
        build_key_value_batch([], 0)


def test_the_header_holds_the_first_and_the_greatest_timestamp() -> None:
    header = parse_batch_header(build_batch([Record(None, b"", timestamp_ms=t) for t in (50, 90, 20)]))
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (50, 90)
    assert not header.is_log_append_time


def test_log_append_time_replaces_the_records_timestamps() -> None:
    batch = build_batch([Record(None, b"", timestamp_ms=t) for t in (50, 90)], log_append_time_ms=70)
    header = parse_batch_header(batch)
    assert header.is_log_append_time
    assert header.max_timestamp_ms == 70
    assert [record.timestamp_ms for record in iter_records(batch)] == [70, 70]
    assert list(iter_timestamps(batch)) == [(0, 70), (1, 70)]


def test_a_delete_horizon_leaves_the_records_timestamps_alone() -> None:
    batch = build_batch([Record(b"k", None, timestamp_ms=50)], delete_horizon_ms=1_000_000)
    header = parse_batch_header(batch)
    assert header.has_delete_horizon
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (1_000_000, 50)
    assert [record.timestamp_ms for record in iter_records(batch)] == [50]


def test_headers_of_records_keep_order_repeats_and_nulls() -> None:
    headers = (("trace", b"1"), ("trace", None), ("größe", b""), ("", b"\xff" * 300))
    batch = build_batch([Record(None, b"x", headers)])
    assert next(iter_records(batch)).headers == headers


def test_records_show_and_compare_by_content() -> None:
    record = Record(b"k", None, timestamp_ms=5, offset=6)
    assert record == Record(b"k", None, (), 5, 6)
    assert record != Record(b"k", b"", (), 5, 6)
    assert record != (b"k", None, (), 5, 6)
    assert repr(record) == "Record(key=b'k', value=None, headers=(), timestamp_ms=5, offset=6)"


def test_set_base_offset_keeps_the_crc() -> None:
    moved = set_base_offset(THREE, 2**40, leader_epoch=3)
    header = parse_batch_header(moved)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (2**40, 2**40 + 2, 3)
    assert moved[16:] == THREE[16:]
    assert crc_matches(moved)
    assert set_base_offset(moved, 2**40, 3) is moved
    large = build_key_value_batch([(b"", bytes(50_000))], 0)
    assert set_base_offset(set_base_offset(large, 9), 0) == large


def test_a_run_of_bytes_is_cut_into_its_batches() -> None:
    assert list(iter_batches(ONE + THREE + ONE)) == [ONE, THREE, ONE]
    assert list(iter_batches(b"")) == []


def test_a_truncated_last_batch_is_left_out_wherever_it_is_cut() -> None:
    for cut in range(len(THREE)):
        assert list(iter_batches(ONE + THREE[:cut])) == [ONE]


def test_a_length_that_cannot_be_and_old_formats_are_refused() -> None:
    with pytest.raises(ProtocolError, match=r"batch_length at byte 84: 48 is too short") as caught:
        list(iter_batches(ONE + changed(ONE, 8, ">i", 48)))
    assert (caught.value.message, caught.value.version) == ("RecordBatch", 2)
    with pytest.raises(ProtocolError, match="magic is 1, not 2"):
        list(iter_batches(changed(ONE, 16, ">b", 1)))


def test_parse_batch_header_looks_where_it_is_told() -> None:
    assert parse_batch_header(ONE + THREE, len(ONE)) == parse_batch_header(THREE)
    assert parse_batch_header(THREE[:61]) == parse_batch_header(THREE)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes left"),
        (ONE[:60], "60 bytes left"),
        (changed(ONE, 16, ">b", 0), "magic is 0"),
        (changed(ONE, 8, ">i", 48), "48 is too short"),
        (changed(ONE, 8, ">i", -1), "-1 is too short"),
    ],
)
def test_parse_batch_header_refuses(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        parse_batch_header(data)


def test_an_unknown_codec_is_an_error_only_when_it_is_needed() -> None:
    batch = changed(ONE, 21, ">h", 5)
    header = parse_batch_header(batch)
    with pytest.raises(ProtocolError, match="no compression codec 5"):
        _ = header.compression
    with pytest.raises(ProtocolError, match="no compression codec 5"):
        next(iter_records(batch))


def test_validate_accepts_what_producers_send() -> None:
    assert validate_batch(ONE) == parse_batch_header(ONE)
    assert validate_batch(THREE).record_count == 3
    idempotent = build_batch([Record(None, b"x")], producer_id=5, producer_epoch=0, base_sequence=0)
    assert validate_batch(idempotent).producer_id == 5
    packed = build_batch([Record(None, bytes(100))] * 50, compression=Compression.GZIP)
    assert validate_batch(packed).compression is Compression.GZIP


@pytest.mark.parametrize("at", [*range(17, 21), *range(21, len(ONE))])
def test_validate_tells_any_damaged_byte_under_the_crc_as_corrupt(at: int) -> None:
    damaged = bytearray(ONE)
    damaged[at] ^= 0x40
    with pytest.raises(CorruptBatchError, match="crc"):
        validate_batch(bytes(damaged))


def test_validate_tells_a_length_that_cannot_be_as_corrupt() -> None:
    with pytest.raises(CorruptBatchError, match="48 is too short"):
        validate_batch(changed(ONE, 8, ">i", 48))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no whole batch"),
        (ONE[:60], "no whole batch"),
        (ONE[:-1], "not one whole batch"),
        (ONE + ONE, "not one whole batch"),
        (ONE + b"\0", "not one whole batch"),
        (changed(ONE, 16, ">b", 1), "magic is 1"),
        (ONE[:16] + b"\1", "magic is 1"),
        (changed(ONE, 21, ">h", 7), "no compression codec 7"),
        (build_batch([Record(b"", b"")], is_control=True), "control"),
        (changed(ONE, 57, ">i", 0), "record_count"),
        (changed(ONE, 57, ">i", -1), "record_count"),
        (changed(ONE, 57, ">i", 2), "last offset delta is 0"),
        (changed(ONE, 23, ">i", 5), "last offset delta is 5"),
        (changed(changed(ONE, 57, ">i", 2**30), 23, ">i", 2**30 - 1), "1073741824 records in 15 bytes"),
        (changed(ONE, 53, ">i", -1), None),
        (changed(changed(ONE, 53, ">i", -1), 43, ">q", 8), "without a sequence"),
    ],
)
def test_validate_tells_what_may_not_be_produced(data: bytes, reason: str | None) -> None:
    if reason is None:
        validate_batch(data)
        return
    with pytest.raises(InvalidBatchError, match=reason):
        validate_batch(data)


@pytest.mark.parametrize("control_type", list(ControlType))
def test_transaction_markers_round_trip(control_type: ControlType) -> None:
    marker = EndTransactionMarker(control_type, coordinator_epoch=17)
    batch = build_end_transaction_batch(marker, producer_id=9, producer_epoch=2, timestamp_ms=4, base_offset=11)
    header = parse_batch_header(batch)
    assert (header.is_control, header.is_transactional, header.producer_id) == (True, True, 9)
    assert [parse_control_record(record) for record in iter_records(batch)] == [marker]


def test_control_records_of_other_types_are_no_markers_and_bad_ones_are_errors() -> None:
    assert parse_control_record(Record(b"\0\0\0\2", b"")) is None
    assert parse_control_record(Record(b"\0\1\0\1more", b"\0\1\0\0\0\5more")) == EndTransactionMarker(
        ControlType.COMMIT, 5
    )
    for key, value in [
        (None, None),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\0", b"\0" * 6),
        (b"\0\0\0\0", None),
        (b"\0\0\0\0", b"\0" * 5),
        (b"\0\0\0\0", b"\xff" * 6),
    ]:
        with pytest.raises(ProtocolError, match="ControlRecord"):
            parse_control_record(Record(key, value))


def test_the_crc_is_that_of_the_package_and_its_import_is_spared() -> None:
    assert our_crc32c(b"123456789") == crc32c.crc32c(b"123456789") == 0xE3069283
    assert our_crc32c(memoryview(b"456789"), our_crc32c(b"123")) == 0xE3069283
    code = (
        "import sys, kshim_protocol.records.batch;"
        "print([m for m in ('argparse', 'cramjam', 'zlib', 'importlib.metadata', 'construct') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-S", "-c", _path() + code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_the_crc_comes_from_the_package_where_its_extension_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PathFinder, "find_spec", lambda name, path=None: None)
    assert crc._load()(b"123456789") == 0xE3069283


@pytest.mark.parametrize(
    "records", [b"\xff" * 20, b"\x10\0\xff\xff\xff\xff\xff\xff\xff", b"\0" * 7, b"\x0d" + b"\0" * 20]
)
def test_records_that_make_no_sense_are_refused(records: bytes) -> None:
    batch = build_batch([], last_offset_delta=0)
    batch = changed(changed(batch, 8, ">i", 49 + len(records)), 57, ">i", 1) + records
    for read in (iter_records, iter_timestamps):
        with pytest.raises(ProtocolError, match=r"records\[0\] at byte 61"):
            list(read(batch))


def _path() -> str:
    return f"import sys; sys.path[:] = {sys.path!r};"
