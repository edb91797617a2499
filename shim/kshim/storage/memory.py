"""A log that lives in memory and ends with the process."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kshim.storage.log import OffsetOutOfRange
from kshim.storage.timestamps import first_record_at, first_with_greatest_timestamp
from kshim_protocol.records.batch import LOG_FIELDS, set_base_offset

__all__ = ["MemoryLog"]

_unpack_fields = LOG_FIELDS.unpack_from


class MemoryLog:
    """`Log` as a list of batches, with arrays beside it so that every look-up is a bisection."""

    __slots__ = (
        "_base_offsets",
        "_batches",
        "_dropped_bytes",
        "_ends",
        "_max_timestamps",
        "end_offset",
        "start_offset",
    )

    def __init__(self, start_offset: int = 0) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
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

    def append(self, batch: bytes) -> int:
        """Append one validated batch at `end_offset` and return its base offset."""
        offset = self.end_offset
        base_offset, length, leader_epoch, _, last_offset_delta, max_timestamp_ms = _unpack_fields(batch)
        assert length == len(batch) - 12, "not one whole batch"
        if base_offset != offset or leader_epoch:
            batch = set_base_offset(batch, offset)
        if self._batches:
            self._ends.append(self._ends[-1] + length + 12)
            greatest_ms = self._max_timestamps[-1]
            self._max_timestamps.append(greatest_ms if greatest_ms > max_timestamp_ms else max_timestamp_ms)
        else:
            self._ends.append(self._dropped_bytes + length + 12)
            self._max_timestamps.append(max_timestamp_ms)
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
        if count:
            self._dropped_bytes = self._ends[count - 1]
            self._keep(count, len(self._batches))

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that holds `offset` or later ones."""
        if offset >= self.end_offset:
            return
        count = self._index_of(offset)
        self.end_offset = max(self._base_offsets[count], self.start_offset)
        self._keep(0, count)

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

    def close(self) -> None:
        """Nothing to close."""

    def _index_of(self, offset: int) -> int:
        """Which batch holds `offset`; their number at `end_offset`. Raises OffsetOutOfRange."""
        if offset == self.end_offset:
            return len(self._batches)
        if not self.start_offset <= offset < self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not in [{self.start_offset}, {self.end_offset}]")
        return bisect_right(self._base_offsets, offset) - 1

    def _bytes_before(self, index: int) -> int:
        return self._ends[index - 1] if index else self._dropped_bytes

    def _keep(self, first: int, end: int) -> None:
        self._batches = self._batches[first:end]
        self._base_offsets = self._base_offsets[first:end]
        self._ends = self._ends[first:end]
        self._max_timestamps = array("q")
        greatest_ms = -1
        for batch in self._batches:
            greatest_ms = max(greatest_ms, _unpack_fields(batch)[5])
            self._max_timestamps.append(greatest_ms)
