"""Replacing sealed segments by a cleaned one, and what a crash in the middle of it leaves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kshim.storage.file_log import FileLog
from kshim.storage.log import CorruptLog, LogError
from kshim.storage.os_calls import OsCalls
from kshim.storage.segments.segment_replacement import Replacement
from kshim_protocol.records.batch import iter_batches, set_base_offset
from tests.storage.builders import FailingDisk, a_batch, base_offsets, values
from tests.storage.file_logs import UNLIMITED, mended, segments

OLD = ["a", "b", "c", "d", "e"]
NEW = ["b", "d", "e"]


class Crash(Exception):
    """The process ends here."""


def filled(folder: Path, calls: OsCalls | None = None) -> FileLog:
    """A segment for each of five batches, all durable but the last, which is active."""
    log = FileLog(str(folder), segment_bytes=1, calls=calls)
    for text in OLD:
        log.append(a_batch(text, pad=5_000))
    log.sync()
    return log


def cleaning(log: FileLog) -> Replacement:
    """Replace the four sealed segments by one without the batches at 0 and 2; all is written."""
    old = log.segments()[:-1]
    assert [segment.base_offset for segment in old] == [0, 1, 2, 3]
    replacement = log.begin_replacement(old)
    for segment in (old[1], old[3]):
        for job in segment.chunks():
            replacement.write(job())
    replacement.prepare()
    return replacement


def replaced(log: FileLog) -> bool:
    """The same, to the end."""
    replacement = cleaning(log)
    try:
        return replacement.finish()
    finally:
        replacement.abandon()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_cleaned_segment_takes_the_place_of_the_old_ones(folder: Path) -> None:
    log = filled(folder)
    assert replaced(log)
    assert values(log.read(0, UNLIMITED)) == NEW
    assert base_offsets(log.read(0, UNLIMITED)) == [1, 3, 4]
    assert (log.start_offset, log.end_offset) == (0, 5)
    assert log.size_bytes == sum(segments(folder).values())
    assert log.bytes_from(0) == len(log.read(0, UNLIMITED)) == log.size_bytes
    log.sync()  # which removes the old files
    names = [f"{offset:020}{suffix}" for offset in (0, 4) for suffix in (".index", ".log", ".timeindex")]
    assert set(files(folder)) <= set(names)
    log.append(a_batch("f"))
    log.close()
    assert files(folder) == sorted([*names, *(f"{5:020}{suffix}" for suffix in (".index", ".log", ".timeindex"))])
    again, repairs = mended(folder)
    assert (values(again.read(0, UNLIMITED)), repairs) == ([*NEW, "f"], [])
    again.close()


def test_a_segment_of_which_nothing_is_left_keeps_the_start_of_the_log(folder: Path) -> None:
    log = filled(folder)
    replacement = log.begin_replacement(log.segments()[:2])
    replacement.prepare()
    assert replacement.finish()
    assert (log.start_offset, values(log.read(0, UNLIMITED))) == (0, ["c", "d", "e"])
    assert log.offset_for_timestamp(0) is not None
    assert log.max_timestamp() is not None
    assert values(log.read(0, 1)) == ["c"]
    log.close()
    again, repairs = mended(folder)
    assert (again.start_offset, values(again.read(0, UNLIMITED)), repairs) == (0, ["c", "d", "e"], [])
    again.close()


def test_readers_on_their_way_go_on_in_the_new_segment(folder: Path) -> None:
    log = filled(folder)
    batches = log.batches()
    first = next(batches)
    assert replaced(log)
    assert values(first + b"".join(batches)) == ["a", "b", "d", "e"]
    log.close()


def test_segments_are_rolled_on_demand(folder: Path) -> None:
    log = FileLog(str(folder))
    log.roll()
    assert (log.segments(), folder.exists()) == ([], False)
    log.append(a_batch("a"))
    log.roll()
    log.roll()
    assert [(segment.base_offset, segment.end_offset, segment.size_bytes) for segment in log.segments()] == [
        (0, 1, len(a_batch("a"))),
        (1, 1, 0),
    ]
    log.close()
    again, _ = mended(folder)
    assert (again.end_offset, again.append(a_batch("c"))) == (1, 1)
    again.close()


def test_a_segment_ends_when_a_batch_is_much_younger_than_its_first(folder: Path) -> None:
    log = FileLog(str(folder), segment_ms=100)
    for timestamp_ms in (1_000, 1_100, 1_050, 1_101, 900):
        log.append(a_batch("a", timestamp_ms=timestamp_ms))
    log.close()
    again = FileLog(str(folder), segment_ms=100)
    again.append(a_batch("a", timestamp_ms=1_201))
    again.append(a_batch("a", timestamp_ms=1_202))
    assert [segment.base_offset for segment in again.segments()] == [0, 3, 6]
    assert [segment.first_timestamp_ms for segment in again.segments()] == [1_000, 1_101, 1_202]
    assert [segment.max_timestamp_ms for segment in again.segments()] == [1_100, 1_201, 1_202]
    again.close()


def test_a_segment_that_is_read_in_pieces_may_be_removed_meanwhile(folder: Path) -> None:
    log = FileLog(str(folder))
    for i in range(300):
        log.append(a_batch(f"v{i}", pad=9_000))
    log.append(a_batch("large", pad=3_000_000))
    log.append(a_batch("last"))
    log.roll()
    log.append(a_batch("x"))
    expected = log.read(0, UNLIMITED)[: -len(a_batch("x"))]
    jobs = log.segments()[0].chunks()
    parts = [next(jobs)()]
    log.delete_before(302)
    log.sync()
    parts += [job() for job in jobs]
    assert b"".join(parts) == expected
    assert len(parts) > 3
    assert [b"".join(iter_batches(part)) for part in parts] == parts
    log.close()


@pytest.mark.parametrize("offset", [1, 2, 4])
def test_a_replacement_is_called_off_when_the_old_segments_have_changed(folder: Path, offset: int) -> None:
    log = filled(folder)
    replacement = cleaning(log)
    log.delete_before(offset)
    assert not replacement.finish()
    replacement.abandon()
    assert values(log.read(offset, UNLIMITED)) == OLD[offset:]
    log.close()
    again, _ = mended(folder)
    assert (again.start_offset, values(again.read(offset, UNLIMITED))) == (offset, OLD[offset:])
    again.close()


def test_a_replacement_is_called_off_when_an_old_segment_is_active_again(folder: Path) -> None:
    log = filled(folder)
    replacement = cleaning(log)
    log.truncate_to(3)
    assert not replacement.finish()
    replacement.abandon()
    assert values(log.read(0, UNLIMITED)) == ["a", "b", "c"]
    log.close()


def test_a_replacement_that_is_abandoned_leaves_nothing(folder: Path) -> None:
    log = filled(folder)
    replacement = cleaning(log)
    replacement.abandon()
    replacement.abandon()
    assert values(log.read(0, UNLIMITED)) == OLD
    log.close()
    assert not [name for name in files(folder) if "cleaned" in name]


@pytest.mark.parametrize("call", ["fdatasync", "pwrite", "ftruncate", "open"])
def test_a_replacement_that_fails_changes_nothing(folder: Path, disk: FailingDisk, call: str) -> None:
    log = filled(folder, disk)
    disk.broken.add(call)
    with pytest.raises(LogError):
        replaced(log)
    disk.broken.clear()
    assert values(log.read(0, UNLIMITED)) == OLD
    assert replaced(log)
    assert values(log.read(0, UNLIMITED)) == NEW
    log.close()


def test_a_replacement_whose_last_renames_fail_counts_and_is_finished_at_the_next_start(
    folder: Path, disk: FailingDisk
) -> None:
    log = filled(folder, disk)
    replacement = cleaning(log)
    whole = disk.rename

    def rename(old: str, new: str) -> None:
        if not new.endswith(".swap"):
            raise disk.error
        whole(old, new)

    disk.rename = rename
    with pytest.raises(LogError):
        replacement.finish()
    replacement.abandon()
    disk.rename = whole
    assert values(log.read(0, UNLIMITED)) == NEW
    log.append(a_batch("f"))
    log.close()
    again, _ = mended(folder)
    assert values(again.read(0, UNLIMITED)) == [*NEW, "f"]
    again.close()


def test_a_sync_under_way_writes_no_index_of_what_was_replaced_meanwhile(folder: Path) -> None:
    log = FileLog(str(folder))
    for i in range(20):
        log.append(a_batch(f"v{i}", pad=5_000))
    log.roll()
    log.append(a_batch("x"))
    sync = log.begin_sync()
    assert sync is not None
    replacement = log.begin_replacement(log.segments()[:1])
    replacement.write(set_base_offset(a_batch("new", pad=5_000), 18))
    replacement.write(set_base_offset(a_batch("newer", pad=5_000), 19))
    replacement.prepare()
    assert replacement.finish()
    sync.run()
    sync.finish()
    log.append(a_batch("y"))
    log.close()
    again, repairs = mended(folder)
    assert (values(again.read(0, UNLIMITED)), repairs) == (["new", "newer", "x", "y"], [])
    assert base_offsets(again.read(19, 1)) == [19]
    again.close()


def test_what_is_no_run_of_sound_batches_is_not_added(folder: Path, disk: FailingDisk) -> None:
    log = filled(folder, disk)
    cleaned = log.begin_replacement(log.segments()[:1])
    cleaned.write(a_batch("a"))
    for rubbish in (a_batch("b"), set_base_offset(a_batch("b"), 1)[:-1], bytes(100)):
        with pytest.raises(ValueError, match="no valid batch"):
            cleaned.write(rubbish)
    cleaned.write(set_base_offset(a_batch("b"), 1))
    assert cleaned.segment.size_bytes == 2 * len(a_batch("a"))
    cleaned.abandon()
    log.close()
    assert not [name for name in files(folder) if "cleaned" in name]


class _Crashing(OsCalls):
    """A disk whose `count`-th change is the last one that happens."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left = count
        for name in ("pwrite", "ftruncate", "fdatasync", "rename", "unlink", "sync_directory"):
            setattr(self, name, self._counted(getattr(self, name)))

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if not self.left:
                raise Crash
            self.left -= 1
            return real(*arguments)

        return call


@pytest.mark.parametrize("is_swap_made_by_kafka", [False, True])
def test_a_crash_at_any_moment_leaves_the_old_batches_or_the_new(folder: Path, is_swap_made_by_kafka: bool) -> None:
    outcomes = []
    for count in range(200):
        here = folder / str(count)
        folder.mkdir(exist_ok=True)
        log = filled(here)
        log.close()
        calls = _Crashing(count)
        log = FileLog(str(here), segment_bytes=1, was_closed=True, calls=calls)
        is_done = False
        with contextlib.suppress(Crash):
            is_done = cleaning(log).finish()
            log.sync()
        log.forget()
        if is_swap_made_by_kafka and (here / f"{0:020}.log.swap").exists():
            (here / f"{0:020}.index.swap").write_bytes(b"")
            (here / f"{0:020}.timeindex.swap").write_bytes(b"")
        again, _ = mended(here)
        found = values(again.read(0, UNLIMITED))
        assert found in (OLD, NEW)
        assert (again.start_offset, again.end_offset) == (0, 5)
        assert again.append(a_batch("f")) == 5
        again.close()
        assert all(name.endswith((".log", ".index", ".timeindex")) for name in files(here)), count
        last, _ = mended(here)
        assert values(last.read(0, UNLIMITED)) == [*found, "f"]
        last.close()
        outcomes.append(found)
        if is_done:
            break
    assert outcomes[0] == OLD
    assert outcomes[-1] == NEW
    assert sum(found == NEW for found in outcomes) >= 5  # the crash came on both sides of the swap
    assert sum(found == OLD for found in outcomes) >= 5


def test_a_start_removes_indexes_without_segments(folder: Path) -> None:
    filled(folder).close()
    (folder / f"{99:020}.index").write_bytes(b"x")
    (folder / f"{99:020}.timeindex").write_bytes(b"x")
    (folder / f"{1:020}.log.deleted").write_bytes(b"x")
    log, _ = mended(folder)
    assert values(log.read(0, UNLIMITED)) == OLD
    log.close()
    assert not [name for name in files(folder) if name.startswith(f"{99:020}") or "deleted" in name]


def test_a_swapped_segment_that_is_damaged_is_corruption(folder: Path) -> None:
    log = filled(folder)
    data = b"".join(iter_batches(log.read(0, UNLIMITED)))
    log.close()
    (folder / f"{0:020}.log.swap").write_bytes(data[:-1])
    with pytest.raises(CorruptLog, match="swap is damaged"):
        mended(folder)
    assert values((folder / FIRST_LOG).read_bytes()) == ["a"]


FIRST_LOG = f"{0:020}.log"
