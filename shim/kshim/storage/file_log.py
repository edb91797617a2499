"""A log in a folder of its own, laid out as Kafka lays out a partition.

`<topic>-<partition>/00000000000000000000.log` and further segments, each named by its first offset, with `.index` and
`.timeindex` beside them. One file is ours: `log-start-offset`, for a start that lies inside a segment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from kshim.storage.folders import free_doomed_name, remove_folder
from kshim.storage.log import CorruptLog, LogError, OffsetOutOfRange
from kshim.storage.os_calls import OsCalls
from kshim.storage.producer_snapshot_file import ProducerFiles
from kshim.storage.recovery import Recover, mend
from kshim.storage.repairs import IndexRebuilt, Repair, TailCut
from kshim.storage.segments.file_sync import FileSync, Unsynced
from kshim.storage.segments.segment import Damage, Owner, Segment
from kshim.storage.segments.segment_list import SegmentList
from kshim.storage.segments.segment_replacement import Replacement
from kshim.storage.start_offset import START_OFFSET_FILE, read_start_offset, write_start_offset
from kshim.storage.timestamps import first_record_at, first_with_greatest_timestamp
from kshim_protocol.records.batch import iter_batches, placed
from kshim_protocol.records.layout import LOG_FIELDS
from kshim_protocol.records.scan import last_offset_of_run

DEFAULT_SEGMENT_BYTES = 1 << 30
"""Kafka's log.segment.bytes."""

_RUN_BYTES = 1 << 16
_MAX_RELATIVE_OFFSET = (1 << 31) - 1  # Kafka's indexes hold offsets relative to the segment's in 32 bits

_unpack_fields = LOG_FIELDS.unpack_from


class FileLog:
    """`Log` in files. Nothing is opened, read or made before first use, older segments not before their own.

    `was_closed`: the log was closed cleanly and has not been changed since, so all of it is durable. `on_repair`
    is called with what opening had to repair. Few descriptors stay open: the last segment's, that of the older one used
    last, and those of the few that wait to be synced.

    A segment ends before it grows beyond `segment_bytes`, or when a batch is more than `segment_ms` younger than its
    first one, by their timestamps.
    """

    def __init__(
        self,
        path: str,
        *,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        segment_ms: int = 1 << 62,
        recover: Recover = "refuse",
        was_closed: bool = False,
        on_repair: Callable[[Repair], None] | None = None,
        calls: OsCalls | None = None,
    ) -> None:
        self.path = path
        self.segment_bytes = segment_bytes
        self.segment_ms = segment_ms
        self.leader_epoch = 0
        self._recover = recover
        self._was_closed = was_closed
        self._on_repair: Callable[[Repair], None] = on_repair or (lambda _: None)
        self._calls = OsCalls() if calls is None else calls
        self._is_open = False
        self._start_offset = 0
        self._end_offset = 0
        self.producer_files = ProducerFiles(path, self._calls)
        self._unsynced = Unsynced(path, self._calls)
        owner = Owner(self._calls, self._damaged, self._index_rebuilt, checks_all=recover == "skip-corrupt")
        self._segments = SegmentList(path, owner, self._unsynced)

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
        return self._end_offset

    @property
    def durable_offset(self) -> int:
        """Everything before this offset survives power loss."""
        if not self._is_open:
            self._open()
        return self._unsynced.durable_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches held."""
        if not self._is_open:
            self._open()
        return self._segments.size_bytes

    @property
    def is_safe(self) -> bool:
        """Whether it was closed properly, or never opened."""
        return not self._is_open and self._unsynced.failure is None

    # Appending and reading

    def append(self, batch: bytes) -> int:
        """Append one validated batch at `end_offset` and return its base offset; it has then reached the kernel."""
        if not self._is_open:
            self._open()
        if self._unsynced.failure is not None:
            raise LogError(self._unsynced.failure)
        offset = self._end_offset
        base_offset, length, leader_epoch, _, last_offset_delta, max_timestamp_ms = _unpack_fields(batch)
        size_bytes = length + 12
        assert size_bytes == len(batch), "not one whole batch"
        if base_offset != offset or leader_epoch != self.leader_epoch:
            batch = placed(batch, offset, length, self.leader_epoch)
        last_offset = offset + last_offset_delta
        segment = self._segments.active or self._roll(offset)
        if segment.size_bytes and (
            segment.size_bytes + size_bytes > self.segment_bytes
            or last_offset - segment.base_offset > _MAX_RELATIVE_OFFSET
            or max_timestamp_ms - segment.first_ms > self.segment_ms
        ):
            segment = self._roll(offset)
        segment.append(batch, last_offset, max_timestamp_ms)
        self._segments.size_bytes += size_bytes
        self._end_offset = last_offset + 1
        return offset

    def read(self, offset: int, max_bytes: int, *, at_least_one_batch: bool = True) -> bytes:
        """Whole batches from the one holding `offset`, up to `max_bytes`; at least one when asked."""
        index = self._index_of(offset)
        parts: list[bytes] = []
        left = max_bytes
        while index < len(self._segments.all):
            segment = self._segments.using(index)
            position = 0 if parts else segment.position_of(offset)
            end = segment.end_of_whole_batches(position, position + left)
            if end == position and not parts and at_least_one_batch and position < segment.size_bytes:
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
        if index == len(self._segments.all):
            return 0
        later = sum(segment.size_bytes for segment in self._segments.all[index:])
        return later - self._segments.using(index).position_of(offset)

    def runs(self, offset: int | None = None, max_bytes: int = _RUN_BYTES) -> Iterator[bytes]:
        """Sound batches from the one holding `offset` on, many at a time, up to where the log ends by then."""
        at = self.start_offset if offset is None else offset
        index = self._index_of(at)
        position = 0
        version = -1
        run = b""
        while at < self._end_offset:
            if version != self._segments.version:
                if run:
                    at = max(last_offset_of_run(run) + 1, self._start_offset)
                index = self._index_of(at)
                version = self._segments.version
                position = self._position_in(index, at)
                run = b""
            if index >= len(self._segments.all):
                return
            segment = self._segments.using(index)
            # Not `at`: the log may begin inside a batch, which then begins before that.
            found = segment.run(position, max_bytes, segment.base_offset)
            if found:
                position += len(found)
                run = found
                yield run
            elif position >= self._segments.all[index].size_bytes:
                if index == len(self._segments.all) - 1:
                    return
                index += 1
                position = 0

    def _position_in(self, index: int, offset: int) -> int:
        """Where to begin to read from `offset` on. A whole segment is read from its first byte, whatever stands there."""
        if index == len(self._segments.all) or offset <= self._segments.all[index].base_offset:
            return 0
        return self._segments.using(index).position_of(offset)

    def batches(self, offset: int | None = None) -> Iterator[bytes]:
        """The batches from the one holding `offset` on, up to where the log ends by then."""
        for run in self.runs(offset):
            size_bytes = 0
            for batch in iter_batches(run):
                yield batch
                size_bytes += len(batch)
            if size_bytes < len(run):
                raise LogError(f"{self.path} was changed by another program: the end of a batch has moved")

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp_ms) of the first record with timestamp >= `timestamp_ms`, or None."""
        start_offset = self.start_offset
        for index in range(len(self._segments.all)):
            segment = self._segments.using(index)
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
        if not self._segments.size_bytes:
            return None
        greatest_ms = max(self._segments.using(index).max_timestamp_ms for index in range(len(self._segments.all)))
        index = next(i for i, segment in enumerate(self._segments.all) if segment.max_timestamp_ms == greatest_ms)
        segment = self._segments.using(index)
        place = next(segment.places_from_timestamp(greatest_ms))
        batch = segment.read(place.position, place.end - place.position)
        found = first_with_greatest_timestamp([batch], start_offset=start_offset)
        if found is None or found[1] < greatest_ms:  # the record that the header speaks of is deleted
            found = first_with_greatest_timestamp(self.batches(), start_offset=start_offset)
        return found

    # Removing

    def delete_before(self, offset: int) -> None:
        """Move `start_offset` up to `offset` and remove the segments wholly before it."""
        if offset <= self.start_offset:
            return
        end_offset = self._end_offset
        if offset > end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not in [{self._start_offset}, {end_offset}]")
        if offset == end_offset and self._segments.active is not None and self._segments.active.size_bytes:
            self._roll(end_offset)
        if all(segment.base_offset != offset for segment in self._segments.all):  # else the names of the files say it
            write_start_offset(self.path, offset, self._calls)
        self._start_offset = offset
        try:
            self._remove_before_start()
        except LogError:
            write_start_offset(self.path, offset, self._calls)
            raise

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that holds `offset` or later ones."""
        if offset >= self.end_offset:
            return
        first = self._index_of(offset)
        self._cut(first, self._segments.all[first].position_of(offset))

    def _cut(self, first: int, position: int) -> None:
        """Drop what stands behind a position of a segment."""
        self._unsynced.take_back(self._segments.all)
        for index in range(len(self._segments.all) - 1, first, -1):  # from the end, so that a crash leaves no gap
            self._segments.remove(index)
        segment = self._segments.all[first]
        segment.truncate(position)
        self._segments.recount()
        self._end_offset = max(segment.end_offset, self._start_offset)
        self.producer_files.forget_beyond(self._end_offset)
        self._unsynced.forget(segment)
        self._unsynced.cut(self._end_offset)
        self._segments.version += 1

    def delete(self) -> None:
        """Close and remove the folder: first by name, so that a crash leaves a log or none."""
        self.forget()
        try:
            if os.path.isdir(self.path):
                doomed = free_doomed_name(self.path)
                self._calls.rename(self.path, doomed)
                remove_folder(doomed)
        except OSError as error:
            raise LogError(f"cannot delete {self.path}: {error.strerror or error}") from error

    # Syncing

    def begin_sync(self) -> FileSync | None:
        """Begin to make everything appended so far survive power loss; None when there is nothing to do.

        Also None while another sync is under way, and after one has failed.
        """
        return self._unsynced.begin(self._segments.active, self._end_offset)

    def cut_unsynced(self) -> None:
        """After a failed sync: drop what lies behind `durable_offset`, and go on from there."""
        self._begin_repair()
        self.truncate_to(max(self._unsynced.durable_offset, self._start_offset))
        self._unsynced.failure = None

    def rewrite_unsynced(self) -> None:
        """After a failed sync: write what lies behind `durable_offset` once more, to be synced by the next sync."""
        self._begin_repair()
        offset = max(self._unsynced.durable_offset, self._start_offset)
        if offset < self._end_offset:
            first = self._index_of(offset)
            position = self._segments.all[first].position_of(offset)
            for index in range(first, len(self._segments.all)):
                segment = self._segments.using(index)
                damage = segment.first_damage(position, segment.base_offset)
                if damage is not None:  # the kernel has dropped it already
                    cut = TailCut(segment.path, damage.position, segment.size_bytes - damage.position, damage.reason)
                    self._cut(index, damage.position)
                    self._on_repair(cut)
                segment.write_again(position)
                if damage is not None:
                    break
                position = 0
        self._unsynced.failure = None

    def _begin_repair(self) -> None:
        """Use fresh descriptors: the old ones have had their error reported. What is not durable waits to be synced."""
        if not self._is_open:
            self._open()
        unsynced = self._unsynced
        unsynced.take_back(self._segments.all)
        for segment in self._segments.all:
            segment.close()
        if unsynced.durable_offset < self._end_offset:
            first = self._index_of(max(unsynced.durable_offset, self._start_offset))
            unsynced.sealed = self._segments.all[first:-1]
        unsynced.cut(self._end_offset)
        unsynced.begun_offset = unsynced.durable_offset
        unsynced.has_names = True

    def sync(self) -> None:
        """Make everything appended so far survive power loss.

        Once this has failed it fails until the log is repaired: the kernel may have dropped what it could not write,
        and would not say so a second time.
        """
        self._unsynced.take_back(self._segments.all)
        if self._unsynced.failure is not None:
            raise LogError(self._unsynced.failure)
        sync = self.begin_sync()
        if sync is None:
            return
        try:
            sync.run()
        except LogError as error:
            sync.failed(error)
            raise
        sync.finish()

    def close(self) -> None:
        """Sync and close."""
        try:
            if self._segments.active is not None and self._unsynced.has_active(self._end_offset):
                self._segments.active.seal()
            self.sync()
            self._was_closed = True
        finally:
            self.forget()

    def forget(self) -> None:
        """Close the files without syncing: what they hold is no longer wanted."""
        self._segments.close()
        self._unsynced.reset(0)
        self._is_open = False

    # Opening

    def _open(self) -> None:
        try:
            names = self._segments.open()
            self._is_open = True
            self.producer_files.opened(names)
            recorded = read_start_offset(self.path) if START_OFFSET_FILE in names else 0
            segments = self._segments.all
            self._start_offset = max(recorded, segments[0].base_offset if segments else 0)
            self._end_offset = max(segments[-1].end_offset, self._start_offset) if segments else self._start_offset
            self._find_durable()
            self._remove_before_start()
        except BaseException:
            self.forget()
            raise

    def _find_durable(self) -> None:
        """An index entry says that what lies before it was synced; behind the last one nothing is known."""
        unsynced = self._unsynced
        segments = self._segments.all
        if self._was_closed or not segments:
            unsynced.reset(self._end_offset)
            return
        first = len(segments) - 1
        while first and not segments[first].synced_position:
            first -= 1
            _ = segments[first].end_offset
        segment = segments[first]
        place = next(segment.hop(segment.synced_position), None)
        durable_offset = segment.end_offset if place is None else place.base_offset
        unsynced.reset(min(max(durable_offset, self._start_offset), self._end_offset))
        unsynced.sealed = segments[first:-1]
        unsynced.is_cut = True
        unsynced.has_names = True

    def close_files(self) -> None:
        """Close the files until they are used again; the log stays open."""
        for segment in self._segments.all:
            segment.close()

    def check_tails(self) -> None:
        """After an unclean end: check every segment behind its last index entry. Raises CorruptLog, LogError."""
        if not self._is_open:
            self._open()
        for index in range(len(self._segments.all)):
            self._segments.checked(index)

    def check_all(self) -> None:
        """Check every batch, whatever the indexes say, and rebuild the indexes. Raises CorruptLog, LogError."""
        if not self._is_open:
            self._open()
        self._unsynced.take_back(self._segments.all)
        for index in range(len(self._segments.all)):
            self._segments.using(index).check_all()
            self._segments.checked(index)
        self._unsynced.sealed = self._segments.all[:-1]
        self._unsynced.is_cut = True

    def _damaged(self, segment: Segment, damage: Damage) -> None:
        segments = self._segments.all
        if segment not in segments:  # what a crash left of a swap: it was synced, so nothing in it is torn
            raise CorruptLog(segment.path, damage.offset, damage.position, damage.reason)
        later = segments[segments.index(segment) + 1 :]
        mend(segment, damage, later, recover=self._recover, calls=self._calls, report=self._on_repair)
        self._segments.version += 1
        self._segments.recount()
        self._unsynced.is_cut = True
        if not later:
            self._end_offset = max(segment.end_offset, self._start_offset)

    def _index_rebuilt(self, segment: Segment, reason: str) -> None:
        self._on_repair(IndexRebuilt(segment.path, reason))

    def _index_of(self, offset: int) -> int:
        """Which segment holds `offset`; their number at `end_offset`. Raises OffsetOutOfRange."""
        end_offset = self.end_offset
        if offset == end_offset:
            return len(self._segments.all)
        if not self._start_offset <= offset < end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not in [{self._start_offset}, {end_offset}]")
        return self._segments.index_of(offset)

    def _roll(self, offset: int) -> Segment:
        return self._segments.roll(offset)

    def _remove_before_start(self) -> None:
        segments = self._segments.all
        while len(segments) > 1 and segments[1].base_offset <= self._start_offset:
            self._segments.remove(0)

    # Segments

    def roll(self) -> bool:
        """Begin a new segment; False when the active one is empty. Raises LogError."""
        end_offset = self.end_offset
        if self._segments.active is None or not self._segments.active.size_bytes:
            return False
        self._roll(end_offset)
        return True

    def segments(self) -> Sequence[Segment]:
        """All segments in order; the last one is active."""
        if not self._is_open:
            self._open()
        return list(self._segments.all)

    def begin_replacement(self, segments: Sequence[Segment]) -> Replacement:
        """Begin to replace neighbouring sealed segments by one that begins where they do. Raises LogError."""
        return self._segments.begin_replacement(segments)
