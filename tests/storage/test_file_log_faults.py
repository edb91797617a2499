"""Logs in files on disks that fail or fill up, or are changed behind our back."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kshim.storage.file_log import FileLog
from kshim.storage.log import LogError
from tests.storage.builders import FailingDisk, a_batch, values
from tests.storage.file_logs import FIRST, UNLIMITED, reopened, segments


@pytest.mark.parametrize("room", [0, 1, 60, 61, 70])
def test_a_full_disk_leaves_the_log_as_it_was(folder: Path, disk: FailingDisk, room: int) -> None:
    log = FileLog(str(folder), calls=disk)
    log.append(a_batch("a"))
    facts = (log.end_offset, log.size_bytes, log.max_timestamp(), segments(folder))
    disk.error = OSError(errno.ENOSPC, "No space left on device")
    for _ in range(2):
        disk.free_bytes = room
        with pytest.raises(LogError, match=r"cannot append to .*00\.log: No space left on device"):
            log.append(a_batch("b", timestamp_ms=9_000))
        assert facts == (log.end_offset, log.size_bytes, log.max_timestamp(), segments(folder))
    disk.free_bytes = None
    assert log.append(a_batch("c")) == 1
    assert values(log.read(0, UNLIMITED)) == ["a", "c"]
    log.close()
    again, cuts = reopened(folder)
    assert (values(again.read(0, UNLIMITED)), cuts) == (["a", "c"], [])
    again.close()


def test_a_write_in_pieces_is_finished(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), calls=disk)
    whole = disk.pwrite
    disk.pwrite = lambda descriptor, data, offset: whole(descriptor, data[:7], offset)
    log.append(a_batch("a"))
    assert values(log.read(0, UNLIMITED)) == ["a"]
    log.close()


def test_a_write_that_takes_nothing_fails(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), calls=disk)
    disk.pwrite = lambda descriptor, data, offset: 0
    with pytest.raises(LogError, match="nothing was written"):
        log.append(a_batch("a"))
    assert log.end_offset == 0


def test_what_cannot_even_be_cut_off_is_overwritten_or_cut_at_the_next_start(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), calls=disk)
    log.append(a_batch("a"))
    disk.free_bytes, disk.broken = 70, {"ftruncate"}
    with pytest.raises(LogError):
        log.append(a_batch("b", "lost", "in", "part"))
    assert segments(folder)[FIRST] == len(a_batch("a")) + 70
    disk.free_bytes, disk.broken = None, set()
    again, cuts = reopened(folder)
    assert (values(again.read(0, UNLIMITED)), [cut.bytes_cut for cut in cuts]) == (["a"], [70])
    again.close()
    assert log.append(a_batch("c")) == 1
    assert values(log.read(0, UNLIMITED)) == ["a", "c"]
    log.close()


@pytest.mark.parametrize("call", ["open", "mkdir"])
def test_a_failed_roll_leaves_the_log_as_it_was(folder: Path, disk: FailingDisk, call: str) -> None:
    log = FileLog(str(folder), segment_bytes=1, calls=disk)
    log.append(a_batch("a"))
    disk.broken.add(call)
    if call == "mkdir":  # only the first segment needs it
        assert log.append(a_batch("b")) == 1
    else:
        with pytest.raises(LogError, match="cannot"):
            log.append(a_batch("b"))
        assert (log.end_offset, values(log.read(0, UNLIMITED))) == (1, ["a"])


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    log = FileLog(str(tmp_path / "missing" / "topic-0"))
    with pytest.raises(LogError, match=r"cannot create .*No such file"):
        log.append(a_batch("a"))
    assert log.end_offset == 0


def test_reading_errors_are_log_errors(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), calls=disk)
    log.append(a_batch("a"))
    disk.broken.add("pread")
    with pytest.raises(LogError, match=r"cannot read .*00\.log: Input/output error"):
        log.read(0, 10)
    disk.broken.clear()
    os.truncate(folder / FIRST, 5)
    with pytest.raises(LogError, match="ends at byte 5"):
        log.read(0, 10)


def test_a_failed_sync_is_never_forgotten(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), calls=disk)
    log.append(a_batch("a"))
    disk.broken.add("fdatasync")
    with pytest.raises(LogError, match="cannot sync"):
        log.sync()
    disk.broken.clear()
    with pytest.raises(LogError, match="cannot sync"):
        log.sync()
    with pytest.raises(LogError, match="cannot sync"):
        log.close()


def test_a_folder_that_cannot_be_synced_is_an_error(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), calls=disk)
    log.append(a_batch("a"))
    disk.broken.add("sync_directory")
    with pytest.raises(LogError, match=r"cannot sync .*topic-0"):
        log.sync()


def test_a_truncation_that_fails_is_an_error_and_changes_nothing(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), calls=disk)
    log.append(a_batch("a"))
    log.append(a_batch("b"))
    disk.broken.add("ftruncate")
    with pytest.raises(LogError, match="cannot truncate"):
        log.truncate_to(1)
    assert values(log.read(0, UNLIMITED)) == ["a", "b"]
    disk.broken.clear()
    log.truncate_to(1)
    assert values(log.read(0, UNLIMITED)) == ["a"]
    log.close()


def test_a_read_in_pieces_is_finished(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), calls=disk)
    log.append(a_batch("a"))
    log.append(a_batch("b"))
    whole = disk.pread
    disk.pread = lambda descriptor, size, offset: whole(descriptor, min(size, 50), offset)
    assert values(log.read(0, UNLIMITED)) == ["a", "b"]
    assert [values(batch) for batch in log.batches()] == [["a"], ["b"]]
    log.close()


def test_a_file_changed_behind_our_back_is_an_error(folder: Path) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a"))
    log.append(a_batch("b"))
    with (folder / FIRST).open("r+b") as file:
        file.seek(8)
        file.write(b"\x7f\0\0\0")
    with pytest.raises(LogError, match="was changed by another program"):
        list(log.batches())


def test_a_folder_that_cannot_be_listed_or_renamed_is_an_error(folder: Path, disk: FailingDisk) -> None:
    folder.write_text("not a folder")
    with pytest.raises(LogError, match="cannot list"):
        _ = FileLog(str(folder)).end_offset
    folder.unlink()
    log = FileLog(str(folder), calls=disk)
    log.append(a_batch("a"))
    disk.broken.add("rename")
    with pytest.raises(LogError, match="cannot delete"):
        log.delete()
    with pytest.raises(LogError, match="cannot write"):
        FileLog(str(folder), calls=disk).delete_before(1)
