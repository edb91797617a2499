"""One file of a log: raw batches as in Kafka's own `.log` files, and a sparse index of it in memory."""

from __future__ import annotations

import contextlib
import errno
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls
from kshim_protocol.records.batch import HEADER_BYTES, LOG_FIELDS, OVERHEAD_BYTES, crc_matches

__all__ = ["Damage", "Place", "Segment"]

INDEX_INTERVAL_BYTES = 4096
"""Kafka's index.interval.bytes: a batch gets an index entry when this much lies between it and the entry before."""

_READ_BYTES = 1 << 20
_MIN_BATCH_LENGTH = HEADER_BYTES - OVERHEAD_BYTES
_NO_TIMESTAMP = -(1 << 63)

_NO_LIMIT = 1 << 63
_WINDOW_BYTES = INDEX_INTERVAL_BYTES + HEADER_BYTES  # from one index entry to the next

_unpack_fields = LOG_FIELDS.unpack_from
# The same for loops over millions: base offset, batch length, magic, last offset delta, max timestamp.
_unpack_scanned = struct.Struct(">qi4xb6xi8xq").unpack_from
# And: base offset, batch length, last offset delta.
_unpack_reach = struct.Struct(">qi11xi").unpack_from


class Damage(NamedTuple):
    """From `position` on the file holds no sound batches."""

    position: int
    reason: str


class Place(NamedTuple):
    """Where a batch lies in the file and what its header says."""

    position: int
    end: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int


class Segment:
    """Batches from `base_offset` (the file's name) up to `end_offset`. The file is opened on first use.

    The index has an entry for the first batch and then for one in every 4 KiB: its base offset, its position, and the
    greatest timestamp before it.
    """

    __slots__ = (
        "_calls",
        "_descriptor",
        "_index_offsets",
        "_index_positions",
        "_index_timestamps",
        "_next_index_position",
        "base_offset",
        "damage",
        "end_offset",
        "max_timestamp_ms",
        "path",
        "size_bytes",
    )

    def __init__(self, path: str, base_offset: int, calls: OsCalls) -> None:
        self.path = path
        self.base_offset = base_offset
        self._calls = calls
        self._descriptor = -1
        self._clear()

    def _clear(self) -> None:
        self.end_offset = self.base_offset
        self.size_bytes = 0
        self.max_timestamp_ms = _NO_TIMESTAMP
        self.damage: Damage | None = None
        self._index_offsets = array("q")
        self._index_positions = array("q")
        self._index_timestamps = array("q")
        self._next_index_position = 0

    def open(self) -> None:
        """Open the file, made if it is not there. Raises LogError."""
        if self._descriptor < 0:
            try:
                self._descriptor = self._calls.open(self.path)
            except OSError as error:
                raise self._error("open", error) from error

    def close(self) -> None:
        """Close the file until it is used again."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with contextlib.suppress(OSError):  # it is closed all the same; what must survive was synced
                self._calls.close(descriptor)

    def scan(self, file_bytes: int) -> None:
        """Read all headers of a file of `file_bytes` and make the index, up to the first `damage` if there is any.

        Of the CRCs only those behind the last index entry are checked: a write can be torn only there. Raises LogError.
        """
        self._scan_headers(file_bytes)
        if not self._index_positions:
            return
        for place in self.hop(self._index_positions[-1]):
            if not crc_matches(self.read(place.position, place.end - place.position)):
                self._scan_headers(place.position)
                self.damage = Damage(place.position, "CRC differs")
                return

    def _scan_headers(self, file_bytes: int) -> None:
        self._clear()
        position = 0
        end_offset = self.base_offset
        greatest_ms = _NO_TIMESTAMP
        next_index_position = 0
        reason = ""
        while position < file_bytes and not reason:
            chunk = self.read(position, min(_READ_BYTES, file_bytes - position))
            last_at = len(chunk) - HEADER_BYTES
            if last_at < 0:
                reason = "file ends inside a header"
            at = end = 0
            while end <= last_at:
                at = end
                offset, length, magic, last_offset_delta, max_timestamp_ms = _unpack_scanned(chunk, at)
                if offset < end_offset or magic != 2 or length < _MIN_BATCH_LENGTH or last_offset_delta < 0:
                    reason = "no batch header"
                    end = at
                    break
                end = at + OVERHEAD_BYTES + length
                if at >= next_index_position:
                    self._index_offsets.append(offset)
                    self._index_positions.append(position + at)
                    self._index_timestamps.append(greatest_ms)
                    next_index_position = at + INDEX_INTERVAL_BYTES
                if max_timestamp_ms > greatest_ms:
                    greatest_ms = max_timestamp_ms
                end_offset = offset + last_offset_delta + 1
            if position + end > file_bytes:  # the last batch is not whole: leave it out of what was just collected
                self._scan_headers(position + at)
                self.damage = Damage(position + at, "file ends inside a batch")
                return
            position += end
            next_index_position -= end
        self.size_bytes = position
        self.end_offset = end_offset
        self.max_timestamp_ms = greatest_ms
        self._next_index_position = position + next_index_position
        if reason:
            self.damage = Damage(position, reason)

    def append(self, batch: bytes, offset: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Write a batch whose header says `offset`, `last_offset`, `max_timestamp_ms`. Raises LogError, unchanged."""
        position = self.size_bytes
        self.open()
        try:
            written = self._calls.pwrite(self._descriptor, batch, position)
            if written < len(batch):
                self._write(batch[written:], position + written)
        except OSError as error:
            self._undo(position)
            raise self._error("append to", error) from error
        if position >= self._next_index_position:
            self._index_offsets.append(offset)
            self._index_positions.append(position)
            self._index_timestamps.append(self.max_timestamp_ms)
            self._next_index_position = position + INDEX_INTERVAL_BYTES
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
        self.size_bytes = position + len(batch)
        self.end_offset = last_offset + 1

    def _write(self, data: bytes, position: int) -> None:
        while data:  # a disk that is filling up takes a part first, and tells why next time
            written = self._calls.pwrite(self._descriptor, data, position)
            if written <= 0:
                raise OSError(errno.EIO, "nothing was written")
            data = data[written:]
            position += written

    def _undo(self, position: int) -> None:
        # If the disk refuses this too, the next append overwrites what was left behind, or the next start cuts it off.
        with contextlib.suppress(OSError):
            self._calls.ftruncate(self._descriptor, position)

    def read(self, position: int, size_bytes: int) -> bytes:
        """Bytes of the file. Raises LogError, also when there are fewer."""
        self.open()
        try:
            data = self._calls.pread(self._descriptor, size_bytes, position)
            while len(data) < size_bytes:
                more = self._calls.pread(self._descriptor, size_bytes - len(data), position + len(data))
                if not more:
                    raise LogError(f"{self.path} ends at byte {position + len(data)}, not {position + size_bytes}")
                data += more
        except OSError as error:
            raise self._error("read", error) from error
        return data

    def truncate(self, position: int) -> None:
        """Cut the file at the start of a batch. Raises LogError."""
        self.open()
        try:
            self._calls.ftruncate(self._descriptor, position)
        except OSError as error:
            raise self._error("truncate", error) from error
        self._scan_headers(position)

    def duplicate(self) -> int:
        """A descriptor of the same open file, for whoever closes it; -1 when the file is not open. Raises LogError."""
        try:
            return self._calls.dup(self._descriptor) if self._descriptor >= 0 else -1
        except OSError as error:
            raise self._error("open", error) from error

    def write_again(self, position: int) -> None:
        """Write what the file holds from `position` on over itself, so that the next sync writes it. Raises LogError."""
        self.open()
        while position < self.size_bytes:
            data = self.read(position, min(_READ_BYTES, self.size_bytes - position))
            try:
                self._write(data, position)
            except OSError as error:
                raise self._error("write to", error) from error
            position += len(data)

    def hop(self, position: int) -> Iterator[Place]:
        """The batches from the one at `position` to the end, by their headers."""
        chunk = b""
        chunk_at = 0
        while position < self.size_bytes:
            at = position - chunk_at
            if at + HEADER_BYTES > len(chunk):
                chunk = self.read(position, min(_WINDOW_BYTES, self.size_bytes - position))
                chunk_at, at = position, 0
            offset, length, _, _, last_offset_delta, max_timestamp_ms = _unpack_fields(chunk, at)
            end = position + OVERHEAD_BYTES + length
            yield Place(position, end, offset, offset + last_offset_delta, max_timestamp_ms)
            position = end

    def position_of(self, offset: int) -> int:
        """Where the batch lies that holds `offset`, or else the first one behind it."""
        entry = bisect_right(self._index_offsets, offset) - 1
        if entry < 0:
            return 0
        return self._find(self._index_positions[entry], offset, _NO_LIMIT)

    def end_of_whole_batches(self, position: int, limit: int) -> int:
        """End of the last batch that ends at or before `limit`, from `position` on; `position` if there is none."""
        if limit >= self.size_bytes:
            return self.size_bytes
        entry = bisect_right(self._index_positions, limit) - 1
        if entry >= 0:
            position = max(position, self._index_positions[entry])
        return self._find(position, _NO_LIMIT, limit)

    def _find(self, position: int, offset: int, limit: int) -> int:
        """Position of the first batch, from the one at `position` on, that reaches `offset` or ends behind `limit`."""
        while position < self.size_bytes:
            chunk = self.read(position, min(_WINDOW_BYTES, self.size_bytes - position))
            at = 0
            last_at = len(chunk) - HEADER_BYTES
            while at <= last_at:
                base_offset, length, last_offset_delta = _unpack_reach(chunk, at)
                end = at + OVERHEAD_BYTES + length
                if base_offset + last_offset_delta >= offset or position + end > limit:
                    return position + at
                at = end
            position += at
        return position

    def end_of_batch(self, position: int) -> int:
        """Where the batch at `position` ends."""
        return next(self.hop(position)).end

    def places_from_timestamp(self, timestamp_ms: int) -> Iterator[Place]:
        """The batches that promise a timestamp >= `timestamp_ms`."""
        if self.max_timestamp_ms < timestamp_ms:
            return
        entry = max(bisect_left(self._index_timestamps, timestamp_ms) - 1, 0)
        for place in self.hop(self._index_positions[entry]):
            if place.max_timestamp_ms >= timestamp_ms:
                yield place

    def batches(self, position: int) -> Iterator[bytes]:
        """Every batch from `position` on, read in large pieces."""
        chunk = b""
        chunk_at = position
        while position < self.size_bytes:
            at = position - chunk_at
            end = at + OVERHEAD_BYTES
            if end <= len(chunk):
                end += int.from_bytes(chunk[at + 8 : end], "big")
            size_bytes = end - at
            if end > len(chunk):
                left = self.size_bytes - position
                if size_bytes > left:
                    raise LogError(
                        f"{self.path} is damaged at byte {position}: a batch of {size_bytes} bytes, {left} left"
                    )
                chunk = self.read(position, min(max(_READ_BYTES, size_bytes), left))
                chunk_at = position
                continue
            yield chunk[at:end]
            position = chunk_at + end

    def _error(self, verb: str, error: OSError) -> LogError:
        return LogError(f"cannot {verb} {self.path}: {error.strerror or error}")
