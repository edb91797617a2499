"""Where batches lie in a segment: its `.index` and `.timeindex`, in memory and in Kafka's file formats.

`.index` holds 8 bytes an entry: last offset of a batch, relative to the segment's base offset, and the batch's position.
`.timeindex` holds 12: the greatest timestamp so far and the relative last offset of the batch that has it. All big-endian
and ascending; a file may end in zeros, for Kafka allocates ahead. Kafka: OffsetIndex, TimeIndex, LogSegment.append.
"""

from __future__ import annotations

import contextlib
import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import gt, lt
from typing import NamedTuple

from kshim.storage.os_calls import OsCalls

INDEX_INTERVAL_BYTES = 4096
"""Kafka's index.interval.bytes: a batch gets an entry when more than this lies between it and the entry before."""

INDEX_SUFFIXES = (".index", ".timeindex")

_NO_TIMESTAMP = -1
_INT32_MAX = (1 << 31) - 1


class IndexEntries(NamedTuple):
    """Entries on their way into the files: `offsets` for `.index` and `times` for `.timeindex`, from these bytes on."""

    offsets_at: int
    offsets: bytes
    times_at: int
    times: bytes


class SegmentIndex:
    """The index of the segment whose path without `.log` is `stem`.

    `written` and `times_written` entries are in the files; the others wait until the bytes they point behind are synced.
    """

    def __init__(self, stem: str, base_offset: int, calls: OsCalls) -> None:
        self._stem = stem
        self._base_offset = base_offset
        self._calls = calls
        self.clear()

    def clear(self) -> None:
        """Forget all entries; what the files hold is to be replaced."""
        self._last_offsets = array("i")
        self._positions = array("i")
        self._times = array("q")
        self._time_offsets = array("i")
        self.written = 0
        self.times_written = 0
        self.is_in_files = False

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def last_position(self) -> int:
        """Position of the last entry, 0 without one."""
        return self._positions[-1] if self._positions else 0

    @property
    def written_position(self) -> int:
        """Position of the last entry that is in the files, 0 without one."""
        return self._positions[self.written - 1] if self.written else 0

    @property
    def last_offset(self) -> int:
        """Last offset of the batch of the last entry; there is one."""
        return self._base_offset + self._last_offsets[-1]

    @property
    def last_time(self) -> tuple[int, int]:
        """(greatest timestamp, offset) of the last time entry; (-1, base offset) without one."""
        if not self._times:
            return _NO_TIMESTAMP, self._base_offset
        return self._times[-1], self._base_offset + self._time_offsets[-1]

    # In memory

    def add(self, last_offset: int, position: int, greatest_ms: int, greatest_at: int) -> None:
        """An entry for the batch at `position`; `greatest_at` is the offset of `greatest_ms`, this batch included."""
        if position > _INT32_MAX:
            return
        self._last_offsets.append(last_offset - self._base_offset)
        self._positions.append(position)
        self.add_time(greatest_ms, greatest_at)

    def add_time(self, greatest_ms: int, greatest_at: int) -> None:
        """A time entry, if it says anything new."""
        if greatest_ms > (self._times[-1] if self._times else _NO_TIMESTAMP):
            self._times.append(greatest_ms)
            self._time_offsets.append(greatest_at - self._base_offset)

    def before_offset(self, offset: int) -> tuple[int, int]:
        """(position, last offset) of the last entry whose batch does not reach behind `offset`; (0, -1) without one."""
        relative = offset - self._base_offset
        if relative > _INT32_MAX:
            relative = _INT32_MAX
        entry = bisect_right(self._last_offsets, relative) - 1 if relative >= 0 else -1
        return self._entry(entry)

    def before_position(self, position: int) -> tuple[int, int]:
        """(position, last offset) of the last entry at or before `position`; (0, -1) without one."""
        return self._entry(bisect_right(self._positions, min(position, _INT32_MAX)) - 1)

    def after_position(self, position: int) -> int:
        """Position of the first entry behind `position`, so great a number without one that no file is so large."""
        entry = bisect_right(self._positions, min(position, _INT32_MAX))
        return self._positions[entry] if entry < len(self._positions) else 1 << 62

    def before_timestamp(self, timestamp_ms: int) -> tuple[int, int]:
        """(position, last offset) of an entry with nothing as late as `timestamp_ms` before it; (0, -1) without one."""
        entry = bisect_left(self._times, timestamp_ms) - 1
        return (0, -1) if entry < 0 else self.before_offset(self._base_offset + self._time_offsets[entry])

    def _entry(self, entry: int) -> tuple[int, int]:
        return (0, -1) if entry < 0 else (self._positions[entry], self._base_offset + self._last_offsets[entry])

    def keep_before(self, position: int) -> None:
        """Drop the entries of batches from `position` on, in the files too. Raises OSError."""
        count = bisect_left(self._positions, min(position, _INT32_MAX))
        last = self._last_offsets[count - 1] if count else -1
        times_count = bisect_right(self._time_offsets, last)
        if self.is_in_files:
            for suffix, size_bytes in zip(
                INDEX_SUFFIXES, (8 * min(count, self.written), 12 * min(times_count, self.times_written)), strict=True
            ):
                descriptor = self._calls.open(self._stem + suffix)
                try:
                    self._calls.ftruncate(descriptor, size_bytes)
                finally:
                    self._calls.close(descriptor)
        else:
            self.remove_files()
        self._keep(count, times_count)

    def remove_files(self) -> None:
        """Raises OSError."""
        for suffix in INDEX_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                self._calls.unlink(self._stem + suffix)
        self.written = self.times_written = 0
        self.is_in_files = False

    def _keep(self, count: int, times_count: int) -> None:
        del self._last_offsets[count:], self._positions[count:]
        del self._times[times_count:], self._time_offsets[times_count:]
        self.written = min(self.written, count)
        self.times_written = min(self.times_written, times_count)

    # In files

    def load(self, segment_bytes: int) -> str | None:
        """Read the files. Returns why they cannot be used, beginning with a verb, and has no entries then.

        None: they can, or there are none. Entries behind what the segment holds, or out of order, are no use.
        """
        self.clear()
        offsets, times = self._read(INDEX_SUFFIXES[0]), self._read(INDEX_SUFFIXES[1])
        if offsets is None or times is None:
            return "was missing" if offsets is not times else None
        numbers = array("i", _used(offsets, 8))
        if sys.byteorder == "little":
            numbers.byteswap()
        self._last_offsets, self._positions = numbers[::2], numbers[1::2]
        self._load_times(times)
        reason = self._fault(segment_bytes)
        if reason is not None:
            self.clear()
            return reason
        self.written = len(self._positions)
        # Behind the last entry nothing is known to be synced, times included; what is there is found by reading on.
        last = self._last_offsets[-1] if self.written else -1
        self._keep(self.written, bisect_right(self._time_offsets, last))
        self.times_written = len(self._times)
        self.is_in_files = True
        return None

    def _load_times(self, data: bytes) -> None:
        words = array("i", _used(data, 12))  # every third is an offset, the other two make up a timestamp
        if sys.byteorder == "little":
            words.byteswap()
        self._time_offsets = words[2::3]
        high, low = words[::3], words[1::3]
        self._times = array("q", (a << 32 | b & 0xFFFFFFFF for a, b in zip(high, low, strict=True)))

    def _fault(self, segment_bytes: int) -> str | None:
        offsets, positions, times, time_offsets = self._last_offsets, self._positions, self._times, self._time_offsets
        if positions and (positions[0] <= 0 or offsets[0] <= 0):
            return "began with invalid entries"
        if not all(map(lt, positions, positions[1:])) or not all(map(lt, offsets, offsets[1:])):
            return "was not in order"
        if positions and positions[-1] >= segment_bytes:
            return f"reached to byte {positions[-1]}, but the file ends at {segment_bytes}"
        if times and (times[0] < 0 or time_offsets[0] < 0):
            return "began with an invalid timestamp"
        if not all(map(lt, times, times[1:])) or any(map(gt, time_offsets, time_offsets[1:])):
            return "was not in order of time"
        return None

    def _read(self, suffix: str) -> bytes | None:
        try:
            with open(self._stem + suffix, "rb") as file:
                return file.read()
        except OSError:  # missing or unreadable: rebuilt
            return None

    def unwritten(self) -> IndexEntries | None:
        """The entries that are not in the files yet; None when there are none."""
        if self.is_in_files and self.written == len(self._positions) and self.times_written == len(self._times):
            return None
        numbers = array("i", bytes(8 * (len(self._positions) - self.written)))
        numbers[::2] = self._last_offsets[self.written :]
        numbers[1::2] = self._positions[self.written :]
        if sys.byteorder == "little":
            numbers.byteswap()
        times = b"".join(
            time.to_bytes(8, "big") + offset.to_bytes(4, "big")
            for time, offset in zip(
                self._times[self.times_written :], self._time_offsets[self.times_written :], strict=True
            )
        )
        return IndexEntries(8 * self.written, numbers.tobytes(), 12 * self.times_written, times)

    def write(self, entries: IndexEntries) -> None:
        """Put entries into the files, which then end with them. Any thread. Raises OSError."""
        # Times first: an entry of `.index` says that all before it is settled.
        for suffix, at, data in (
            (INDEX_SUFFIXES[1], entries.times_at, entries.times),
            (INDEX_SUFFIXES[0], entries.offsets_at, entries.offsets),
        ):
            descriptor = self._calls.open(self._stem + suffix)
            try:
                self._calls.ftruncate(descriptor, at)
                written = 0
                while written < len(data):
                    written += self._calls.pwrite(descriptor, data[written:], at + written)
            finally:
                self._calls.close(descriptor)

    def note_written(self, entries: IndexEntries) -> None:
        """`write(entries)` has been done."""
        self.written = (entries.offsets_at + len(entries.offsets)) // 8
        self.times_written = (entries.times_at + len(entries.times)) // 12
        self.is_in_files = True


def _used(data: bytes, entry_bytes: int) -> bytes:
    """Whole entries, without those of zeros at the end that Kafka allocates ahead."""
    used = -(-len(data.rstrip(b"\0")) // entry_bytes) * entry_bytes
    return data[: min(used, len(data) // entry_bytes * entry_bytes)]
