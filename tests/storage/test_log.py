"""What every log does, in memory or in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kshim.storage.file_log import FileLog
from kshim.storage.log import Log, LogError, OffsetOutOfRange
from kshim.storage.memory_log import MemoryLog
from kshim_protocol.records.batch import build_batch, crc_matches, iter_batches, parse_batch_header, set_base_offset
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.record import Record
from tests.storage.builders import a_batch, base_offsets, offsets, values

UNLIMITED = 1 << 40


@pytest.fixture(params=["memory", "one file", "small segments", "a segment a batch"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    """An empty log of each kind."""
    sizes = {"one file": 1 << 30, "small segments": 300, "a segment a batch": 1}
    if request.param == "memory":
        return MemoryLog()
    return FileLog(str(tmp_path / "topic-0"), segment_bytes=sizes[request.param])


def filled(log: Log) -> Log:
    """Five batches: offsets 0-1, 2, 3-5, 6, 7-9; timestamps 100.., 300, 200.., 300, 50.."""
    for names, timestamp_ms in [("ab", 100), ("c", 300), ("def", 200), ("g", 300), ("hij", 50)]:
        log.append(a_batch(*names, timestamp_ms=timestamp_ms))
    return log


def test_an_empty_log_has_offset_zero_and_nothing_to_read(log: Log) -> None:
    assert (log.start_offset, log.end_offset, log.size_bytes) == (0, 0, 0)
    assert log.read(0, UNLIMITED) == b""
    assert log.bytes_from(0) == 0
    assert list(log.batches()) == []
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp() is None
    log.sync()
    log.truncate_to(0)
    log.delete_before(0)
    assert (log.start_offset, log.end_offset) == (0, 0)


def test_append_gives_offsets_and_keeps_the_crc(log: Log) -> None:
    assert log.append(a_batch("a", "b")) == 0
    assert log.append(set_base_offset(a_batch("c"), 77, leader_epoch=9)) == 2
    assert log.append(a_batch("d", "e", "f", compression=Compression.GZIP)) == 3
    assert log.end_offset == 6
    data = log.read(0, UNLIMITED)
    assert values(data) == ["a", "b", "c", "d", "e", "f"]
    assert offsets(data) == [0, 1, 2, 3, 4, 5]
    assert all(crc_matches(batch) for batch in iter_batches(data))
    assert [parse_batch_header(batch).partition_leader_epoch for batch in iter_batches(data)] == [0, 0, 0]
    assert log.size_bytes == len(data)


def test_a_batch_without_its_last_records_still_takes_its_offsets(log: Log) -> None:
    log.append(build_batch([], last_offset_delta=9))
    assert log.append(a_batch("a")) == 10
    assert base_offsets(log.read(9, UNLIMITED)) == [0, 10]


@pytest.mark.parametrize(
    ("offset", "first"), [(0, 0), (1, 0), (2, 2), (3, 3), (4, 3), (5, 3), (6, 6), (7, 7), (8, 7), (9, 7)]
)
def test_read_begins_with_the_batch_that_holds_the_offset(log: Log, offset: int, first: int) -> None:
    data = filled(log).read(offset, UNLIMITED)
    assert base_offsets(data) == [base for base in (0, 2, 3, 6, 7) if base >= first]
    assert log.bytes_from(offset) == len(data)
    assert b"".join(log.batches(offset)) == data


def test_read_returns_whole_batches_within_the_limit(log: Log) -> None:
    filled(log)
    sizes = [len(batch) for batch in log.batches()]
    for limit in range(sum(sizes) + 2):
        count = 0
        while count < len(sizes) and sum(sizes[: count + 1]) <= limit:
            count += 1
        assert len(base_offsets(log.read(0, limit, at_least_one_batch=False))) == count
        assert len(base_offsets(log.read(1, limit))) == max(count, 1)


@pytest.mark.parametrize("limit", [0, -5, 1])
def test_one_batch_is_read_however_small_the_limit_unless_none_is_asked_for(log: Log, limit: int) -> None:
    filled(log)
    assert base_offsets(log.read(4, limit)) == [3]
    assert log.read(4, limit, at_least_one_batch=False) == b""


def test_nothing_is_read_at_the_end(log: Log) -> None:
    assert filled(log).read(10, UNLIMITED) == b""
    assert log.bytes_from(10) == 0
    assert list(log.batches(10)) == []


@pytest.mark.parametrize("offset", [-1, 11])
def test_offsets_outside_the_log_are_out_of_range(log: Log, offset: int) -> None:
    filled(log)
    with pytest.raises(OffsetOutOfRange, match=rf"offset {offset} is not in \[0, 10\]"):
        log.read(offset, 1)
    with pytest.raises(OffsetOutOfRange):
        log.bytes_from(offset)
    with pytest.raises(OffsetOutOfRange):
        list(log.batches(offset))


def test_batches_may_be_larger_than_anything_read_at_once(log: Log) -> None:
    log.append(a_batch("small"))
    log.append(a_batch("large", pad=3_000_000))
    log.append(a_batch("last"))
    assert [values(batch) for batch in log.batches()] == [["small"], ["large"], ["last"]]
    assert values(log.read(1, 10)) == ["large"]
    assert values(log.read(1, 4_000_000)) == ["large", "last"]


def test_thousands_of_batches_are_found_by_any_offset(log: Log) -> None:
    if isinstance(log, FileLog):
        log.segment_bytes = max(log.segment_bytes, 20_000)
    for i in range(3_000):
        log.append(a_batch(*"ab"[: 1 + i % 2], timestamp_ms=10 * i, pad=i % 50))
    for offset in [0, 1, 2, 3, 1_000, 1_001, 2_222, 4_498, 4_499]:
        data = log.read(offset, 1)
        header = parse_batch_header(data)
        assert header.base_offset <= offset <= header.last_offset
        assert log.bytes_from(offset) == len(b"".join(log.batches(offset)))
    for limit in (5_000, 50_000):
        data = log.read(100, limit)
        following = next(log.batches(offsets(data)[-1] + 1))
        assert len(data) <= limit < len(data) + len(following)
    for i in (0, 1, 700, 2_999):  # batches have one and two records by turns
        assert log.offset_for_timestamp(10 * i) == (3 * i // 2, 10 * i)


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [
        (0, (0, 100)),
        (100, (0, 100)),
        (101, (1, 101)),
        (102, (2, 300)),
        (300, (2, 300)),
        (301, None),
    ],
)
def test_a_timestamp_finds_the_first_record_at_or_after_it(
    log: Log, timestamp_ms: int, expected: tuple[int, int] | None
) -> None:
    assert filled(log).offset_for_timestamp(timestamp_ms) == expected


def test_the_greatest_timestamp_is_that_of_the_first_record_that_has_it(log: Log) -> None:
    assert filled(log).max_timestamp() == (2, 300)
    log.append(a_batch("k", "l", timestamp_ms=400))
    assert log.max_timestamp() == (11, 401)


def test_timestamps_are_found_inside_compressed_batches(log: Log) -> None:
    log.append(a_batch("a", "b", "c", timestamp_ms=10, compression=Compression.GZIP))
    assert log.offset_for_timestamp(11) == (1, 11)
    assert log.max_timestamp() == (2, 12)


def test_log_append_time_counts_for_every_record_of_a_batch(log: Log) -> None:
    log.append(build_batch([Record(None, b"", timestamp_ms=t) for t in (10, 99)], log_append_time_ms=50))
    assert log.offset_for_timestamp(11) == (0, 50)
    assert log.offset_for_timestamp(51) is None
    assert log.max_timestamp() == (0, 50)


def test_a_batch_emptied_by_compaction_promises_timestamps_it_no_longer_has(log: Log) -> None:
    log.append(a_batch("a", "b", timestamp_ms=10))
    log.append(build_batch([], log_append_time_ms=99, last_offset_delta=0))
    log.append(a_batch("c", timestamp_ms=20))
    assert log.max_timestamp() == (3, 20)
    assert log.offset_for_timestamp(15) == (3, 20)
    assert log.offset_for_timestamp(21) is None


def test_records_without_timestamp_have_no_greatest_one(log: Log) -> None:
    log.append(a_batch("a", timestamp_ms=-1))
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0) is None
    assert log.offset_for_timestamp(-1) == (0, -1)


def test_a_batch_that_cannot_be_decoded_is_a_log_error(log: Log) -> None:
    batch = a_batch("a", "b", compression=Compression.GZIP)
    log.append(a_batch("x", timestamp_ms=5))
    log.append(batch[:61] + b"rubbish" + batch[68:])
    assert log.offset_for_timestamp(5) == (0, 5)
    with pytest.raises(LogError, match="batch at offset 1"):
        log.offset_for_timestamp(6)
    with pytest.raises(LogError, match="batch at offset 1"):
        log.max_timestamp()
    assert len(list(log.batches())) == 2


def test_delete_before_moves_the_start_even_into_a_batch(log: Log) -> None:
    filled(log)
    log.delete_before(4)
    assert (log.start_offset, log.end_offset) == (4, 10)
    assert base_offsets(log.read(4, UNLIMITED)) == [3, 6, 7]
    with pytest.raises(OffsetOutOfRange, match=r"offset 3 is not in \[4, 10\]"):
        log.read(3, 1)
    assert base_offsets(b"".join(log.batches())) == [3, 6, 7]


def test_delete_before_only_moves_forward_and_within_the_log(log: Log) -> None:
    filled(log)
    log.delete_before(4)
    log.delete_before(2)
    assert log.start_offset == 4
    with pytest.raises(OffsetOutOfRange):
        log.delete_before(11)
    assert log.start_offset == 4


def test_records_before_the_start_have_no_timestamp_any_more(log: Log) -> None:
    filled(log)
    log.delete_before(1)
    assert log.offset_for_timestamp(0) == (1, 101)
    log.delete_before(4)
    assert log.offset_for_timestamp(0) == (4, 201)
    assert log.max_timestamp() == (6, 300)
    log.delete_before(8)
    assert log.max_timestamp() == (9, 52)
    assert log.offset_for_timestamp(53) is None


def test_everything_may_be_deleted_and_offsets_go_on(log: Log) -> None:
    filled(log)
    log.delete_before(10)
    assert (log.start_offset, log.end_offset, log.read(10, UNLIMITED)) == (10, 10, b"")
    assert log.size_bytes == 0
    assert log.max_timestamp() is None
    assert log.append(a_batch("k")) == 10
    assert log.bytes_from(10) == len(log.read(10, UNLIMITED)) == log.size_bytes


@pytest.mark.parametrize(
    ("offset", "kept", "end"), [(10, 5, 10), (99, 5, 10), (9, 4, 7), (7, 4, 7), (4, 2, 3), (2, 1, 2), (0, 0, 0)]
)
def test_truncate_drops_whole_batches_and_offsets_are_given_again(log: Log, offset: int, kept: int, end: int) -> None:
    filled(log)
    before = list(log.batches())
    log.truncate_to(offset)
    assert log.end_offset == end
    assert list(log.batches()) == before[:kept]
    assert log.size_bytes == len(b"".join(before[:kept]))
    assert log.append(a_batch("new", timestamp_ms=1)) == end
    assert values(log.read(end, UNLIMITED)) == ["new"]
    greatest = {5: (2, 300), 4: (2, 300), 2: (2, 300), 1: (1, 101), 0: (0, 1)}[kept]
    assert log.max_timestamp() == greatest


def test_truncate_does_not_reach_before_the_start(log: Log) -> None:
    filled(log)
    log.delete_before(4)
    with pytest.raises(OffsetOutOfRange):
        log.truncate_to(3)
    log.truncate_to(4)
    assert (log.start_offset, log.end_offset) == (4, 4)
    assert log.append(a_batch("k")) == 4
    assert base_offsets(log.read(4, UNLIMITED)) == [4]
    assert log.max_timestamp() == (4, 1_000)


def test_half_a_batch_is_a_mistake_of_the_caller(log: Log) -> None:
    with pytest.raises(AssertionError, match="not one whole batch"):
        log.append(a_batch("a")[:-1])
    assert log.end_offset == 0


def test_delete_and_close_may_be_called_whatever_was_done_before(tmp_path: Path) -> None:
    makers: list[Callable[[], Log]] = [MemoryLog, lambda: FileLog(str(tmp_path / "t-0"))]
    for make in makers:
        for log in (make(), filled(make())):
            log.delete()
        for log in (make(), filled(make())):
            log.close()
            log.close()
    assert [path.name for path in tmp_path.iterdir()] == ["t-0"]


def test_a_memory_log_may_start_anywhere() -> None:
    log = MemoryLog(start_offset=100)
    assert log.append(a_batch("a")) == 100
    assert (log.start_offset, log.end_offset) == (100, 101)


def test_batches_are_stamped_with_the_leader_epoch_of_the_log(log: Log) -> None:
    log.append(a_batch("a"))
    log.leader_epoch = 3
    log.append(a_batch("b"))
    log.append(a_batch("c"))
    headers = [parse_batch_header(batch) for batch in log.batches()]
    assert [(header.base_offset, header.partition_leader_epoch) for header in headers] == [(0, 0), (1, 3), (2, 3)]
