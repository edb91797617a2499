"""A log that lives in memory and ends with the process.

It has segments as a log in files has, so that retention and compaction treat both alike.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from kshim.storage.log import OffsetOutOfRange
from kshim.storage.timestamps import first_record_at, first_with_greatest_timestamp
from kshim_protocol.records.batch import iter_batches, set_base_offset
from kshim_protocol.records.layout import LOG_FIELDS
from kshim_protocol.records.scan import last_offset_of_run

_CHUNK_BYTES = 1 << 20

_unpack_fields = LOG_FIELDS.unpack_from


class MemoryLog:
    """`Log` as a list of batches, with arrays beside it so that every look-up is a bisection."""

    def __init__(self, start_offset: int = 0, *, segment_bytes: int = 1 << 30, segment_ms: int = 1 << 62) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.segment_bytes = segment_bytes
        self.segment_ms = segment_ms
        self.leader_epoch = 0
        self.loss_count = 0
        """How often batches were removed from an end of the log."""
        self._segment_offsets = [start_offset]  # where each begins; the last one is active
        self._segment_bytes_before = 0  # bytes appended ever before the active one
        self._segment_first_ms = 1 << 62  # greatest timestamp of its first batch
        self._batches: list[bytes] = []
        self._base_offsets = array("q")
        self._ends = array("q")  # bytes appended ever, up to and with this batch
        self._max_timestamps = array("q")  # the greatest up to and with this batch, so that the array is sorted
        self._dropped_bytes = 0

    @property
    def durable_offset(self) -> int:
        """As durable as it gets."""
        return self.end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches held."""
        return self._ends[-1] - self._dropped_bytes if self._ends else 0

    producer_files = None
    """There is no later run."""

    def append(self, batch: bytes) -> int:
        """Append one validated batch at `end_offset` and return its base offset."""
        offset = self.end_offset
        base_offset, length, leader_epoch, _, last_offset_delta, max_timestamp_ms = _unpack_fields(batch)
        assert length == len(batch) - 12, "not one whole batch"
        if base_offset != offset or leader_epoch != self.leader_epoch:
            batch = set_base_offset(batch, offset, self.leader_epoch)
        if self._batches:
            end = self._ends[-1] + length + 12
            if (
                end - self._segment_bytes_before > self.segment_bytes
                or max_timestamp_ms - self._segment_first_ms > self.segment_ms
            ):
                self.roll()
            self._ends.append(end)
            greatest_ms = self._max_timestamps[-1]
            self._max_timestamps.append(greatest_ms if greatest_ms > max_timestamp_ms else max_timestamp_ms)
        else:
            self._ends.append(self._dropped_bytes + length + 12)
            self._max_timestamps.append(max_timestamp_ms)
        if offset == self._segment_offsets[-1]:
            self._segment_first_ms = max_timestamp_ms
        self._batches.append(batch)
        self._base_offsets.append(offset)
        self.end_offset = offset + last_offset_delta + 1
        return offset

    def read(self, offset: int, max_bytes: int, *, at_least_one_batch: bool = True) -> bytes:
        """Whole batches from the one holding `offset`, up to `max_bytes`; at least one when asked."""
        first = self._index_of(offset)
        if first == len(self._batches):
            return b""
        end = bisect_right(self._ends, self._bytes_before(first) + max_bytes, first)
        if end == first and at_least_one_batch:
            end = first + 1
        if end == first + 1:
            return self._batches[first]
        return b"".join(self._batches[first:end])

    def bytes_from(self, offset: int) -> int:
        """How many bytes there are from the batch holding `offset` on."""
        first = self._index_of(offset)
        return self._ends[-1] - self._bytes_before(first) if first < len(self._batches) else 0

    def batches(self, offset: int | None = None) -> Iterator[bytes]:
        """The batches from the one holding `offset` on, as they are when iteration starts."""
        yield from self._batches[self._index_of(self.start_offset if offset is None else offset) :]

    def runs(self, offset: int | None = None, max_bytes: int = 1 << 16) -> Iterator[bytes]:
        """The batches from the one holding `offset` on, many at a time, up to where the log ends by then."""
        at = self.start_offset if offset is None else offset
        index = self._index_of(at)
        while index < len(self._batches):
            run = self.read(max(at, self.start_offset), max_bytes)
            yield run
            at = last_offset_of_run(run) + 1
            if at >= self.end_offset:
                return
            index = self._index_of(max(at, self.start_offset))

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp_ms) of the first record with timestamp >= `timestamp_ms`, or None."""
        for index in range(bisect_left(self._max_timestamps, timestamp_ms), len(self._batches)):
            found = first_record_at(self._batches[index], timestamp_ms, start_offset=self.start_offset)
            if found is not None:
                return found
        return None

    def max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp_ms) of the first record with the greatest timestamp, or None."""
        if not self._batches:
            return None
        greatest_ms = self._max_timestamps[-1]
        first = bisect_left(self._max_timestamps, greatest_ms)
        found = first_with_greatest_timestamp(self._batches[first : first + 1], start_offset=self.start_offset)
        if found is None or found[1] < greatest_ms:  # the record that the header speaks of is deleted
            found = first_with_greatest_timestamp(self._batches, start_offset=self.start_offset)
        return found

    def delete_before(self, offset: int) -> None:
        """Move `start_offset` up to `offset` and forget the batches wholly before it."""
        if offset <= self.start_offset:
            return
        count = self._index_of(offset)
        self.start_offset = offset
        while len(self._segment_offsets) > 1 and self._segment_offsets[1] <= offset:
            del self._segment_offsets[0]
        if count:
            self._dropped_bytes = self._ends[count - 1]
            self._keep(count, len(self._batches))

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that holds `offset` or later ones."""
        if offset >= self.end_offset:
            return
        count = self._index_of(offset)
        self.end_offset = max(self._base_offsets[count], self.start_offset)
        while len(self._segment_offsets) > 1 and self._segment_offsets[-1] > self.end_offset:
            del self._segment_offsets[-1]
        self._segment_bytes_before = self._bytes_before(bisect_left(self._base_offsets, self._segment_offsets[-1]))
        self._keep(0, count)

    def roll(self) -> bool:
        """Begin a new segment; False when the active one is empty."""
        is_used = self.end_offset > self._segment_offsets[-1]
        if is_used:
            self._segment_offsets.append(self.end_offset)
            self._segment_bytes_before = self._ends[-1] if self._ends else self._dropped_bytes
            self._segment_first_ms = 1 << 62
        return is_used

    def between(self, begin_offset: int, end_offset: int) -> list[bytes]:
        """The batches whose base offset lies there, end excluded."""
        return self._batches[
            bisect_left(self._base_offsets, begin_offset) : bisect_left(self._base_offsets, end_offset)
        ]

    def segments(self) -> Sequence[MemorySegment]:
        """All segments in order; the last one is active."""
        bounds = [*self._segment_offsets, self.end_offset]
        return [self._segment(begin, end) for begin, end in pairwise(bounds)]

    def _segment(self, begin_offset: int, end_offset: int) -> MemorySegment:
        begin = bisect_left(self._base_offsets, begin_offset)
        end = bisect_left(self._base_offsets, end_offset)
        size_bytes = self._bytes_before(end) - self._bytes_before(begin)
        first_ms = _unpack_fields(self._batches[begin])[5] if end > begin else -1
        greatest_ms = self._max_timestamps[end - 1] if end > begin else -1
        return MemorySegment(self, (begin_offset, end_offset), size_bytes, (first_ms, greatest_ms))

    def begin_replacement(self, segments: Sequence[Any]) -> MemoryReplacement:
        """Begin to replace neighbouring sealed segments by one."""
        return MemoryReplacement(self, segments)

    def replace(self, begin_offset: int, end_offset: int, batches: list[bytes]) -> None:
        """Put `batches` in the place of the sealed segments from one offset to another: one segment from now on."""
        begin = bisect_left(self._base_offsets, begin_offset)
        end = bisect_left(self._base_offsets, end_offset)
        size_bytes = sum(map(len, batches))
        ends = array("q", accumulate(map(len, batches), initial=self._bytes_before(end) - size_bytes))
        removed_bytes = ends[0] - self._bytes_before(begin)
        greatest_ms = self._max_timestamps[begin - 1] if begin else -1
        timestamps = accumulate((_unpack_fields(batch)[5] for batch in batches), max, initial=greatest_ms)
        self._dropped_bytes += removed_bytes
        self._ends[:end] = array("q", [at + removed_bytes for at in self._ends[:begin]]) + ends[1:]
        self._max_timestamps[begin:end] = array("q", timestamps)[1:]
        self._base_offsets[begin:end] = array("q", [_unpack_fields(batch)[0] for batch in batches])
        self._batches[begin:end] = batches
        self._segment_offsets = [at for at in self._segment_offsets if not begin_offset < at < end_offset]

    def begin_sync(self) -> None:
        """Nothing to do, ever."""

    def cut_unsynced(self) -> None:
        """No sync fails here."""

    def rewrite_unsynced(self) -> None:
        """No sync fails here."""

    def sync(self) -> None:
        """Nothing survives power loss here."""

    def delete(self) -> None:
        """Forget everything."""
        self._keep(0, 0)

    def forget(self) -> None:
        """Nothing to close."""

    def close(self) -> None:
        """Nothing to close."""

    def _index_of(self, offset: int) -> int:
        """Which batch holds `offset`; their number at `end_offset`. Raises OffsetOutOfRange."""
        if offset == self.end_offset:
            return len(self._batches)
        if not self.start_offset <= offset < self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not in [{self.start_offset}, {self.end_offset}]")
        index = bisect_right(self._base_offsets, offset) - 1
        if index < 0:
            return 0
        batch = self._batches[index]
        if offset > self._base_offsets[index] and offset > _last_offset(batch):
            return index + 1  # the batch that held it was compacted away
        return index

    def _bytes_before(self, index: int) -> int:
        return self._ends[index - 1] if index else self._dropped_bytes

    def _keep(self, first: int, end: int) -> None:
        self.loss_count += 1
        self._batches = self._batches[first:end]
        self._base_offsets = self._base_offsets[first:end]
        self._ends = self._ends[first:end]
        self._max_timestamps = array("q")
        greatest_ms = -1
        for batch in self._batches:
            greatest_ms = max(greatest_ms, _unpack_fields(batch)[5])
            self._max_timestamps.append(greatest_ms)


class MemorySegment:
    """See `SegmentView`."""

    def __init__(
        self, log: MemoryLog, offsets: tuple[int, int], size_bytes: int, timestamps_ms: tuple[int, int]
    ) -> None:
        self._log = log
        self.base_offset, self.end_offset = offsets
        self.size_bytes = size_bytes
        self.first_timestamp_ms, self.max_timestamp_ms = timestamps_ms
        """The greatest of the first batch, and the greatest up to and with this segment."""
        self.loss_count = log.loss_count

    def chunks(self) -> Iterator[Callable[[], bytes]]:
        """The batches, some at a time."""
        batches = self._log.between(self.base_offset, self.end_offset)
        begin = size_bytes = 0
        for end, batch in enumerate(batches, start=1):
            size_bytes += len(batch)
            if size_bytes >= _CHUNK_BYTES or end == len(batches):
                yield partial(b"".join, batches[begin:end])
                begin, size_bytes = end, 0


class MemoryReplacement:
    """See `Replacement`."""

    def __init__(self, log: MemoryLog, segments: Sequence[MemorySegment]) -> None:
        self._log = log
        self._begin_offset = segments[0].base_offset
        self._end_offset = segments[-1].end_offset
        self._loss_count = segments[0].loss_count
        self._batches: list[bytes] = []

    def write(self, batches: bytes) -> None:
        """Add whole batches."""
        self._batches += iter_batches(batches)

    def prepare(self) -> None:
        """Nothing survives anyway."""

    def finish(self) -> bool:
        """Put them in; False when something was removed from the log since the segments were asked for."""
        if self._log.loss_count != self._loss_count:
            return False
        self._log.replace(self._begin_offset, self._end_offset, self._batches)
        return True

    def abandon(self) -> None:
        """Forget them."""
        self._batches = []


def _last_offset(batch: bytes) -> int:
    base_offset: int
    last_offset_delta: int
    base_offset, _, _, _, last_offset_delta, _ = _unpack_fields(batch)
    return base_offset + last_offset_delta
