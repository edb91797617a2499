"""The files beside a segment: Kafka's formats, written after syncs, checked when read, made again when wrong."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshim.storage.file_log import FileLog
from kshim.storage.log import CorruptLog, LogError
from kshim.storage.os_calls import OsCalls
from kshim.storage.repairs import IndexRebuilt
from kshim.storage.segments.index import SegmentIndex
from kshim_protocol.records.batch import iter_batches, parse_batch_header, set_base_offset
from tests.storage.builders import FailingDisk, a_batch, base_offsets, offsets
from tests.storage.file_logs import FIRST, UNLIMITED, mended

INDEX, TIMEINDEX = "00000000000000000000.index", "00000000000000000000.timeindex"


def entries(path: Path) -> list[tuple[int, int]]:
    """(relative offset, position)."""
    return list(struct.iter_unpack(">ii", path.read_bytes()))


def times(path: Path) -> list[tuple[int, int]]:
    """(timestamp, relative offset)."""
    return list(struct.iter_unpack(">qi", path.read_bytes()))


def filled(folder: Path, count: int = 400, *, base: int = 0, calls: OsCalls | None = None) -> FileLog:
    """Batches of one to three records, about a hundred bytes each, timestamps rising."""
    log = FileLog(str(folder), calls=calls)
    for i in range(count):
        log.append(a_batch(*"abc"[: 1 + i % 3], timestamp_ms=base + 10 * i, pad=i % 40))
    return log


def as_kafka_would(log: FileLog) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The entries that Kafka's LogSegment.append writes, and what closing it adds."""
    offsets_: list[tuple[int, int]] = []
    times_: list[tuple[int, int]] = []
    position = since = 0
    greatest = (-1, 0)
    for batch in log.batches():
        header = parse_batch_header(batch)
        greatest = max(greatest, (header.max_timestamp_ms, header.last_offset), key=lambda pair: pair[0])
        if since > 4096:
            offsets_.append((header.last_offset, position))
            if not times_ or greatest[0] > times_[-1][0]:
                times_.append(greatest)
            since = 0
        since += len(batch)
        position += len(batch)
    if not times_ or greatest[0] > times_[-1][0]:
        times_.append(greatest)
    return offsets_, times_


def test_the_files_of_a_closed_log_are_those_of_kafka(folder: Path) -> None:
    log = filled(folder)
    expected = as_kafka_would(log)
    log.close()
    assert (entries(folder / INDEX), times(folder / TIMEINDEX)) == expected
    assert len(expected[0]) > 5


def test_entries_are_written_once_what_lies_before_them_was_synced(folder: Path, disk: FailingDisk) -> None:
    log = filled(folder, 200, calls=disk)
    assert not (folder / INDEX).exists()
    sync = log.begin_sync()
    assert sync is not None
    for i in range(200):
        log.append(a_batch("later", timestamp_ms=10_000 + i))
    log_bytes = log.bytes_from(0) - 200 * len(a_batch("later"))
    sync.run()
    sync.finish()
    written = entries(folder / INDEX)
    assert written
    assert all(position < log_bytes for _, position in written)
    log.sync()
    assert entries(folder / INDEX)[: len(written)] == written
    assert len(entries(folder / INDEX)) > len(written)
    log.close()


def test_a_sync_that_fails_writes_no_entries(folder: Path, disk: FailingDisk) -> None:
    log = filled(folder, 200, calls=disk)
    disk.broken.add("fdatasync")
    with pytest.raises(LogError):
        log.sync()
    assert not (folder / INDEX).exists()
    log.forget()


def test_an_index_that_cannot_be_written_is_no_failure_and_is_tried_again(folder: Path, disk: FailingDisk) -> None:
    log = filled(folder, 200, calls=disk)
    whole = disk.open

    def open_(path: str) -> int:
        if path.endswith("index"):
            raise OSError(28, "No space left on device")
        return whole(path)

    disk.open = open_
    log.sync()
    assert log.durable_offset == log.end_offset
    assert not (folder / INDEX).exists()
    disk.open = whole
    log.append(a_batch("x", timestamp_ms=99_999))
    expected = as_kafka_would(log)
    log.close()
    assert (entries(folder / INDEX), times(folder / TIMEINDEX)) == expected


class Counting(OsCalls):
    """Counts the bytes read from segments."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0
        real = self.pread

        def pread(descriptor: int, size: int, offset: int) -> bytes:
            data = real(descriptor, size, offset)
            self.bytes_read += len(data)
            return data

        self.pread = pread


def test_opening_a_closed_log_reads_almost_nothing(folder: Path) -> None:
    log = filled(folder, 3_000)
    size_bytes = log.size_bytes
    facts = (log.end_offset, log.max_timestamp(), log.offset_for_timestamp(12_345))
    log.close()
    calls = Counting()
    again = FileLog(str(folder), calls=calls)
    assert again.end_offset == facts[0]
    assert calls.bytes_read < 10_000 < size_bytes
    assert (again.end_offset, again.max_timestamp(), again.offset_for_timestamp(12_345)) == facts
    assert calls.bytes_read < 30_000
    again.close()


def test_older_segments_are_not_opened_before_they_are_used(folder: Path) -> None:
    log = FileLog(str(folder), segment_bytes=20_000)
    for i in range(600):
        log.append(a_batch("v", timestamp_ms=i))
    log.close()
    calls = OsCalls()
    opened: list[str] = []
    real = calls.open

    def open_(path: str) -> int:
        opened.append(path)
        return real(path)

    calls.open = open_
    again = FileLog(str(folder), was_closed=True, calls=calls)
    assert (again.start_offset, again.end_offset, again.append(a_batch("w"))) == (0, 600, 600)
    assert len(set(opened)) == 1
    assert offsets(again.read(3, 1)) == [3]
    assert len(set(opened)) == 2
    again.close()


def test_the_last_entry_is_the_recovery_point(folder: Path) -> None:
    log = filled(folder, 400)
    log.sync()
    durable = entries(folder / INDEX)[-1]
    for i in range(100):
        log.append(a_batch("unsynced", timestamp_ms=50_000 + i))
    end_offset = log.end_offset
    log.forget()  # as a kill does
    again, repairs = mended(folder)
    assert (again.end_offset, repairs) == (end_offset, [])
    assert again.durable_offset <= durable[0]
    assert parse_batch_header(again.read(again.durable_offset, 1)).last_offset == durable[0]
    again.sync()
    assert again.durable_offset == end_offset
    again.close()


def test_after_a_kill_the_newest_segments_without_an_entry_are_synced_again(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), segment_bytes=20_000)
    for i in range(300):
        log.append(a_batch("v", timestamp_ms=i))
    log.sync()
    rolled = len(log.segments())
    for i in range(600):
        log.append(a_batch("w", timestamp_ms=300 + i))
    unsynced = len(log.segments()) - rolled + 1  # and perhaps the one before: where the last entry is
    end_offset = log.end_offset
    log.forget()
    again = FileLog(str(folder), segment_bytes=20_000, calls=disk)
    assert again.durable_offset <= 300
    again.sync()
    assert again.durable_offset == end_offset
    assert unsynced <= disk.synced.count("file") <= unsynced + 1
    again.close()


# Missing and wrong


def wrong(name: str, data: bytes) -> bytes:
    half = len(data) // 24 * 12
    return {
        "empty": b"",
        "truncated": data[:half],
        "torn": data[: half + 5],
        "zeros behind": data + bytes(10_000),
        "zeros from the middle on": data[:half] + bytes(len(data) - half),
        "rubbish": b"\xa5" * len(data),
        "shuffled": data[half:] + data[:half],
        "beyond the file": data + struct.pack(">iii", 1 << 30, 1 << 30, 1 << 30) * 2,
        "a bit flipped in the last entry": data[:-1] + bytes([data[-1] ^ 1]),
        "first entry of nothing": bytes(12) + data,
    }[name]


@pytest.mark.parametrize("suffix", [INDEX, TIMEINDEX])
@pytest.mark.parametrize(
    "name",
    [
        "missing",
        "empty",
        "truncated",
        "torn",
        "zeros behind",
        "zeros from the middle on",
        "rubbish",
        "shuffled",
        "beyond the file",
        "a bit flipped in the last entry",
        "first entry of nothing",
    ],
)
def test_a_log_reads_the_same_whatever_became_of_its_indexes(folder: Path, suffix: str, name: str) -> None:
    log = filled(folder)
    expected = as_kafka_would(log)
    data = log.read(0, UNLIMITED)
    looked_up = [log.offset_for_timestamp(t) for t in range(0, 4_100, 37)]
    facts = (log.end_offset, log.max_timestamp())
    log.close()
    path = folder / suffix
    if name == "missing":
        path.unlink()
    else:
        path.write_bytes(wrong(name, path.read_bytes()))
    again, repairs = mended(folder)
    assert all(isinstance(repair, IndexRebuilt) for repair in repairs)
    is_seen = suffix == INDEX and name in ("beyond the file", "first entry of nothing")
    if is_seen or name in ("missing", "rubbish", "shuffled"):
        assert [repair.path for repair in repairs] == [str(folder / FIRST)]
        assert "Rebuilt the index of" in repairs[0].sentence
    assert (again.end_offset, again.max_timestamp()) == facts
    assert again.read(0, UNLIMITED) == data
    for batch in iter_batches(data):
        header = parse_batch_header(batch)
        assert base_offsets(again.read(header.last_offset, 1)) == [header.base_offset]
    assert [again.offset_for_timestamp(t) for t in range(0, 4_100, 37)] == looked_up
    again.append(a_batch("x", timestamp_ms=1))
    again.close()
    assert entries(folder / INDEX)[: len(expected[0])] == expected[0]
    last, none = mended(folder)
    assert (last.end_offset, none) == (facts[0] + 1, [])
    last.close()


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=200),
    st.lists(st.tuples(st.integers(-5, 1 << 31), st.integers(-5, 60_000)), max_size=12),
    st.booleans(),
)
def test_no_index_whatever_it_holds_makes_a_log_read_otherwise(
    tmp_path_factory: pytest.TempPathFactory, rubbish: bytes, made_up: list[tuple[int, int]], is_made_up: bool
) -> None:
    folder = tmp_path_factory.mktemp("log") / "topic-0"
    log = filled(folder, 300)
    data = log.read(0, UNLIMITED)
    log.close()
    if is_made_up:
        rubbish = b"".join(struct.pack(">II", offset & 0xFFFFFFFF, at & 0xFFFFFFFF) for offset, at in sorted(made_up))
    (folder / INDEX).write_bytes(rubbish)
    again, _ = mended(folder)
    assert b"".join(again.batches()) == data
    for offset in range(0, again.end_offset, 41):
        found = parse_batch_header(again.read(offset, 1))
        assert found.base_offset <= offset <= found.last_offset
    again.close()


def test_an_entry_in_the_middle_that_points_at_no_batch_is_found_out_when_it_is_used(folder: Path) -> None:
    log = filled(folder)
    log.close()
    data = bytearray((folder / INDEX).read_bytes())
    offset, position = struct.unpack_from(">ii", data, 16)
    struct.pack_into(">ii", data, 16, offset, position + 1)
    (folder / INDEX).write_bytes(bytes(data))
    again, repairs = mended(folder)
    assert repairs == []
    found = parse_batch_header(again.read(offset, 1))
    assert found.base_offset <= offset <= found.last_offset
    assert repairs == [IndexRebuilt(str(folder / FIRST), "pointed at no batch")]
    again.close()


def test_truncating_cuts_the_indexes_before_the_log(folder: Path) -> None:
    log = filled(folder)
    log.sync()
    log.truncate_to(100)
    assert entries(folder / INDEX)[-1][0] < 100
    for _ in range(60):
        log.append(a_batch("other", timestamp_ms=7, pad=90))
    expected = as_kafka_would(log)
    log.close()
    assert (entries(folder / INDEX), times(folder / TIMEINDEX)) == expected
    again, repairs = mended(folder)
    assert repairs == []
    again.close()


def test_a_batch_too_far_from_the_first_one_for_an_index_is_damage(folder: Path) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a", pad=5_000))
    log.append(a_batch("b"))
    log.append(a_batch("c"))
    log.close()
    size = len(a_batch("a", pad=5_000))
    data = (folder / FIRST).read_bytes()
    far = set_base_offset(a_batch("b"), (1 << 31) + 5)
    (folder / INDEX).unlink()
    (folder / FIRST).write_bytes(data[:size] + far + data[size + len(far) :])
    with pytest.raises(CorruptLog, match="no batch header"):
        mended(folder)


def test_an_index_says_how_many_entries_it_has(tmp_path: Path) -> None:
    index = SegmentIndex(str(tmp_path / "0"), 0, OsCalls())
    assert (len(index), index.load(0), index.last_time) == (0, None, (-1, 0))
    index.add(5, 5_000, 77, 4)
    assert (len(index), index.last_position, index.last_time, index.before_offset(1 << 40)) == (
        1,
        5_000,
        (77, 4),
        (5_000, 5),
    )
