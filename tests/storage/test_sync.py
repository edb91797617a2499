"""Syncing beside appending: what is durable when, and what follows when a sync fails."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kshim.storage.file_log import FileLog
from kshim.storage.log import LogError
from kshim.storage.memory_log import MemoryLog
from kshim.storage.segments.file_sync import FileSync
from tests.storage.builders import FailingDisk, a_batch, values
from tests.storage.file_logs import UNLIMITED, reopened, segments


def begun(log: FileLog) -> FileSync:
    sync = log.begin_sync()
    assert sync is not None
    return sync


def failed(log: FileLog, disk: FailingDisk) -> None:
    """Let a sync of the log fail."""
    sync = begun(log)
    disk.broken.add("fdatasync")
    with pytest.raises(LogError) as caught:
        sync.run()
    sync.failed(caught.value)
    disk.broken.clear()


def test_a_log_in_memory_is_as_durable_as_it_gets_at_once() -> None:
    log = MemoryLog()
    log.append(a_batch("a", "b"))
    assert (log.durable_offset, log.begin_sync()) == (2, None)  # type: ignore[func-returns-value]


def test_what_was_appended_before_a_sync_began_is_durable_when_it_has_ended(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), calls=disk)
    assert log.begin_sync() is None
    log.append(a_batch("a"))
    sync = begun(log)
    log.append(a_batch("b"))
    assert (disk.synced, log.durable_offset) == ([], 0)
    thread = threading.Thread(target=sync.run)
    thread.start()
    thread.join()
    assert (disk.synced, log.durable_offset) == (["file", "directory", "directory"], 0)
    sync.finish()
    assert log.durable_offset == 1
    second = begun(log)
    second.run()
    second.finish()
    assert (log.durable_offset, disk.synced[3:]) == (2, ["file"])
    assert log.begin_sync() is None
    log.close()


def test_one_sync_of_a_log_at_a_time(folder: Path) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a"))
    sync = begun(log)
    log.append(a_batch("b"))
    assert log.begin_sync() is None
    sync.run()
    sync.finish()
    begun(log).run()
    log.close()


def test_a_roll_syncs_nothing_and_the_next_sync_syncs_all_segments_in_order(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), segment_bytes=1, calls=disk)
    for text in "abc":
        log.append(a_batch(text))
    assert disk.synced == []
    sync = begun(log)
    log.append(a_batch("d"))
    sync.run()
    sync.finish()
    assert (log.durable_offset, disk.synced) == (3, ["file"] * 3 + ["directory"] * 2)
    last = begun(log)
    last.run()
    last.finish()
    assert (log.durable_offset, disk.synced[5:]) == (
        4,
        ["file"] * 2 + ["directory"] * 2,
    )  # the last one once more, for its index
    log.close()


def test_a_roll_during_a_sync_loses_nothing_of_what_came_behind_it(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), segment_bytes=2 * len(a_batch("a")), calls=disk)
    log.append(a_batch("a"))
    sync = begun(log)
    log.append(a_batch("b"))
    log.append(a_batch("c"))
    sync.run()
    sync.finish()
    assert log.durable_offset == 1
    second = begun(log)
    assert [segment.base_offset for segment in second.segments] == [0, 2]
    second.run()
    second.finish()
    assert log.durable_offset == 3
    log.close()


def test_after_a_failed_sync_nothing_is_appended_until_the_log_is_repaired(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), calls=disk)
    log.append(a_batch("a"))
    failed(log, disk)
    for _ in range(2):
        with pytest.raises(LogError, match=r"cannot sync .*00\.log: Input/output error"):
            log.append(a_batch("b"))
    assert (log.begin_sync(), log.durable_offset, values(log.read(0, UNLIMITED))) == (None, 0, ["a"])


@pytest.mark.parametrize("segment_bytes", [1, 1 << 30])
def test_a_cut_log_goes_on_at_its_durable_offset(folder: Path, disk: FailingDisk, segment_bytes: int) -> None:
    log = FileLog(str(folder), segment_bytes=segment_bytes, calls=disk)
    log.append(a_batch("a", "b"))
    log.sync()
    log.append(a_batch("lost"))
    log.append(a_batch("too"))
    failed(log, disk)
    log.cut_unsynced()
    assert (log.end_offset, log.durable_offset, values(log.read(0, UNLIMITED))) == (2, 2, ["a", "b"])
    assert log.append(a_batch("c")) == 2
    log.sync()
    assert log.durable_offset == 3
    log.close()
    again, cuts = reopened(folder)
    assert (values(again.read(0, UNLIMITED)), cuts) == (["a", "b", "c"], [])
    again.close()


@pytest.mark.parametrize("segment_bytes", [1, 1 << 30])
def test_a_rewritten_log_has_lost_nothing_and_syncs_all_of_it_again(
    folder: Path, disk: FailingDisk, segment_bytes: int
) -> None:
    log = FileLog(str(folder), segment_bytes=segment_bytes, calls=disk)
    log.append(a_batch("a"))
    log.sync()
    for text in "bcd":
        log.append(a_batch(text))
    failed(log, disk)
    before = segments(folder)
    written: list[bytes] = []
    whole = disk.pwrite

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        written.append(data)
        return whole(descriptor, data, offset)

    disk.pwrite = pwrite
    log.rewrite_unsynced()
    assert values(b"".join(written)) == ["b", "c", "d"]
    assert (log.end_offset, log.durable_offset, segments(folder)) == (4, 1, before)
    assert log.append(a_batch("e")) == 4
    disk.synced.clear()
    log.sync()
    assert log.durable_offset == 5
    assert disk.synced.count("file") == (4 if segment_bytes == 1 else 1)
    log.close()


@pytest.mark.parametrize("repair", ["cut_unsynced", "rewrite_unsynced"])
def test_a_repair_that_fails_may_be_tried_again(folder: Path, disk: FailingDisk, repair: str) -> None:
    log = FileLog(str(folder), calls=disk)
    log.append(a_batch("a"))
    log.sync()
    log.append(a_batch("b"))
    failed(log, disk)
    disk.broken = {"pwrite", "ftruncate"}
    with pytest.raises(LogError):
        getattr(log, repair)()
    with pytest.raises(LogError, match="cannot sync"):
        log.append(a_batch("c"))
    disk.broken.clear()
    getattr(log, repair)()
    log.append(a_batch("c"))
    log.close()
    again, _ = reopened(folder)
    assert values(again.read(0, UNLIMITED)) == (["a", "c"] if repair == "cut_unsynced" else ["a", "b", "c"])
    again.close()


def test_a_sync_of_what_was_cut_meanwhile_makes_nothing_durable(folder: Path) -> None:
    log = FileLog(str(folder))
    for text in "abc":
        log.append(a_batch(text))
    sync = begun(log)
    log.truncate_to(1)
    log.append(a_batch("x"))
    log.append(a_batch("y"))
    sync.run()
    sync.finish()
    assert log.durable_offset == 0
    log.sync()
    assert log.durable_offset == 3
    log.truncate_to(2)
    assert log.durable_offset == 2
    log.close()


def test_a_sync_that_ends_after_its_log_was_closed_or_deleted_changes_nothing(folder: Path) -> None:
    log = FileLog(str(folder))
    log.append(a_batch("a"))
    sync = begun(log)
    log.delete()
    sync.run()
    sync.finish()
    assert not folder.exists()


def test_a_sync_that_is_thrown_away_leaves_no_descriptor_of_a_segment_unsynced_at_close(
    folder: Path, disk: FailingDisk
) -> None:
    log = FileLog(str(folder), segment_bytes=1, calls=disk)
    for text in "abc":
        log.append(a_batch(text))
    begun(log)
    log.close()
    assert disk.synced == ["file"] * 3 + ["directory"] * 2
