"""What compaction keeps, in a log in memory; `test_cleaner_files.py` has the files and the crashes."""

from __future__ import annotations

import pytest

from kshim.storage.log import UncleanableBatch
from kshim.storage.memory_log import MemoryLog
from kshim_protocol.records.batch import parse_batch_header
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.control import ControlType
from tests.storage.cleaning import (
    CODECS,
    DAY_MS,
    WALL_MS,
    cleaned,
    contents,
    fill,
    keyed,
    live_view,
    marker,
    records,
    transactional,
)

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def a_log(*batches: bytes) -> MemoryLog:
    """Everything in one sealed segment, and an active one with a record of another key."""
    log = MemoryLog()
    fill(log, batches)
    log.roll()
    log.append(keyed(("active", "1")))
    return log


def test_the_last_record_of_a_key_stays_at_its_offset() -> None:
    log = a_log(keyed(("a", "1")), keyed(("b", "1")), keyed(("a", "2")))
    assert cleaned(log) is not None
    assert contents(log) == [(1, "b", "1"), (2, "a", "2"), (3, "active", "1")]
    assert (log.start_offset, log.end_offset) == (0, 4)


@pytest.mark.parametrize("codec", CODECS)
def test_of_a_batch_only_the_needed_records_stay_in_its_own_codec(codec: Compression) -> None:
    log = a_log(keyed(("a", "1"), ("b", "1"), ("c", "1"), compression=codec), keyed(("b", "2")))
    cleaned(log)
    assert contents(log)[:3] == [(0, "a", "1"), (2, "c", "1"), (3, "b", "2")]
    header = parse_batch_header(next(log.batches()))
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 2, 2)
    assert header.compression is codec


def test_a_batch_of_which_all_stays_is_not_touched() -> None:
    batch = keyed(("a", "1"), ("b", "1"), compression=Compression.GZIP)
    log = a_log(batch)
    cleaned(log)
    assert next(log.batches()) == batch


def test_a_large_batch_keeps_timestamps_headers_and_offsets() -> None:
    pairs: list[tuple[str | None, str | None]] = [(f"key{n % 1500}", f"value{n}") for n in range(3000)]
    log = a_log(keyed(*pairs, timestamp_ms=WALL_MS + 5, compression=Compression.GZIP))
    cleaned(log)
    found = records(log)[:-1]
    assert [record.offset for record in found] == list(range(1500, 3000))
    assert {record.timestamp_ms for record in found} == {WALL_MS + 5}
    assert found[0].value == b"value1500"


def test_the_active_segment_is_left_alone_but_its_keys_do_not_count_either() -> None:
    log = MemoryLog()
    fill(log, [keyed(("a", "1"))])
    log.roll()
    fill(log, [keyed(("a", "2")), keyed(("a", "3"))])
    cleaned(log)
    assert contents(log) == [(0, "a", "1"), (1, "a", "2"), (2, "a", "3")]


def test_records_without_a_key_go() -> None:
    log = a_log(keyed((None, "1"), ("a", "1")))
    cleaned(log)
    assert contents(log)[0] == (1, "a", "1")


def test_several_segments_become_one_where_they_fit() -> None:
    log = MemoryLog()
    for n in range(4):
        log.append(keyed(("a", str(n)), ("b", str(n))))
        log.roll()
    log.append(keyed(("c", "1")))
    assert len(log.segments()) == 5
    cleaned(log)
    assert [segment.base_offset for segment in log.segments()] == [0, 8]
    assert contents(log) == [(6, "a", "3"), (7, "b", "3"), (8, "c", "1")]


def test_segments_that_do_not_fit_together_stay_apart() -> None:
    log = MemoryLog()
    for n in range(4):
        log.append(keyed((f"k{n}", "x" * 1000)))
        log.roll()
    cleaned(log, segment_bytes=2500)
    assert [segment.base_offset for segment in log.segments()] == [0, 2, 4]
    assert len(contents(log)) == 4


def test_what_was_cleaned_before_loses_to_what_is_dirty() -> None:
    log = a_log(keyed(("a", "1")), keyed(("b", "1")))
    first = cleaned(log)
    assert first is not None
    fill(log, [keyed(("b", "2"))])
    log.roll()
    second = cleaned(log, first_dirty_offset=first.clean_offset)
    assert second is not None
    assert contents(log) == [(0, "a", "1"), (2, "active", "1"), (3, "b", "2")]
    assert second.clean_offset == 4


def test_a_second_clean_changes_nothing() -> None:
    log = a_log(keyed(("a", "1"), ("b", "1")), keyed(("a", None)), keyed(("b", "2"), ("c", None)))
    cleaned(log)
    once = list(log.batches())
    cleaned(log, now_ms=WALL_MS + DAY_MS - 1)
    assert list(log.batches()) == once


def test_only_as_many_keys_are_cleaned_as_the_map_may_hold() -> None:
    log = MemoryLog()
    for n in range(300):
        log.append(keyed((f"k{n % 100}", str(n))))
    log.roll()
    before = live_view(log)
    clean_offset = 0
    for _ in range(100):
        result = cleaned(log, first_dirty_offset=clean_offset, key_map_bytes=10_000)
        if result is None:
            break
        assert result.clean_offset > clean_offset
        clean_offset = result.clean_offset
    assert clean_offset == 300
    assert live_view(log) == before
    assert len(contents(log)) == 100


class TestTombstones:
    def test_one_stays_for_delete_retention_after_the_first_clean_that_met_it(self) -> None:
        log = a_log(keyed(("a", "1")), keyed(("a", None), ("b", "1")))
        result = cleaned(log, now_ms=WALL_MS, delete_retention_ms=1000)
        assert result is not None
        assert result.next_horizon_ms == WALL_MS + 1000
        header = parse_batch_header(next(log.batches()))
        assert header.has_delete_horizon
        assert header.base_timestamp_ms == WALL_MS + 1000
        assert [record.timestamp_ms for record in records(log)[:2]] == [WALL_MS, WALL_MS]
        assert contents(log)[:2] == [(1, "a", None), (2, "b", "1")]

        cleaned(log, now_ms=WALL_MS + 999, drops_tombstones=True)
        assert contents(log)[0] == (1, "a", None)
        cleaned(log, now_ms=WALL_MS + 1000, drops_tombstones=True)
        assert contents(log)[0] == (2, "b", "1")

    def test_the_horizon_of_a_batch_outlives_the_tombstone(self) -> None:
        log = a_log(keyed(("a", None), ("b", "1")))
        cleaned(log, now_ms=WALL_MS, delete_retention_ms=0)
        cleaned(log, now_ms=WALL_MS, drops_tombstones=True)
        header = parse_batch_header(next(log.batches()))
        assert (header.has_delete_horizon, header.record_count) == (True, 1)
        assert records(log)[0].timestamp_ms == WALL_MS

    def test_one_of_a_single_record_gets_its_horizon_too(self) -> None:
        log = a_log(keyed(("a", None), timestamp_ms=WALL_MS - 7))
        cleaned(log)
        header = parse_batch_header(next(log.batches()))
        assert (header.has_delete_horizon, header.max_timestamp_ms) == (True, WALL_MS - 7)
        assert records(log)[0].timestamp_ms == WALL_MS - 7

    def test_nothing_is_done_for_tombstones_unless_asked(self) -> None:
        log = a_log(keyed(("a", None)))
        result = cleaned(log, delete_retention_ms=0)
        assert result is not None
        assert cleaned(log, first_dirty_offset=result.clean_offset) is None


class TestProducers:
    def test_the_last_batch_of_a_producer_stays_without_records(self) -> None:
        log = a_log(
            keyed(("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0),
            keyed(("a", "2"), ("b", "1"), producer_id=7, producer_epoch=0, base_sequence=1),
            keyed(("a", "3"), ("b", "2")),
        )
        cleaned(log)
        empty, last, _ = map(parse_batch_header, log.batches())
        assert (empty.base_offset, empty.last_offset, empty.record_count) == (1, 2, 0)
        assert (empty.producer_id, empty.base_sequence, empty.max_timestamp_ms) == (7, 1, WALL_MS)
        assert last.record_count == 2

    def test_that_of_a_producer_idle_for_a_day_goes(self) -> None:
        log = a_log(keyed(("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0), keyed(("a", "2")))
        cleaned(log, now_ms=WALL_MS + DAY_MS)
        assert len(list(log.batches())) == 2

    def test_a_later_batch_in_the_active_segment_frees_the_earlier_one(self) -> None:
        log = a_log(keyed(("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0), keyed(("a", "2")))
        log.append(keyed(("a", "3"), producer_id=7, producer_epoch=0, base_sequence=1))
        cleaned(log)
        assert contents(log)[0] == (1, "a", "2")
        assert len(list(log.batches())) == 3

    def test_the_last_batch_of_the_log_stays_without_records(self) -> None:
        log = MemoryLog()
        fill(log, [keyed(("a", "1")), keyed((None, "2"))])
        log.roll()
        cleaned(log)
        assert contents(log) == [(0, "a", "1")]
        assert [parse_batch_header(batch).last_offset for batch in log.batches()] == [0, 1]


class TestTransactions:
    def test_committed_records_count_and_their_marker_stays_while_they_do(self) -> None:
        log = a_log(keyed(("a", "1")), transactional(7, ("a", "2")), marker(7, COMMIT))
        cleaned(log)
        assert contents(log)[0] == (1, "a", "2")
        cleaned(log, now_ms=WALL_MS + 2 * DAY_MS, drops_tombstones=True)
        assert [parse_batch_header(batch).is_control for batch in log.batches()] == [False, True, False]

    def test_aborted_records_go_and_do_not_replace_others(self) -> None:
        log = a_log(keyed(("a", "1")), transactional(7, ("a", "2")), marker(7, ABORT))
        cleaned(log, now_ms=WALL_MS + 2 * DAY_MS)
        assert contents(log)[0] == (0, "a", "1")

    def test_the_marker_of_a_transaction_that_is_gone_waits_for_its_horizon(self) -> None:
        log = a_log(transactional(7, ("a", "2")), marker(7, ABORT), keyed(("a", "3")))
        late_ms = WALL_MS + 2 * DAY_MS  # the producer is forgotten by then
        kinds = []
        for now_ms in (late_ms, late_ms + 1, late_ms + DAY_MS, late_ms + DAY_MS + 1):
            cleaned(log, now_ms=now_ms, drops_tombstones=True)
            kinds.append([parse_batch_header(batch).is_control for batch in log.batches()])
        # The first clean drops the data, the second finds the marker idle, later ones drop it at its horizon.
        assert kinds == [[True, False, False]] * 3 + [[False, False]]

    def test_two_transactions_of_one_producer_are_told_apart(self) -> None:
        log = a_log(
            transactional(7, ("a", "1")),
            marker(7, COMMIT),
            transactional(7, ("a", "2"), sequence=1),
            marker(7, ABORT),
            transactional(7, ("b", "3"), sequence=2),
            marker(7, COMMIT),
        )
        cleaned(log)
        assert contents(log)[:2] == [(0, "a", "1"), (4, "b", "3")]

    def test_an_open_transaction_ends_the_clean_before_it(self) -> None:
        log = a_log(
            keyed(("a", "1")), keyed(("a", "2")), transactional(7, ("a", "3")), keyed(("b", "1")), keyed(("b", "2"))
        )
        result = cleaned(log)
        assert result is not None
        assert (result.clean_offset, result.first_unstable_offset) == (2, 2)
        assert contents(log)[:4] == [(1, "a", "2"), (2, "a", "3"), (3, "b", "1"), (4, "b", "2")]

    def test_a_marker_in_the_active_segment_ends_a_transaction(self) -> None:
        log = a_log(keyed(("a", "1")), transactional(7, ("a", "3")))
        log.append(marker(7, COMMIT))
        cleaned(log)
        assert contents(log)[0] == (1, "a", "3")


def test_a_damaged_batch_is_reported_and_nothing_changes() -> None:
    batch = bytearray(keyed(("a", "2")))
    batch[-3] ^= 1
    log = a_log(keyed(("a", "1")), bytes(batch))
    before = list(log.batches())
    with pytest.raises(UncleanableBatch, match="offset 1: CRC differs"):
        cleaned(log)
    assert list(log.batches()) == before


def test_a_log_that_loses_records_while_it_is_cleaned_is_not_changed_further() -> None:
    log = a_log(keyed(("a", "1")), keyed(("b", "1")), keyed(("a", "2")))
    assert cleaned(log, between=lambda: log.delete_before(1)) is None
    assert contents(log) == [(1, "b", "1"), (2, "a", "2"), (3, "active", "1")]


def test_appends_and_rolls_go_on_meanwhile() -> None:
    log = a_log(keyed(("a", "1")), keyed(("a", "2")))

    def go_on() -> None:
        log.append(keyed(("a", "3")))
        log.roll()
        log.append(keyed(("a", "4")))

    assert cleaned(log, between=go_on) is not None
    assert contents(log) == [(1, "a", "2"), (2, "active", "1"), (3, "a", "3"), (4, "a", "4")]
    assert [segment.base_offset for segment in log.segments()] == [0, 2, 4]
