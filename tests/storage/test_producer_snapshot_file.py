"""Snapshots of producers and lists of aborted transactions, in Kafka's formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.storage.file_log import FileLog
from kshim.storage.os_calls import OsCalls
from kshim.storage.producer_snapshot import AbortedTransaction, ProducerSnapshot, SavedProducer
from kshim.storage.producer_snapshot_file import ProducerFiles
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record

# Written by a Kafka 4.4.
KAFKAS_SNAPSHOT = bytes.fromhex(
    "0001d33e851c00000001000000000000000000000000000100000000000000090000000000000000000003e9ffffffff0000000000000008"
)
KAFKAS_TRANSACTION_INDEX = bytes.fromhex("000000000000000000000000000000000008000000000000000a000000000000000b")
PRODUCER = SavedProducer(
    producer_id=0,
    epoch=0,
    last_sequence=1,
    last_offset=9,
    offset_delta=0,
    timestamp_ms=1001,
    coordinator_epoch=-1,
    first_offset=8,
)
ABORTED = AbortedTransaction(producer_id=0, first_offset=8, last_offset=10, last_stable_offset=11)


def files_in(folder: Path) -> ProducerFiles:
    files = ProducerFiles(str(folder), OsCalls())
    files.opened([path.name for path in folder.iterdir()])
    return files


def save(folder: Path, offset: int, *aborted: AbortedTransaction, segments: tuple[int, ...] = (0,)) -> ProducerSnapshot:
    snapshot = ProducerSnapshot(offset, [PRODUCER], list(aborted))
    files_in(folder).save(snapshot, segments)()
    return snapshot


def names_in(folder: Path) -> list[str]:
    return sorted(path.name.lstrip("0") for path in folder.iterdir())


def test_what_kafka_wrote_is_read(tmp_path: Path) -> None:
    (tmp_path / f"{11:020}.snapshot").write_bytes(KAFKAS_SNAPSHOT)
    (tmp_path / f"{10:020}.txnindex").write_bytes(KAFKAS_TRANSACTION_INDEX)
    assert files_in(tmp_path).load(end_offset=11) == ProducerSnapshot(11, [PRODUCER], [ABORTED])


def test_what_is_written_is_what_kafka_writes(tmp_path: Path) -> None:
    save(tmp_path, 11, ABORTED, segments=(0, 10, 20))
    assert (tmp_path / f"{11:020}.snapshot").read_bytes() == KAFKAS_SNAPSHOT
    assert (tmp_path / f"{10:020}.txnindex").read_bytes() == KAFKAS_TRANSACTION_INDEX
    assert names_in(tmp_path) == ["10.txnindex", "11.snapshot"]


def test_the_newest_snapshot_counts_and_one_older_is_kept(tmp_path: Path) -> None:
    for offset in (10, 20, 30, 40):
        newest = save(tmp_path, offset)
    assert names_in(tmp_path) == ["30.snapshot", "40.snapshot"]
    assert files_in(tmp_path).load(end_offset=40) == newest


def test_a_snapshot_of_what_was_lost_is_removed(tmp_path: Path) -> None:
    older = save(tmp_path, 10)
    save(tmp_path, 20)
    assert files_in(tmp_path).load(end_offset=15) == older
    assert names_in(tmp_path) == ["10.snapshot"]


@pytest.mark.parametrize("size_bytes", range(len(KAFKAS_SNAPSHOT)))
def test_a_snapshot_that_is_cut_short_is_not_believed(tmp_path: Path, size_bytes: int) -> None:
    (tmp_path / f"{11:020}.snapshot").write_bytes(KAFKAS_SNAPSHOT[:size_bytes])
    assert files_in(tmp_path).load(end_offset=11) is None


@pytest.mark.parametrize("at", range(len(KAFKAS_SNAPSHOT)))
def test_a_snapshot_with_a_wrong_byte_is_not_believed(tmp_path: Path, at: int) -> None:
    damaged = bytearray(KAFKAS_SNAPSHOT)
    damaged[at] ^= 1
    (tmp_path / f"{11:020}.snapshot").write_bytes(damaged)
    assert files_in(tmp_path).load(end_offset=11) is None


def test_without_a_sound_list_of_the_aborted_a_snapshot_is_not_believed(tmp_path: Path) -> None:
    save(tmp_path, 11, ABORTED)
    path = tmp_path / f"{0:020}.txnindex"
    path.write_bytes(path.read_bytes()[:-1])
    assert files_in(tmp_path).load(end_offset=11) is None


def test_aborted_transactions_behind_the_snapshot_are_left_to_the_log(tmp_path: Path) -> None:
    save(tmp_path, 30, ABORTED, AbortedTransaction(7, 20, 25, 26))
    save(tmp_path, 11, ABORTED)
    (tmp_path / f"{30:020}.snapshot").unlink()
    found = files_in(tmp_path).load(end_offset=30)
    assert found is not None
    assert (found.offset, found.aborted) == (11, [ABORTED])


def test_lists_of_segments_without_aborted_transactions_go_with_the_next_snapshot(tmp_path: Path) -> None:
    later = AbortedTransaction(7, 20, 25, 26)
    save(tmp_path, 30, ABORTED, later, segments=(0, 20))
    save(tmp_path, 31, later, segments=(20,))
    assert names_in(tmp_path) == ["20.txnindex", "30.snapshot", "31.snapshot"]


def test_a_log_that_is_cut_removes_the_snapshots_of_what_is_gone(tmp_path: Path) -> None:
    log = FileLog(str(tmp_path / "t-0"))
    for _ in range(4):
        log.append(build_batch([Record(b"k", b"v", timestamp_ms=1)]))
    for offset in (2, 4):
        log.producer_files.save(ProducerSnapshot(offset, [PRODUCER], []), [0])()
    log.truncate_to(3)
    found = log.producer_files.load(end_offset=log.end_offset)
    assert found is not None
    assert found.offset == 2
    assert [path.name for path in (tmp_path / "t-0").glob("*.snapshot")] == [f"{2:020}.snapshot"]
    log.close()
