"""Segment files become records, transactions resolved as a read_committed consumer does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kshim_pipeline.errors import PipelineError
from kshim_pipeline.inputs.segments import DamagedSegmentError, committed_records, read_segments
from kshim_pipeline.records import RECORDS
from kshim_pipeline.topics import OFFSETS_TOPIC
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from kshim_protocol.records.record import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def a_batch(first: int, *values: bytes | None, producer_id: int = -1, codec: Compression = Compression.NONE) -> bytes:
    """Records from offset `first` on with key `k` and times that equal their offsets."""
    records = [Record(b"k", value, timestamp_ms=first + at, offset=first + at) for at, value in enumerate(values)]
    return build_batch(
        records,
        base_offset=first,
        compression=codec,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )


def a_marker(offset: int, kind: ControlType, producer_id: int) -> bytes:
    return build_end_transaction_batch(
        EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=0, base_offset=offset
    )


def a_partition(home: Path, *segments: bytes, partition: int = 0, topic: str = OFFSETS_TOPIC) -> Path:
    """A folder with the segments, each named by the first offset in it."""
    folder = home / f"{topic}-{partition}"
    folder.mkdir(parents=True)
    for data in segments:
        (folder / f"{int.from_bytes(data[:8], 'big'):020}.log").write_bytes(data)
    return folder


def read(folder: Path) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in committed_records(folder)]


def test_segments_are_read_in_order_and_other_files_left_alone(tmp_path: Path) -> None:
    folder = a_partition(tmp_path, a_batch(0, b"a", None) + a_batch(5, b"b"), a_batch(9, b"c"))
    for name in ("00000000000000000000.index", "00000000000000000000.log.cleaned", "leader-epoch-checkpoint"):
        (folder / name).write_bytes(b"something else")
    assert read(folder) == [(0, b"a"), (1, None), (5, b"b"), (9, b"c")]


@pytest.mark.parametrize("codec", list(Compression))
def test_every_compression_is_read(tmp_path: Path, codec: Compression) -> None:
    folder = a_partition(tmp_path, a_batch(3, b"a" * 100, b"b", codec=codec))
    assert read(folder) == [(3, b"a" * 100), (4, b"b")]


def test_only_committed_transactions_are_read(tmp_path: Path) -> None:
    folder = a_partition(
        tmp_path,
        a_batch(0, b"kept", producer_id=1)
        + a_batch(1, b"aborted", producer_id=2)
        + a_batch(2, b"plain")
        + a_marker(3, ControlType.ABORT, 2)
        + a_marker(4, ControlType.COMMIT, 1)
        + a_batch(5, b"open", producer_id=2),
    )
    assert read(folder) == [(2, b"plain"), (0, b"kept")]


def test_a_batch_that_is_still_being_written_ends_the_reading(tmp_path: Path) -> None:
    whole, torn = a_batch(0, b"a"), a_batch(1, b"b")
    for cut in (5, 30, len(torn) - 1):
        assert read(a_partition(tmp_path / str(cut), whole + torn[:cut])) == [(0, b"a")]


def test_reserved_space_is_the_end(tmp_path: Path) -> None:
    assert read(a_partition(tmp_path, a_batch(0, b"a") + bytes(4096))) == [(0, b"a")]


def test_a_damaged_batch_is_named_with_its_place(tmp_path: Path) -> None:
    first = a_batch(0, b"a")
    data = bytearray(first + a_batch(1, b"bbbb") + a_batch(2, b"c"))
    data[len(first) + 65] ^= 0xFF
    folder = a_partition(tmp_path, bytes(data))
    with pytest.raises(DamagedSegmentError, match=rf"00\.log at byte {len(first)}: the CRC of the batch at offset 1"):
        read(folder)


def test_a_length_beyond_the_end_is_damage_when_batches_follow(tmp_path: Path) -> None:
    first = a_batch(0, b"a")
    data = bytearray(first + a_batch(1, b"bbbb") + a_batch(2, b"c"))
    data[len(first) + 8] = 0x7F
    with pytest.raises(DamagedSegmentError, match=f"at byte {len(first)}: the batch at offset 1 has [0-9]+ bytes"):
        read(a_partition(tmp_path, bytes(data)))


def test_a_folder_without_such_partitions_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    a_partition(tmp_path, a_batch(0, b"a"), topic="orders")
    with pytest.raises(PipelineError, match=f"contains no partition of {OFFSETS_TOPIC}"):
        read_segments(spark, str(tmp_path))


def test_partitions_become_records(tmp_path: Path, spark: SparkSession) -> None:
    a_partition(tmp_path, a_batch(0, b"a"), partition=7)
    a_partition(tmp_path, a_batch(4, None), partition=12)
    a_partition(tmp_path, a_batch(0, b"x"), topic="orders")
    found = read_segments(spark, str(tmp_path), name="here")
    assert found.schema == RECORDS
    assert [tuple(row) for row in found.orderBy("partition").collect()] == [
        (OFFSETS_TOPIC, 7, 0, 0, b"k", b"a", "here"),
        (OFFSETS_TOPIC, 12, 4, 4, b"k", None, "here"),
    ]
