"""Logs in files: Kafka's layout, reopening, torn tails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kshim.storage.file_log import FileLog
from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls
from kshim.storage.repairs import TailCut
from kshim_protocol.records.batch import build_batch, set_base_offset
from tests.storage.builders import FailingDisk, a_batch, base_offsets, values
from tests.storage.file_logs import FIRST, UNLIMITED, build_batch_at, reopened, segments


def test_nothing_is_made_before_the_first_append(folder: Path) -> None:
    log = FileLog(str(folder))
    assert log.end_offset == 0
    log.close()
    assert not folder.exists()


def test_the_file_holds_the_batches_as_they_are(folder: Path) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a", "b"))
    log.append(a_batch("c"))
    assert (folder / FIRST).read_bytes() == a_batch("a", "b") + set_base_offset(a_batch("c"), 2)
    log.close()


def test_segments_are_named_by_their_first_offset_and_hold_at_most_segment_bytes(folder: Path) -> None:
    size = len(a_batch("a", "b"))
    log = FileLog(str(folder), segment_bytes=2 * size)
    for _ in range(5):
        log.append(a_batch("a", "b"))
    log.append(a_batch("x", pad=10 * size))
    assert segments(folder) == {
        FIRST: 2 * size,
        "00000000000000000004.log": 2 * size,
        "00000000000000000008.log": size,
        "00000000000000000010.log": len(a_batch("x", pad=10 * size)),
    }
    assert base_offsets(log.read(0, UNLIMITED)) == [0, 2, 4, 6, 8, 10]
    log.close()


def test_a_segment_ends_before_its_relative_offsets_leave_32_bits(folder: Path) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a"))
    for _ in range(2):
        log.append(build_batch([], last_offset_delta=2**31 - 2))
    assert list(segments(folder)) == [FIRST, f"{2**31:020}.log"]
    log.close()


@pytest.mark.parametrize("segment_bytes", [1, 200, 1 << 30])
def test_a_log_is_the_same_after_reopening(folder: Path, segment_bytes: int) -> None:
    log = FileLog(str(folder), segment_bytes=segment_bytes)
    for i in range(40):
        log.append(a_batch(*"abc"[: 1 + i % 3], timestamp_ms=(i * 7) % 23))
    log.delete_before(5)
    facts = (log.start_offset, log.end_offset, log.size_bytes, log.max_timestamp(), log.read(5, UNLIMITED))
    timestamps = [log.offset_for_timestamp(t) for t in range(30)]
    log.close()
    again, cuts = reopened(folder, segment_bytes=segment_bytes)
    assert facts == (
        again.start_offset,
        again.end_offset,
        again.size_bytes,
        again.max_timestamp(),
        again.read(5, UNLIMITED),
    )
    assert timestamps == [again.offset_for_timestamp(t) for t in range(30)]
    assert cuts == []
    assert again.append(a_batch("z")) == facts[1]
    again.close()


def test_reopening_goes_through_files_larger_than_one_read(folder: Path) -> None:
    log = FileLog(str(folder))
    for i in range(3_000):
        log.append(a_batch("v", timestamp_ms=i, pad=i % 1_000))
    log.append(a_batch("large", timestamp_ms=1, pad=2_500_000))
    log.append(a_batch("last", timestamp_ms=2))
    log.close()
    again, cuts = reopened(folder)
    assert (again.end_offset, again.size_bytes, cuts) == (3_002, (folder / FIRST).stat().st_size, [])
    assert again.max_timestamp() == (2_999, 2_999)
    assert again.offset_for_timestamp(2_000) == (2_000, 2_000)
    assert values(again.read(3_000, UNLIMITED)) == ["large", "last"]
    again.close()


def test_a_deleted_start_is_kept_and_whole_segments_go(folder: Path) -> None:
    log = FileLog(str(folder), segment_bytes=1)
    for _ in range(4):
        log.append(a_batch("a", "b"))
    log.delete_before(5)
    assert list(segments(folder)) == ["00000000000000000004.log", "00000000000000000006.log"]
    log.close()
    again, _ = reopened(folder)
    assert (again.start_offset, again.end_offset) == (5, 8)
    again.delete_before(8)
    assert segments(folder) == {"00000000000000000008.log": 0}
    again.close()
    last, _ = reopened(folder)
    assert (last.start_offset, last.end_offset) == (8, 8)
    assert last.append(a_batch("c")) == 8
    last.close()


def test_segments_that_a_crash_kept_from_deletion_go_at_the_next_start(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), segment_bytes=1, calls=disk)
    for _ in range(4):
        log.append(a_batch("a"))
    whole = disk.rename

    def rename(old: str, new: str) -> None:
        if new.endswith(".deleted"):
            raise disk.error
        whole(old, new)

    disk.rename = rename
    with pytest.raises(LogError, match="cannot remove"):
        log.delete_before(2)
    assert log.start_offset == 2
    assert len(segments(folder)) == 4
    log.close()
    again, _ = reopened(folder)
    assert (again.start_offset, len(segments(folder))) == (2, 2)
    again.close()


def test_a_start_beyond_a_lost_tail_is_where_the_log_goes_on(folder: Path) -> None:
    log = FileLog(str(folder))
    for _ in range(4):
        log.append(a_batch("a"))
    log.delete_before(3)
    log.close()
    os.truncate(folder / FIRST, len(a_batch("a")))
    again, _ = reopened(folder)
    assert (again.start_offset, again.end_offset) == (3, 3)
    assert again.append(a_batch("b")) == 3
    assert values(again.read(3, UNLIMITED)) == ["b"]
    again.close()


def test_a_torn_last_batch_is_cut_wherever_it_is_torn(folder: Path) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a"))
    log.append(a_batch("b"))
    log.append(a_batch("torn", "apart"))
    log.close()
    data = (folder / FIRST).read_bytes()
    whole = 2 * len(a_batch("a"))
    for size in range(whole + 1, len(data)):
        (folder / FIRST).write_bytes(data[:size])
        again, cuts = reopened(folder)
        assert (again.end_offset, again.size_bytes, segments(folder)) == (2, whole, {FIRST: whole})
        assert [(cut.path, cut.position, cut.bytes_cut) for cut in cuts] == [(str(folder / FIRST), whole, size - whole)]
        assert again.append(a_batch("c")) == 2
        assert values(again.read(0, UNLIMITED)) == ["a", "b", "c"]
        again.close()


def test_a_last_batch_with_any_damaged_byte_under_the_crc_is_cut(folder: Path) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a"))
    log.append(a_batch("b"))
    log.close()
    data = (folder / FIRST).read_bytes()
    start = len(a_batch("a"))
    for at in range(start + 17, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        (folder / FIRST).write_bytes(bytes(damaged))
        again, cuts = reopened(folder)
        assert again.end_offset == 1
        assert [cut.bytes_cut for cut in cuts] == [len(data) - start]
        again.close()


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (bytes(4_096), "no batch header"),
        (b"\0", "file ends inside a header"),
        (b"\xff" * 100, "no batch header"),
        (set_base_offset(a_batch("late"), 9)[:-3], "file ends inside a batch"),
        (set_base_offset(a_batch("late"), 9)[:-3] + b"\0\0\0", "CRC differs"),
    ],
)
def test_whatever_else_stands_behind_the_last_batch_is_cut(folder: Path, tail: bytes, reason: str) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a"))
    log.append(a_batch("b"))
    log.close()
    with (folder / FIRST).open("ab") as file:
        file.write(tail)
    again, cuts = reopened(folder)
    assert (again.end_offset, values(again.read(0, UNLIMITED))) == (2, ["a", "b"])
    assert [(cut.bytes_cut, cut.reason) for cut in cuts] == [(len(tail), reason)]
    again.close()
    _, none = reopened(folder)
    assert none == []


def test_a_file_of_rubbish_becomes_an_empty_log(folder: Path) -> None:
    folder.mkdir()
    (folder / FIRST).write_bytes(b"rubbish " * 100)
    log, cuts = reopened(folder)
    assert (log.end_offset, log.size_bytes) == (0, 0)
    assert cuts == [TailCut(str(folder / FIRST), 0, 800, "no batch header")]
    log.close()


def test_an_empty_last_segment_is_where_the_log_goes_on(folder: Path) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a"))
    log.close()
    (folder / "00000000000000000001.log").touch()
    again, cuts = reopened(folder)
    assert (again.end_offset, cuts) == (1, [])
    assert again.append(a_batch("b")) == 1
    assert values(again.read(0, UNLIMITED)) == ["a", "b"]
    again.close()


def test_damage_before_the_last_segment_is_an_error_and_nothing_is_cut(folder: Path) -> None:
    log = FileLog(str(folder), segment_bytes=1)
    log.append(a_batch("a"))
    log.append(a_batch("b"))
    log.close()
    os.truncate(folder / FIRST, 70)
    sizes = segments(folder)
    damaged = FileLog(str(folder))
    for _ in range(2):
        with pytest.raises(LogError, match=r"00\.log is damaged at byte 0, offset 0: file ends inside a batch"):
            damaged.read(0, 1)
    assert segments(folder) == sizes


def test_segments_that_overlap_are_an_error(folder: Path) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a", "b", "c"))
    log.close()
    (folder / "00000000000000000002.log").write_bytes(set_base_offset(a_batch("x"), 2))
    with pytest.raises(LogError, match=r"ends at offset 3 and overlaps 00000000000000000002\.log"):
        FileLog(str(folder)).read(0, 1)
    with pytest.raises(LogError, match="ends at offset 3"):
        FileLog(str(folder)).check_tails()


def test_gaps_left_by_compaction_are_read_over(folder: Path) -> None:
    folder.mkdir()
    first = build_batch_at(5, "a", "b") + build_batch_at(20, "c")
    (folder / "00000000000000000005.log").write_bytes(first)
    (folder / "00000000000000000040.log").write_bytes(build_batch_at(45, "d"))
    log, cuts = reopened(folder)
    assert (log.start_offset, log.end_offset, cuts) == (5, 46, [])
    for offset, expected in [(5, [5, 20, 45]), (7, [20, 45]), (19, [20, 45]), (21, [45]), (44, [45])]:
        assert base_offsets(log.read(offset, UNLIMITED)) == expected
        assert log.bytes_from(offset) == len(log.read(offset, UNLIMITED))
        assert base_offsets(b"".join(log.batches(offset))) == expected
    log.close()


def test_other_files_in_the_folder_are_left_alone(folder: Path) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a"))
    log.close()
    others = ["partition.metadata", "leader-epoch-checkpoint", "00000000000000000009.snapshot", "0.log", "x.log"]
    for name in others:
        (folder / name).write_bytes(b"other")
    again, _ = reopened(folder)
    assert again.end_offset == 1
    again.close()
    assert all((folder / name).read_bytes() == b"other" for name in others)


def test_a_truncated_log_stays_truncated(folder: Path) -> None:
    log = FileLog(str(folder), segment_bytes=200)
    for i in range(20):
        log.append(a_batch(f"v{i}"))
    log.read(3, 1)  # an older segment's file is open while it becomes the last one
    log.truncate_to(3)
    assert log.append(a_batch("new")) == 3
    log.close()
    again, cuts = reopened(folder)
    assert (values(again.read(0, UNLIMITED)), cuts) == (["v0", "v1", "v2", "new"], [])
    again.close()


def test_delete_removes_the_folder(folder: Path) -> None:
    log = FileLog(str(folder), segment_bytes=1)
    log.append(a_batch("a"))
    log.append(a_batch("b"))
    log.delete()
    assert list(folder.parent.iterdir()) == []


def test_descriptors_stay_few_and_are_all_closed(folder: Path) -> None:
    opened: set[int] = set()
    most = 0
    calls = OsCalls()
    real_open, real_close, real_dup = calls.open, calls.close, calls.dup

    def open_(path: str) -> int:
        nonlocal most
        opened.add(descriptor := real_open(path))
        most = max(most, len(opened))
        return descriptor

    def dup(descriptor: int) -> int:
        opened.add(duplicate := real_dup(descriptor))
        return duplicate

    def close(descriptor: int) -> None:
        opened.remove(descriptor)
        real_close(descriptor)

    calls.open, calls.open_existing, calls.close, calls.dup = open_, open_, close, dup
    log = FileLog(str(folder), segment_bytes=1, calls=calls)
    for i in range(20):
        log.append(a_batch("a", timestamp_ms=i))
    assert len(log.read(0, UNLIMITED)) == log.bytes_from(0)
    assert sum(1 for _ in log.batches()) == 20
    assert log.offset_for_timestamp(10) == (10, 10)
    log.truncate_to(12)
    log.delete_before(3)
    assert log.max_timestamp() == (11, 11)
    log.append(a_batch("b"))
    log.close()
    again = FileLog(str(folder), segment_bytes=1, calls=calls)
    assert values(again.read(12, 1)) == ["b"]
    again.close()
    assert most <= 12  # the few that wait to be synced stay open
    assert opened == set()


@pytest.mark.parametrize(
    ("content", "reason"), [(b"1\n5\n", "has version"), (b"0\nfive\n", "is damaged"), (b"", "is damaged")]
)
def test_a_start_offset_file_that_makes_no_sense_is_an_error(folder: Path, content: bytes, reason: str) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a"))
    log.close()
    (folder / "log-start-offset").write_bytes(content)
    with pytest.raises(LogError, match=reason):
        _ = FileLog(str(folder)).start_offset


def test_gaps_as_wide_as_an_index_interval_are_read_over(folder: Path) -> None:
    folder.mkdir()
    batches = [set_base_offset(a_batch("v", pad=pad), 10 * i) for i, pad in enumerate([1_000] * 9 + [9_000] * 3)]
    (folder / FIRST).write_bytes(b"".join(batches))
    log, _ = reopened(folder)
    for offset in range(111):
        assert base_offsets(log.read(offset, 1)) == [-(-offset // 10) * 10]
        assert log.bytes_from(offset) == sum(len(batch) for batch in batches[-(-offset // 10) :])
    for limit in range(0, 40_000, 501):
        whole = [i for i in range(13) if sum(len(batch) for batch in batches[:i]) <= limit][-1]
        assert len(base_offsets(log.read(0, limit, at_least_one_batch=False))) == whole
    log.close()


def test_a_read_of_nothing_stops_at_a_segment_whose_index_is_empty(folder: Path) -> None:
    log = FileLog(str(folder))
    for text in ("a", "b", "c"):
        log.append(a_batch(text))
    log.truncate_to(2)
    assert log.read(1, 0, at_least_one_batch=False) == b""
    assert base_offsets(log.read(1, 0)) == [1]
    log.close()
