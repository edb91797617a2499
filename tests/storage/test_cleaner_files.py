"""Compaction of logs in files: a crash at any call of the operating system, a disk that fails, appends meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kshim.storage.file_log import FileLog
from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls
from kshim.storage.repairs import Repair
from tests.storage.builders import FailingDisk
from tests.storage.cleaning import cleaned, contents, fill, keyed, live_view
from tests.storage.file_logs import mended

CHANGES = ("open", "pwrite", "ftruncate", "fdatasync", "rename", "unlink", "sync_directory", "mkdir")


class Crash(Exception):
    """The process ends here."""


class HastyDisk(OsCalls):
    """Syncs nothing: these tests end processes, not machines."""

    def __init__(self) -> None:
        super().__init__()
        self.fdatasync = lambda _: None
        self.sync_directory = lambda _: None


class CrashingDisk(HastyDisk):
    """Its first `count` changes happen, the next one ends the process: wholly, or with half of what it writes."""

    def __init__(self, count: int, *, tears_writes: bool) -> None:
        super().__init__()
        self.left = count
        self._tears_writes = tears_writes
        for name in CHANGES:
            setattr(self, name, self._counted(getattr(self, name)))

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if self.left <= 0:
                if not self.left and self._tears_writes and len(arguments) == 3:
                    descriptor, data, offset = arguments
                    real(descriptor, data[: len(data) // 2], offset)
                self.left = -1
                raise Crash
            self.left -= 1
            return real(*arguments)

        return call


def filled(folder: Path, calls: OsCalls | None = None) -> FileLog:
    """Eight segments of overwritten keys, a tombstone among them; the active one is small. All durable."""
    log = FileLog(str(folder), segment_bytes=3_000, calls=calls)
    for n in range(50):
        log.append(keyed((f"k{n % 7}", f"{n}" * 200), (f"once{n}", None if n % 5 else "x")))
    log.sync()
    assert len(log.segments()) == 8
    return log


@pytest.mark.parametrize("tears_writes", [False, True])
def test_a_crash_at_any_moment_loses_nothing_and_the_next_clean_ends_alike(folder: Path, tears_writes: bool) -> None:
    expected: list[object] | None = None
    crashes = 0
    while expected is None or crashes:
        here = folder / str(crashes)
        folder.mkdir(exist_ok=True)
        filled(here, HastyDisk()).close()
        disk = CrashingDisk(1 << 40, tears_writes=tears_writes)
        log = FileLog(str(here), segment_bytes=3_000, was_closed=True, calls=disk)
        before = live_view(log)
        disk.left = crashes
        try:
            cleaned(log, segment_bytes=6_000)
            log.sync()
            is_over = True
        except Crash:
            is_over = False
        repairs: list[Repair] = []
        again = FileLog(str(here), segment_bytes=3_000, on_repair=repairs.append, calls=HastyDisk())
        assert live_view(again) == before
        assert (again.start_offset, again.end_offset) == (0, 100)
        assert not repairs
        cleaned(again, segment_bytes=6_000)
        assert live_view(again) == before
        if expected is None:
            expected = list(contents(again))
        assert contents(again) == expected
        again.close()
        if is_over:
            break
        crashes += 1
    assert crashes > 20


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "open"])
def test_a_disk_that_fails_leaves_the_log_as_it_was(folder: Path, call: str) -> None:
    disk = FailingDisk()
    log = filled(folder, disk)
    before = contents(log)
    disk.broken.add(call)
    with pytest.raises(LogError):
        cleaned(log)
    disk.broken.clear()
    assert contents(log) == before
    assert not [path for path in folder.iterdir() if "cleaned" in path.name]
    assert cleaned(log) is not None
    assert len(contents(log)) < len(before)
    log.close()


def test_a_full_disk_is_no_trouble_for_what_is_there(folder: Path) -> None:
    disk = FailingDisk()
    log = filled(folder, disk)
    before = contents(log)
    disk.free_bytes = 1_000
    with pytest.raises(LogError):
        cleaned(log)
    assert contents(log) == before
    disk.free_bytes = None
    log.close()


def test_appends_and_rolls_meanwhile_are_kept(folder: Path) -> None:
    log = filled(folder)

    def go_on() -> None:
        fill(log, [keyed(("k1", "new" * 1_000)), keyed(("k2", "newer" * 1_000))])

    assert cleaned(log, between=go_on) is not None
    assert contents(log)[-2:] == [(100, "k1", "new" * 1_000), (101, "k2", "newer" * 1_000)]
    log.sync()
    log.close()
    again, _ = mended(folder, segment_bytes=3_000)
    assert contents(again)[-1][0] == 101
    again.close()


def test_disk_and_memory_agree(folder: Path) -> None:
    from kshim.storage.memory_log import MemoryLog

    memory = MemoryLog(segment_bytes=3_000)
    files = FileLog(str(folder), segment_bytes=3_000)
    for n in range(60):
        batch = keyed((f"k{n % 9}", f"{n}" * 150), (None, "x"), (f"gone{n}", None))
        memory.append(batch)
        files.append(batch)
    files.sync()
    assert [segment.base_offset for segment in memory.segments()] == [s.base_offset for s in files.segments()]
    for log in (memory, files):
        cleaned(log, segment_bytes=5_000)
    assert contents(memory) == contents(files)
    assert list(memory.batches()) == list(files.batches())
    assert [segment.base_offset for segment in memory.segments()] == [s.base_offset for s in files.segments()]
    for offset in range(memory.start_offset, memory.end_offset):
        assert memory.read(offset, 1) == files.read(offset, 1), offset
    files.close()
