"""A log in a folder of its own, laid out as Kafka lays out a partition.

`<topic>-<partition>/00000000000000000000.log` and further segments, each named by its first offset. Beside them at most
one file of ours, `log-start-offset`, for a start that lies inside a segment.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kshim.storage.file_sync import FileSync
from kshim.storage.log import LogError, OffsetOutOfRange
from kshim.storage.os_calls import OsCalls
from kshim.storage.segment import Segment
from kshim.storage.timestamps import first_record_at, first_with_greatest_timestamp
from kshim_protocol.records.batch import LOG_FIELDS, set_base_offset

__all__ = ["DEFAULT_SEGMENT_BYTES", "FileLog", "TailCut"]

DEFAULT_SEGMENT_BYTES = 1 << 30
"""Kafka's log.segment.bytes."""

_START_OFFSET_FILE = "log-start-offset"
_MOST_UNSYNCED_OPEN = 4
_MAX_RELATIVE_OFFSET = (1 << 31) - 1  # Kafka's indexes hold offsets relative to the segment's in 32 bits

_unpack_fields = LOG_FIELDS.unpack_from


class TailCut(NamedTuple):
    """What was cut off the end of a log when it was opened: a write that power loss or a crash had torn."""

    path: str
    position: int
    bytes_cut: int
    reason: str


class FileLog:
    """`Log` in files. Nothing is opened, read or made before first use.

    Only the last segment can have a torn tail; damage elsewhere is a LogError. Few descriptors stay open: the last
    segment's, that of the older one used last, and those of the few that wait to be synced.
    """

    def __init__(
        self,
        path: str,
        *,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        on_tail_cut: Callable[[TailCut], None] | None = None,
        calls: OsCalls | None = None,
    ) -> None:
        self.path = path
        self.segment_bytes = segment_bytes
        self._on_tail_cut = on_tail_cut
        self._calls = OsCalls() if calls is None else calls
        self._is_open = False
        self._start_offset = 0
        self._size_bytes = 0
        self._segments: list[Segment] = []
        self._older: Segment | None = None  # of all but the last segment, the one whose file is open
        self._durable_offset = 0
        self._unsynced: list[Segment] = []  # of all but the last segment, those that wait to be synced
        self._has_unsynced_data = False  # in the last segment
        self._has_unsynced_names = False
        self._sync: FileSync | None = None
        self._sync_failure: str | None = None

    @property
    def start_offset(self) -> int:
        """First offset that may be read."""
        if not self._is_open:
            self._open()
        return self._start_offset

    @property
    def end_offset(self) -> int:
        """Offset the next record will get."""
        if not self._is_open:
            self._open()
        return max(self._segments[-1].end_offset, self._start_offset) if self._segments else self._start_offset

    @property
    def durable_offset(self) -> int:
        """Everything before this offset survives power loss."""
        if not self._is_open:
            self._open()
        return self._durable_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches held."""
        if not self._is_open:
            self._open()
        return self._size_bytes

    def append(self, batch: bytes) -> int:
        """Append one validated batch at `end_offset` and return its base offset; it has then reached the kernel."""
        offset = self.end_offset
        if self._sync_failure is not None:
            raise LogError(self._sync_failure)
        base_offset, length, leader_epoch, _, last_offset_delta, max_timestamp_ms = _unpack_fields(batch)
        size_bytes = length + 12
        assert size_bytes == len(batch), "not one whole batch"
        if base_offset != offset or leader_epoch:
            batch = set_base_offset(batch, offset)
        last_offset = offset + last_offset_delta
        segment = self._segments[-1] if self._segments else self._roll(offset)
        if segment.size_bytes and (
            segment.size_bytes + size_bytes > self.segment_bytes
            or last_offset - segment.base_offset > _MAX_RELATIVE_OFFSET
        ):
            segment = self._roll(offset)
        segment.append(batch, offset, last_offset, max_timestamp_ms)
        self._size_bytes += size_bytes
        self._has_unsynced_data = True
        return offset

    def read(self, offset: int, max_bytes: int, *, at_least_one_batch: bool = True) -> bytes:
        """Whole batches from the one holding `offset`, up to `max_bytes`; at least one when asked."""
        index = self._index_of(offset)
        parts: list[bytes] = []
        left = max_bytes
        while index < len(self._segments):
            segment = self._using(index)
            position = 0 if parts else segment.position_of(offset)
            end = segment.end_of_whole_batches(position, position + left)
            if end == position and not parts and at_least_one_batch:
                end = segment.end_of_batch(position)
            if end > position:
                parts.append(segment.read(position, end - position))
                left -= end - position
            if end < segment.size_bytes:
                break
            index += 1
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def bytes_from(self, offset: int) -> int:
        """How many bytes there are from the batch holding `offset` on."""
        index = self._index_of(offset)
        if index == len(self._segments):
            return 0
        later = sum(segment.size_bytes for segment in self._segments[index:])
        return later - self._using(index).position_of(offset)

    def batches(self, offset: int | None = None) -> Iterator[bytes]:
        """The batches from the one holding `offset` on, up to where the log ends by then."""
        start = self.start_offset if offset is None else offset
        index = self._index_of(start)
        position = self._using(index).position_of(start) if index < len(self._segments) else 0
        while index < len(self._segments):
            yield from self._using(index).batches(position)
            index += 1
            position = 0

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp_ms) of the first record with timestamp >= `timestamp_ms`, or None."""
        start_offset = self.start_offset
        for index in range(len(self._segments)):
            segment = self._using(index)
            for place in segment.places_from_timestamp(timestamp_ms):
                if place.last_offset < start_offset:
                    continue
                batch = segment.read(place.position, place.end - place.position)
                found = first_record_at(batch, timestamp_ms, start_offset=start_offset)
                if found is not None:
                    return found
        return None

    def max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp_ms) of the first record with the greatest timestamp, or None."""
        start_offset = self.start_offset
        if not self._size_bytes:
            return None
        greatest_ms = max(segment.max_timestamp_ms for segment in self._segments)
        index = next(i for i, segment in enumerate(self._segments) if segment.max_timestamp_ms == greatest_ms)
        segment = self._using(index)
        place = next(segment.places_from_timestamp(greatest_ms))
        batch = segment.read(place.position, place.end - place.position)
        found = first_with_greatest_timestamp([batch], start_offset=start_offset)
        if found is None or found[1] < greatest_ms:  # the record that the header speaks of is deleted
            found = first_with_greatest_timestamp(self.batches(), start_offset=start_offset)
        return found

    def delete_before(self, offset: int) -> None:
        """Move `start_offset` up to `offset` and remove the segments wholly before it."""
        if offset <= self.start_offset:
            return
        end_offset = self.end_offset
        if offset > end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not in [{self._start_offset}, {end_offset}]")
        if offset == end_offset and self._segments and self._segments[-1].size_bytes:
            self._roll(end_offset)
        self._write_start_offset(offset)
        self._start_offset = offset
        self._remove_before_start()

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that holds `offset` or later ones."""
        if offset >= self.end_offset:
            return
        first = self._index_of(offset)
        self._take_back_sync()
        for index in range(len(self._segments) - 1, first, -1):  # from the end, so that a crash leaves no gap
            self._remove(index)
        segment = self._segments[first]
        if segment is self._older:
            self._older = None  # it is the last one now
        size_bytes = segment.size_bytes
        segment.truncate(segment.position_of(offset))
        self._size_bytes -= size_bytes - segment.size_bytes
        if segment in self._unsynced:
            self._unsynced.remove(segment)
        self._durable_offset = min(self._durable_offset, self.end_offset)
        self._has_unsynced_data = True

    def begin_sync(self) -> FileSync | None:
        """Begin to make everything appended so far survive power loss; None when there is nothing to do.

        Also None while another sync is under way, and after one has failed.
        """
        if self._sync is not None or self._sync_failure is not None:
            return None
        segments = self._unsynced + self._segments[-1:] if self._has_unsynced_data else list(self._unsynced)
        if not segments and not self._has_unsynced_names:
            return None
        sync = FileSync(
            segments,
            (self.path, os.path.dirname(self.path)) if self._has_unsynced_names else (),
            end_offset=self.end_offset,
            has_active_data=self._has_unsynced_data,
            calls=self._calls,
            outcome=self._synced,
        )
        self._sync = sync
        self._unsynced = []
        self._has_unsynced_data = self._has_unsynced_names = False
        return sync

    def _synced(self, sync: FileSync, error: LogError | None) -> None:
        if sync is self._sync:
            self._sync = None
        if not self._is_open:
            return
        if error is not None:  # also of a void one: the pages it could not write may still be part of the log
            self._sync_failure = str(error)
        elif not sync.is_void:
            self._durable_offset = max(self._durable_offset, sync.end_offset)
            for segment in sync.segments:
                if segment is not self._segments[-1] and segment is not self._older:
                    segment.close()

    def _take_back_sync(self) -> None:
        """What is being synced counts as unsynced again, whatever becomes of that sync."""
        sync, self._sync = self._sync, None
        if sync is None:
            return
        sync.is_void = True
        self._unsynced = [segment for segment in self._segments[:-1] if segment in (*sync.segments, *self._unsynced)]
        self._has_unsynced_data |= sync.has_active_data
        self._has_unsynced_names |= bool(sync.folders)

    def cut_unsynced(self) -> None:
        """After a failed sync: drop what lies behind `durable_offset`, and go on from there."""
        self._begin_repair()
        self.truncate_to(max(self._durable_offset, self._start_offset))
        self._sync_failure = None

    def rewrite_unsynced(self) -> None:
        """After a failed sync: write what lies behind `durable_offset` once more, to be synced by the next sync."""
        self._begin_repair()
        if self._durable_offset < self.end_offset:
            first = self._index_of(max(self._durable_offset, self._start_offset))
            position = self._segments[first].position_of(self._durable_offset)
            for index in range(first, len(self._segments)):
                self._using(index).write_again(position)
                position = 0
        self._sync_failure = None

    def _begin_repair(self) -> None:
        """Use fresh descriptors: the old ones have had their error reported."""
        self._take_back_sync()
        for segment in self._segments:
            segment.close()
        if self._durable_offset < self.end_offset:
            first = self._index_of(max(self._durable_offset, self._start_offset))
            self._unsynced = self._segments[first:-1]
            self._has_unsynced_data = True
        self._has_unsynced_names = True

    def sync(self) -> None:
        """Make everything appended so far survive power loss.

        Once this has failed it fails until the log is repaired: the kernel may have dropped what it could not write,
        and would not say so a second time.
        """
        self._take_back_sync()
        if self._sync_failure is not None:
            raise LogError(self._sync_failure)
        sync = self.begin_sync()
        if sync is None:
            return
        try:
            sync.run()
        except LogError as error:
            sync.failed(error)
            raise
        sync.finish()

    def delete(self) -> None:
        """Close and remove the folder: first by name, so that a crash leaves a log or none."""
        self._forget()
        try:
            if os.path.isdir(self.path):
                doomed = free_doomed_name(self.path)
                self._calls.rename(self.path, doomed)
                remove_folder(doomed)
        except OSError as error:
            raise LogError(f"cannot delete {self.path}: {error.strerror or error}") from error

    def close(self) -> None:
        """Sync and close."""
        try:
            self.sync()
        finally:
            self._forget()

    def _forget(self) -> None:
        for segment in self._segments:
            segment.close()
        self._segments = []
        self._older = None
        self._unsynced = []
        self._has_unsynced_data = False
        self._has_unsynced_names = False
        self._sync = None
        self._is_open = False

    def _open(self) -> None:
        try:
            sizes = {entry.name: entry.stat().st_size for entry in os.scandir(self.path)}
        except FileNotFoundError:
            sizes = {}
        except OSError as error:
            raise LogError(f"cannot list {self.path}: {error.strerror or error}") from error
        try:
            for name in sorted(name for name in sizes if _is_segment(name)):
                self._open_segment(name, sizes[name])
            if self._segments:
                self._cut_tail(sizes)
            recorded = self._read_start_offset() if _START_OFFSET_FILE in sizes else 0
        except LogError:
            self._forget()
            raise
        self._start_offset = max(recorded, self._segments[0].base_offset if self._segments else 0)
        self._size_bytes = sum(segment.size_bytes for segment in self._segments)
        self._durable_offset = self._start_offset  # the process before may have ended before its last sync
        self._unsynced = self._segments[:-1]
        self._has_unsynced_data = bool(self._segments)
        self._is_open = True
        self._remove_before_start()

    def _open_segment(self, name: str, size_bytes: int) -> None:
        segment = Segment(os.path.join(self.path, name), int(name[:20]), self._calls)
        if self._segments:
            before = self._segments[-1]
            if before.damage is not None:
                position, reason = before.damage
                raise LogError(f"{before.path} is damaged at byte {position}: {reason}")
            if before.end_offset > segment.base_offset:
                raise LogError(f"{before.path} reaches offset {before.end_offset}, into {name}")
            before.close()
        self._segments.append(segment)
        segment.scan(size_bytes)

    def _cut_tail(self, sizes: dict[str, int]) -> None:
        segment = self._segments[-1]
        if segment.damage is None:
            return
        position, reason = segment.damage
        cut = TailCut(segment.path, position, sizes[os.path.basename(segment.path)] - position, reason)
        segment.truncate(position)
        self._has_unsynced_data = True
        if self._on_tail_cut is not None:
            self._on_tail_cut(cut)

    def _index_of(self, offset: int) -> int:
        """Which segment holds `offset`; their number at `end_offset`. Raises OffsetOutOfRange."""
        end_offset = self.end_offset
        if offset == end_offset:
            return len(self._segments)
        if not self._start_offset <= offset < end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not in [{self._start_offset}, {end_offset}]")
        index = bisect_right(self._segments, offset, key=_base_offset) - 1
        return index if offset < self._segments[index].end_offset else index + 1

    def _using(self, index: int) -> Segment:
        """The segment, with the file of the older one used before closed."""
        segment = self._segments[index]
        if index < len(self._segments) - 1 and segment is not self._older:
            if self._older is not None and self._older not in self._unsynced[-_MOST_UNSYNCED_OPEN:]:
                self._older.close()
            self._older = segment
        return segment

    def _roll(self, offset: int) -> Segment:
        """Begin a segment at `offset`. The one before is synced by the next sync, never here."""
        segment = Segment(os.path.join(self.path, f"{offset:020}.log"), offset, self._calls)
        if not self._segments:
            try:
                with contextlib.suppress(FileExistsError):
                    self._calls.mkdir(self.path)
            except OSError as error:
                raise LogError(f"cannot make {self.path}: {error.strerror or error}") from error
        segment.open()
        if self._segments:
            self._seal()
        self._segments.append(segment)
        self._has_unsynced_names = True
        return segment

    def _seal(self) -> None:
        segment = self._segments[-1]
        if self._has_unsynced_data:
            # It stays open, for a descriptor opened later might not be told of an error.
            self._unsynced.append(segment)
            self._has_unsynced_data = False
            if len(self._unsynced) > _MOST_UNSYNCED_OPEN:
                self._unsynced[-1 - _MOST_UNSYNCED_OPEN].close()
        elif self._sync is None or segment not in self._sync.segments:
            segment.close()

    def _remove_before_start(self) -> None:
        while len(self._segments) > 1 and self._segments[0].end_offset <= self._start_offset:
            self._remove(0)

    def _remove(self, index: int) -> None:
        segment = self._segments[index]
        try:
            segment.close()
            self._calls.unlink(segment.path)
        except OSError as error:
            raise LogError(f"cannot remove {segment.path}: {error.strerror or error}") from error
        del self._segments[index]
        if segment in self._unsynced:
            self._unsynced.remove(segment)
        self._size_bytes -= segment.size_bytes
        self._has_unsynced_names = True
        if segment is self._older:
            self._older = None

    def _write_start_offset(self, offset: int) -> None:
        path = os.path.join(self.path, _START_OFFSET_FILE)
        try:
            self._calls.write_whole_file(path, b"0\n%d\n" % offset)
        except OSError as error:
            raise LogError(f"cannot write {path}: {error.strerror or error}") from error

    def _read_start_offset(self) -> int:
        path = os.path.join(self.path, _START_OFFSET_FILE)
        try:
            with open(path, "rb") as file:
                version, offset = file.read().split()
            if version != b"0":
                raise LogError(f"{path} has version {version!r}")
            return int(offset)
        except OSError as error:
            raise LogError(f"cannot read {path}: {error.strerror or error}") from error
        except ValueError as error:
            raise LogError(f"{path} is damaged: {error}") from error


def remove_folder(path: str) -> None:
    """Remove a folder and what is in it. Raises OSError."""
    import shutil  # brings three compression libraries along

    shutil.rmtree(path)


def free_doomed_name(path: str) -> str:
    """A name for a folder that is about to go, in the form Kafka's own start-up also recognises."""
    number = 0
    while os.path.exists(name := f"{path}.{number}-delete"):
        number += 1
    return name


def _is_segment(name: str) -> bool:
    return len(name) == 24 and name.endswith(".log") and name[:20].isdecimal()


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
