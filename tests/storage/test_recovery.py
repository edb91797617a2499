"""Damage in files of logs: what is torn is cut, what is corrupt is refused or skipped, nothing is read wrong."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshim.storage.file_log import FileLog
from kshim.storage.log import CorruptLog, LogError
from kshim.storage.repairs import DamageSkipped, IndexRebuilt, Repair, TailCut
from kshim_protocol.records.batch import build_batch, set_base_offset
from kshim_protocol.records.record import Record
from tests.storage.builders import FailingDisk, a_batch, values
from tests.storage.file_logs import FIRST, UNLIMITED, mended

TEXTS = ["a", "b", "c", "d", "e", "f"]
SIZE = len(a_batch("a"))
INDEX = FIRST.replace(".log", ".index")


def filled(folder: Path, *texts: str, segment_bytes: int = 1 << 30, pad: int = 0) -> None:
    log = FileLog(str(folder), segment_bytes=segment_bytes)
    for text in texts or TEXTS:
        log.append(a_batch(text, pad=pad))
    log.close()


def replay(log: FileLog) -> list[str]:
    return [value for batch in log.batches() for value in values(batch)]


def flipped(path: Path, position: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


# A bit anywhere

OUTSIDE_THE_CRC = {*range(8), *range(12, 16)}  # base offset and leader epoch


def outcome(folder: Path) -> tuple[list[str], list[Repair], CorruptLog | None]:
    """What replay finds after a kill, what was repaired, and the corruption that ended it."""
    log: FileLog | None = None
    repairs: list[Repair] = []
    try:
        log, repairs = mended(folder)
        return replay(log), repairs, None
    except CorruptLog as error:
        return [], repairs, error
    finally:
        if log is not None:
            log.forget()


@pytest.mark.parametrize("has_index", [False, True])
@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_anywhere_is_never_read_as_if_nothing_were(folder: Path, bit: int, has_index: bool) -> None:
    pad = 2_000 if has_index else 0
    size = len(a_batch("a", pad=pad))
    filled(folder, pad=pad)
    data, index = (folder / FIRST).read_bytes(), (folder / INDEX).read_bytes()
    assert bool(index) == has_index
    for position in [at + k for at in range(0, len(data), size) for k in range(SIZE)]:
        (folder / FIRST).write_bytes(data)
        (folder / INDEX).write_bytes(index)
        flipped(folder / FIRST, position, bit)
        found, repairs, error = outcome(folder)
        where = position // size * size
        if error is not None:
            assert (error.path, error.position, error.offset) == (str(folder / FIRST), where, where // size)
            assert (folder / FIRST).stat().st_size == len(data)
        elif found == TEXTS:
            assert position - where in OUTSIDE_THE_CRC
        else:
            assert (found, where) == (TEXTS[:5], 5 * size)
            assert [type(repair) for repair in repairs if not isinstance(repair, IndexRebuilt)] == [TailCut]


def test_skipping_leaves_out_the_damaged_batch_only_wherever_the_bit_is(folder: Path) -> None:
    filled(folder)
    data = (folder / FIRST).read_bytes()
    for position in range(SIZE, 2 * SIZE):
        (folder / FIRST).write_bytes(data)
        flipped(folder / FIRST, position)
        log, repairs = mended(folder, recover="skip-corrupt")
        found = replay(log)
        log.close()
        where = position // SIZE * SIZE
        skipped = [repair for repair in repairs if isinstance(repair, DamageSkipped)]
        assert len(skipped) == len(repairs) <= 1
        for repair in skipped:
            assert (repair.position, repair.bytes_skipped) == (where, SIZE)
            kept = folder / repair.kept_in
            assert data[where : where + SIZE] != kept.read_bytes()
            assert len(kept.read_bytes()) == SIZE
            kept.unlink()
        assert found == (TEXTS[: where // SIZE] + TEXTS[where // SIZE + 1 :] if skipped else TEXTS)
        assert skipped or position - where in OUTSIDE_THE_CRC
        again, none = mended(folder)
        assert (replay(again), none) == (found, [])
        again.close()


def test_a_base_offset_out_of_order_is_the_fault_of_the_batch_that_fits_least(folder: Path) -> None:
    for base_offset, culprit in [(40, 2), (0, 2), (1, 2), (4, 2)]:
        filled(folder)
        data = (folder / FIRST).read_bytes()
        moved = set_base_offset(a_batch("c"), base_offset)
        (folder / FIRST).write_bytes(data[: 2 * SIZE] + moved + data[3 * SIZE :])
        _, _, error = outcome(folder)
        assert error is not None
        assert (error.position, "base offset" in error.reason) == (culprit * SIZE, True)
        log, _ = mended(folder, recover="skip-corrupt")
        assert replay(log) == ["a", "b", "d", "e", "f"]
        log.delete()


def test_several_damaged_places_are_all_skipped(folder: Path) -> None:
    filled(folder)
    data = bytearray((folder / FIRST).read_bytes())
    data[SIZE : 2 * SIZE] = os.urandom(SIZE)  # "b"
    data[3 * SIZE : 5 * SIZE - 1] = bytes(2 * SIZE - 1)  # "d" and "e"
    (folder / FIRST).write_bytes(bytes(data))
    log, repairs = mended(folder, recover="skip-corrupt")
    assert replay(log) == ["a", "c", "f"]
    assert [(type(r), r.bytes_skipped) for r in repairs if isinstance(r, DamageSkipped)] == [
        (DamageSkipped, SIZE),
        (DamageSkipped, 2 * SIZE),
    ]
    assert (log.end_offset, log.append(a_batch("g"))) == (6, 6)
    log.close()
    again, none = mended(folder)
    assert (replay(again), none) == (["a", "c", "f", "g"], [])
    again.close()


# Torn or corrupt


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0, 10, 3_000])), min_size=1, max_size=8),
    st.integers(0, 3),
    st.booleans(),
)
def test_a_write_torn_at_any_byte_costs_that_batch_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[int, int]], synced_count: int, fills_with_zeros: bool
) -> None:
    folder = tmp_path_factory.mktemp("log") / "topic-0"
    log = FileLog(str(folder), segment_bytes=7_000)
    for i, (count, pad) in enumerate(batches):
        log.append(a_batch(*[f"{i}-{k}" for k in range(count)], pad=pad))
        if i + 1 == synced_count:
            log.sync()
    before, end_offset = replay(log), log.end_offset
    torn = a_batch("torn", "apart")
    segment = log.segments()[-1]
    path, size_bytes = Path(segment.path), segment.size_bytes
    log.forget()  # killed
    whole = set_base_offset(torn, end_offset)
    index = {name: (folder / name).read_bytes() for name in os.listdir(folder) if "index" in name}
    data = path.read_bytes()
    for cut_at in range(len(whole)):
        rest = bytes(len(whole) - cut_at) if fills_with_zeros else b""
        if whole[:cut_at] + rest == whole:
            continue
        path.write_bytes(data + whole[:cut_at] + rest)
        again, repairs = mended(folder)
        assert (replay(again), again.end_offset) == (before, end_offset)
        cuts = [repair for repair in repairs if isinstance(repair, TailCut)]
        assert [(cut.position, cut.bytes_cut) for cut in cuts] == (
            [(size_bytes, cut_at + len(rest))] if cut_at + len(rest) else []
        )
        assert again.append(torn) == end_offset
        assert replay(again) == [*before, "torn", "apart"]
        again.forget()
        for name, content in index.items():
            (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    "tail", [bytes(100_000), os.urandom(3_000), b"\2" * 5_000], ids=["zeros", "random", "a short batch"]
)
def test_a_tail_of_anything_but_sound_batches_is_cut(folder: Path, tail: bytes) -> None:
    filled(folder)
    with (folder / FIRST).open("ab") as file:
        file.write(tail)
    log, repairs = mended(folder)
    assert [repair.bytes_cut for repair in repairs if isinstance(repair, TailCut)] == [len(tail)]
    assert replay(log) == TEXTS
    log.close()


def test_damage_is_corruption_when_a_sound_batch_stands_behind_it_in_a_later_segment(folder: Path) -> None:
    filled(folder, segment_bytes=2 * SIZE)
    flipped(folder / FIRST, 2 * SIZE - 1)
    with pytest.raises(CorruptLog) as caught:
        mended(folder)
    assert (caught.value.position, caught.value.offset) == (SIZE, 1)
    log, repairs = mended(folder, recover="skip-corrupt")
    assert (replay(log), len(repairs)) == (["a", "c", "d", "e", "f"], 1)
    log.close()


def test_a_tail_is_torn_over_several_segments_when_power_was_lost(folder: Path) -> None:
    filled(folder, segment_bytes=2 * SIZE)
    second, third = folder / f"{2:020}.log", folder / f"{4:020}.log"
    os.truncate(second, SIZE + 5)
    third.write_bytes(bytes(2 * SIZE))
    log, repairs = mended(folder)
    assert {repair.path for repair in repairs} == {str(second), str(third)}
    assert replay(log) == ["a", "b", "c"]
    assert log.append(a_batch("g")) == log.end_offset - 1
    assert replay(log) == ["a", "b", "c", "g"]
    log.close()
    again, none = mended(folder)
    assert (replay(again), none) == (["a", "b", "c", "g"], [])
    again.close()


def test_damage_in_what_was_synced_is_corruption_even_at_the_end(folder: Path) -> None:
    filled(folder, *"abcdefgh", pad=1_000)
    last_indexed = int.from_bytes((folder / INDEX).read_bytes()[-4:], "big")
    size = len(a_batch("a", pad=1_000))
    os.truncate(folder / FIRST, last_indexed + size)
    flipped(folder / FIRST, last_indexed - 1)
    log, repairs = mended(folder)
    with pytest.raises(CorruptLog) as caught:
        replay(log)
    assert (caught.value.position, repairs) == (last_indexed - size, [])
    log.forget()


def test_replay_stops_at_damage_before_the_last_index_entry(folder: Path) -> None:
    filled(folder, *map(str, range(1_000)))
    flipped(folder / FIRST, sum(len(a_batch(str(i))) for i in range(300)) + 65)
    log, repairs = mended(folder)
    read: list[str] = []
    with pytest.raises(CorruptLog, match="CRC differs") as caught:
        read.extend(value for run in log.runs(max_bytes=5_000) for value in values(run))
    where = sum(len(a_batch(str(i))) for i in range(300))
    assert (caught.value.position, caught.value.offset) == (where, 300)
    assert repairs == []
    log.forget()


def test_runs_are_whole_batches_of_about_the_size_asked_for(folder: Path) -> None:
    log = FileLog(str(folder), segment_bytes=50_000)
    for i in range(800):
        log.append(a_batch(f"v{i}", pad=i % 90))
    log.append(a_batch("large", pad=300_000))
    log.append(a_batch("last"))
    data = log.read(0, UNLIMITED)
    log.close()
    again, _ = mended(folder)
    for max_bytes in (1, 200, 10_000, 1 << 20):
        runs = list(again.runs(max_bytes=max_bytes))
        assert b"".join(runs) == data
        assert all(len(run) <= max(max_bytes, 5_000) or len(values(run)) == 1 for run in runs)
    assert values(b"".join(again.runs(790))) == [*(f"v{i}" for i in range(790, 800)), "large", "last"]
    again.close()


def test_a_log_may_begin_inside_a_batch_that_is_larger_than_a_run(folder: Path) -> None:
    log = FileLog(str(folder))
    log.append(build_batch([Record(b"k", b"v" * 100, timestamp_ms=1)] * 3))
    log.delete_before(1)
    assert list(log.runs(max_bytes=50)) == list(log.batches())
    log.close()


# Disks that fail while damage is repaired


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "rename", "ftruncate"])
def test_a_repair_that_fails_is_an_error_and_is_done_by_the_next_start(
    folder: Path, disk: FailingDisk, call: str
) -> None:
    filled(folder)
    flipped(folder / FIRST, 2 * SIZE - 1)
    disk.error = OSError(errno.ENOSPC, "No space left on device")
    disk.broken.add(call)
    log = FileLog(str(folder), recover="skip-corrupt", calls=disk)
    with pytest.raises(LogError, match=r"cannot .*: No space left on device"):
        log.check_tails()
    again, _ = mended(folder, recover="skip-corrupt")
    assert replay(again) == ["a", "c", "d", "e", "f"]
    again.close()


def test_a_torn_tail_that_cannot_be_cut_is_an_error(folder: Path, disk: FailingDisk) -> None:
    filled(folder)
    os.truncate(folder / FIRST, 6 * SIZE - 1)
    disk.error = OSError(errno.EROFS, "Read-only file system")
    disk.broken.add("ftruncate")
    with pytest.raises(LogError, match=r"cannot truncate .*00\.log: Read-only file system"):
        FileLog(str(folder), calls=disk).check_tails()
    assert (folder / FIRST).stat().st_size == 6 * SIZE - 1


def test_a_log_that_cannot_be_read_is_an_error(folder: Path, disk: FailingDisk) -> None:
    filled(folder)
    disk.broken.add("pread")
    with pytest.raises(LogError, match=r"cannot read .*00\.log: Input/output error"):
        FileLog(str(folder), calls=disk).check_tails()
    disk.broken = {"open"}
    disk.error = OSError(errno.EACCES, "Permission denied")
    with pytest.raises(LogError, match=r"cannot open .*00\.log: Permission denied"):
        FileLog(str(folder), calls=disk).check_tails()


def test_what_a_failed_sync_has_taken_is_found_when_it_is_written_again(folder: Path, disk: FailingDisk) -> None:
    log = FileLog(str(folder), calls=disk)
    cuts: list[TailCut] = []
    log._on_repair = cuts.append  # type: ignore[assignment]
    for text in "abcd":
        log.append(a_batch(text))
    disk.broken.add("fdatasync")
    with pytest.raises(LogError):
        log.sync()
    disk.broken.clear()
    with (folder / FIRST).open("r+b") as file:  # the kernel has dropped a page
        file.seek(2 * SIZE)
        file.write(bytes(SIZE))
    log.rewrite_unsynced()
    assert (log.end_offset, replay(log)) == (2, ["a", "b"])
    assert [(cut.position, cut.bytes_cut) for cut in cuts] == [(2 * SIZE, 2 * SIZE)]
    assert log.append(a_batch("e")) == 2
    log.close()
