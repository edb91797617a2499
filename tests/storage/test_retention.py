"""Which segments go by age and by size."""

from __future__ import annotations

from kshim.storage.memory_log import MemoryLog
from kshim.storage.retention import Expired, expired
from tests.storage.cleaning import WALL_MS, cleaned, keyed

HOUR_MS = 3_600_000


def a_log(*ages_ms: int) -> MemoryLog:
    """One segment of one record for each age; the last one is active."""
    log = MemoryLog()
    for age_ms in ages_ms:
        log.roll()
        log.append(keyed(("k", "x" * 100), timestamp_ms=WALL_MS - age_ms))
    return log


def found(log: MemoryLog, *, retention_ms: int = -1, retention_bytes: int = -1, durable_offset: int = 99) -> object:
    return expired(
        log.segments(),
        now_ms=WALL_MS,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        durable_offset=durable_offset,
    )


def test_without_limits_everything_stays() -> None:
    assert found(a_log(9 * HOUR_MS, 8 * HOUR_MS, 0)) is None


def test_segments_go_whose_newest_record_is_older_than_the_limit() -> None:
    log = a_log(3 * HOUR_MS, 2 * HOUR_MS, HOUR_MS, 0)
    assert found(log, retention_ms=HOUR_MS) == Expired(2, 2)
    assert found(log, retention_ms=HOUR_MS - 1) == Expired(3, 3)


def test_a_young_segment_keeps_the_older_ones_behind_it() -> None:
    assert found(a_log(3 * HOUR_MS, 0, 3 * HOUR_MS, 0), retention_ms=HOUR_MS) == Expired(1, 1)


def test_the_active_segment_goes_when_all_of_it_is_too_old() -> None:
    assert found(a_log(3 * HOUR_MS, 2 * HOUR_MS), retention_ms=HOUR_MS) == Expired(2, 2)


def test_an_empty_active_segment_stays() -> None:
    log = a_log(3 * HOUR_MS)
    log.roll()
    assert found(log, retention_ms=HOUR_MS) == Expired(1, 1)
    log.delete_before(1)
    assert found(log, retention_ms=HOUR_MS) is None


def test_records_without_timestamps_have_no_age() -> None:
    log = MemoryLog()
    log.append(keyed(("k", "v"), timestamp_ms=-1))
    log.roll()
    assert found(log, retention_ms=0) is None


def test_a_segment_emptied_by_compaction_does_not_keep_older_ones() -> None:
    log = a_log(3 * HOUR_MS, 2 * HOUR_MS, 0)
    cleaned(log, segment_bytes=1)
    assert [segment.size_bytes > 0 for segment in log.segments()] == [False, True, True]
    assert found(log, retention_ms=HOUR_MS) == Expired(2, 2)


def test_of_too_many_bytes_go_as_many_segments_as_leave_at_least_the_limit() -> None:
    log = a_log(0, 0, 0, 0)
    each = log.size_bytes // 4
    assert found(log, retention_bytes=4 * each) is None
    assert found(log, retention_bytes=3 * each + 1) is None
    assert found(log, retention_bytes=3 * each) == Expired(1, 1)
    assert found(log, retention_bytes=2 * each - 1) == Expired(2, 2)
    assert found(log, retention_bytes=0) == Expired(4, 4)


def test_both_limits_add_up() -> None:
    log = a_log(3 * HOUR_MS, 0, 0)
    each = log.size_bytes // 3
    assert found(log, retention_ms=HOUR_MS, retention_bytes=each) == Expired(2, 2)


def test_what_may_still_be_lost_does_not_go() -> None:
    assert found(a_log(3 * HOUR_MS, 3 * HOUR_MS, 0), retention_ms=HOUR_MS, durable_offset=1) == Expired(1, 1)
