"""One file of a log: raw batches as in Kafka's own `.log` files, found through its index."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from kshim.storage.log import CorruptLog
from kshim.storage.os_calls import OsCalls
from kshim.storage.segments.index import INDEX_INTERVAL_BYTES, SegmentIndex
from kshim.storage.segments.segment_file import SegmentFile
from kshim_protocol.records.crc import crc32c
from kshim_protocol.records.layout import ATTRIBUTES_AT, HEADER_BYTES, MIN_BATCH_LENGTH, OVERHEAD_BYTES, fields
from kshim_protocol.records.scan import Place, find_whole_batch, places, sound_batches

_READ_BYTES = 1 << 20
_PIECE_BYTES = 1 << 15
_NO_TIMESTAMP = -(1 << 63)
_NOT_YET = 1 << 62
_MAX_OFFSETS = 1 << 31  # what an index can hold

_NO_LIMIT = 1 << 63
_WINDOW_BYTES = INDEX_INTERVAL_BYTES + HEADER_BYTES  # from one index entry to the next

# For loops over millions.
_unpack_scanned = fields(
    "base_offset", "batch_length", "magic", "crc", "last_offset_delta", "max_timestamp"
).unpack_from
_unpack_reach = fields("base_offset", "batch_length", "last_offset_delta").unpack_from


class Damage(NamedTuple):
    """At `position` of a file stands no sound batch; `offset` is the first that it might have held."""

    position: int
    offset: int
    reason: str


class Owner(NamedTuple):
    """What a segment reports to its log. `damaged(segment, damage)` repairs the file and returns, or raises CorruptLog."""

    calls: OsCalls
    damaged: Callable[[Segment, Damage], None]
    index_rebuilt: Callable[[Segment, str], None]
    checks_all: bool = False
    """Whether segments are checked from their first byte on, whatever their indexes say."""


class Segment(SegmentFile):
    """Batches from `base_offset` (the file's name) up to `end_offset`. Nothing is opened or read before it is needed.

    What the index has entries for was synced when they were written, and is trusted; behind its last entry every
    header and CRC is checked when the segment is first used.
    """

    def __init__(self, path: str, base_offset: int, owner: Owner, size_bytes: int = 0) -> None:
        super().__init__(path, owner.calls)
        self.base_offset = base_offset
        self._offset_limit = base_offset + _MAX_OFFSETS
        self.size_bytes = size_bytes
        self.index = SegmentIndex(os.path.join(os.path.dirname(path), f"{base_offset:020}"), base_offset, owner.calls)
        self.checked_position = 0
        """The CRC of every batch from here on has been checked, or was computed when it was appended."""
        self.synced_position = 0
        """What lies before this was found synced when the segment was loaded."""
        self._owner = owner
        self.is_sealed = False
        self._is_loaded = size_bytes == 0
        self._clear()

    def _clear(self) -> None:
        self._end_offset = self.base_offset
        self._greatest_ms = _NO_TIMESTAMP
        self._greatest_at = self.base_offset
        self._next_index_position = INDEX_INTERVAL_BYTES + 1
        self._newest = (
            _NOT_YET,
            _NOT_YET,
            0,
        )  # of the batch appended last: its first and last offset, and its position
        self.first_ms = _NOT_YET
        """The first batch's timestamp once the segment is loaded; later than any when there is none."""

    @property
    def end_offset(self) -> int:
        """Offset behind the last batch. Raises LogError, as everything that reads the file."""
        if not self._is_loaded:
            self.load()
        return self._end_offset

    @property
    def max_timestamp_ms(self) -> int:
        """The greatest timestamp that headers promise; less than -1 when there are none."""
        if not self._is_loaded:
            self.load()
        return self._greatest_ms

    @property
    def first_timestamp_ms(self) -> int:
        """The greatest timestamp of the first batch; -1 when there is none."""
        if not self._is_loaded:
            self.load()
        return -1 if self.first_ms == _NOT_YET else self.first_ms

    # Loading

    def load(self) -> None:
        """Read the index and check what lies behind it. Raises LogError; CorruptLog unless the damage was repaired."""
        if self._owner.checks_all:
            self.check_all()
            return
        reason = self.index.load(self.size_bytes)
        if reason is None and not self._is_of_this_file():
            reason = "pointed at no batch"
            self.index.clear()
        self._scan()
        if len(self.index) and (reason is not None or not self.index.is_in_files) and self._is_loaded:
            self._owner.index_rebuilt(self, reason or "was missing")

    def check_all(self) -> None:
        """Check every header and CRC, whatever the index says, and rebuild the index. Raises as `load`."""
        self.index.clear()
        self._scan()

    def replaced(self, size_bytes: int) -> None:
        """There is another file under the name: forget what was known of it, until `_scan`."""
        self.close()
        self.size_bytes = size_bytes
        self.index.clear()

    def _is_of_this_file(self) -> bool:
        index = self.index
        if not len(index):
            return True
        position = index.last_position
        if self.size_bytes - position < HEADER_BYTES:
            return False
        offset, length, last_offset_delta = _unpack_reach(self.read(position, HEADER_BYTES))
        is_batch: bool = length >= MIN_BATCH_LENGTH and last_offset_delta >= 0
        return is_batch and offset + last_offset_delta == index.last_offset

    def _scan(self) -> None:
        """Find out what stands behind the last index entry, adding entries for it."""
        self._clear()
        index = self.index
        synced = self.checked_position = index.last_position
        self.synced_position = index.written_position
        self._greatest_ms, self._greatest_at = index.last_time
        if self._greatest_ms < 0:
            self._greatest_ms = _NO_TIMESTAMP
        self._next_index_position = (synced + INDEX_INTERVAL_BYTES if len(index) else INDEX_INTERVAL_BYTES) + 1
        # Times that are in no entry may lie before the last one of offsets: read those headers too.
        position = min(index.before_offset(self._greatest_at)[0], synced)
        self._is_loaded = False
        if self.size_bytes >= HEADER_BYTES:
            self._note_first(next(places(self.read(0, HEADER_BYTES), 1, 0)).max_timestamp_ms)
        for place in self.hop(position, synced):
            if place.max_timestamp_ms > self._greatest_ms:
                self._greatest_ms, self._greatest_at = place.max_timestamp_ms, place.last_offset
        damage = self._scan_unsynced(synced)
        if damage is None:
            self._is_loaded = True
        else:
            self._mend(damage)

    def _mend(self, damage: Damage) -> None:
        """Have it repaired, and look at what is left. Raises CorruptLog, LogError."""
        self._is_loaded = False
        if damage.position:  # who began in the middle does not know what offset should stand there
            damage = self.first_damage(0, self.base_offset) or damage
        self._owner.damaged(self, damage)
        if not self._is_loaded:
            self._scan()

    def _note_first(self, max_timestamp_ms: int) -> None:
        if max_timestamp_ms >= 0:
            self.first_ms = max_timestamp_ms

    def _scan_unsynced(self, position: int) -> Damage | None:
        want_bytes = _READ_BYTES
        while position < self.size_bytes:
            chunk = self.read(position, min(want_bytes, self.size_bytes - position))
            end, reason = self._scan_chunk(chunk, position)
            position += end
            if reason:
                return Damage(position, self._end_offset, reason)
            if end:
                want_bytes = _READ_BYTES
            elif len(chunk) == self.size_bytes - position:
                return Damage(position, self._end_offset, _end_inside(chunk))
            else:
                want_bytes = OVERHEAD_BYTES + int.from_bytes(chunk[8:OVERHEAD_BYTES], "big")
        return None

    def _scan_chunk(self, chunk: bytes, position: int) -> tuple[int, str]:
        """Go through the whole batches in a chunk read at `position`: where they end, what is wrong with the next."""
        view = memoryview(chunk)
        at = 0
        last_at = len(chunk) - HEADER_BYTES
        next_offset, greatest_ms = self._end_offset, self._greatest_ms
        next_index_at = self._next_index_position - position
        offset_limit = self._offset_limit
        reason = ""
        while at <= last_at:
            offset, length, magic, crc, last_offset_delta, max_timestamp_ms = _unpack_scanned(chunk, at)
            if (
                not next_offset <= offset < offset_limit
                or magic != 2
                or length < MIN_BATCH_LENGTH
                or last_offset_delta < 0
            ):
                reason = "no batch header"
                break
            end = at + OVERHEAD_BYTES + length
            if end - HEADER_BYTES > last_at:
                break
            if crc32c(view[at + ATTRIBUTES_AT : end]) != crc:
                reason = "CRC differs"
                break
            next_offset = offset + last_offset_delta + 1
            if max_timestamp_ms > greatest_ms:
                self._greatest_ms = greatest_ms = max_timestamp_ms
                self._greatest_at = next_offset - 1
            if at >= next_index_at:
                self._add_entry(next_offset - 1, position + at)
                next_index_at = self._next_index_position - position
            at = end
        self._end_offset = next_offset
        return at, reason

    def first_damage(self, position: int, next_offset: int) -> Damage | None:
        """The first batch, from the one at `position` on, that does not read back as it should. Raises LogError."""
        want_bytes = _READ_BYTES
        while position < self.size_bytes:
            chunk = self.read(position, min(want_bytes, self.size_bytes - position))
            end, next_offset, reason = sound_batches(chunk, next_offset, self._offset_limit)
            position += end
            if reason or (not end and len(chunk) == self.size_bytes - position):
                return Damage(position, next_offset, reason or _end_inside(chunk))
            want_bytes = max(_READ_BYTES, 2 * len(chunk)) if not end else _READ_BYTES
        return None

    def _add_entry(self, last_offset: int, position: int) -> None:
        self.index.add(last_offset, position, self._greatest_ms, self._greatest_at)
        self._next_index_position = position + INDEX_INTERVAL_BYTES + 1

    def find_whole_batch(self, position: int) -> int | None:
        """Where the first sound batch stands, at `position` or behind; None: nowhere."""
        return find_whole_batch(self.read, position, self.size_bytes, range(self.base_offset, self._offset_limit))

    # Writing

    def append(self, batch: bytes, last_offset: int, max_timestamp_ms: int) -> None:
        """Write a batch whose header says `last_offset` and `max_timestamp_ms`. Raises LogError, unchanged."""
        position = self.size_bytes
        if self._descriptor < 0:
            self.open()
        try:
            written = self._calls.pwrite(self._descriptor, batch, position)
            if written < len(batch):
                self._write(batch[written:], position + written)
        except OSError as error:
            self._undo(position)
            raise self._error("append to", error) from error
        if max_timestamp_ms > self._greatest_ms:
            self._greatest_ms = max_timestamp_ms
            self._greatest_at = last_offset
        if position >= self._next_index_position:
            self._add_entry(last_offset, position)
        elif not position:
            self._note_first(max_timestamp_ms)
        self.size_bytes = position + len(batch)
        self._newest = self._end_offset, last_offset, position
        self._end_offset = last_offset + 1

    def append_run(self, batches: bytes) -> None:
        """Write whole batches as they are. Raises LogError, ValueError for what is no run of sound batches.

        In small pieces: between them, other threads get the interpreter.
        """
        self.open()
        at = 0
        while at < len(batches):
            size_bytes = OVERHEAD_BYTES + int.from_bytes(batches[at + 8 : at + OVERHEAD_BYTES], "big")
            piece = batches[at : at + max(_PIECE_BYTES, size_bytes)]
            end, reason = self._scan_chunk(piece, self.size_bytes)
            if not end:
                raise ValueError(f"no valid batch at byte {at}: {reason or 'it is incomplete'}")
            try:
                self._write(piece[:end], self.size_bytes)
            except OSError as error:
                raise self._error("append to", error) from error
            if not self.size_bytes:
                self._note_first(next(places(piece, end, 0)).max_timestamp_ms)
            self.size_bytes += end
            at += end

    def chunks(self) -> Iterator[Callable[[], bytes]]:
        """Jobs, to be done in order, each before the next is asked for: each reads the next whole batches, about 1 MiB.

        The file is read through a descriptor of its own, so that the segment may be replaced or removed meanwhile. CRCs
        are not checked. Jobs raise LogError.
        """
        if not self._is_loaded:
            self.load()
        calls = self._calls
        try:
            descriptor = calls.open_existing(self.path)
        except OSError as error:
            raise self._error("open", error) from error
        try:
            position, size_bytes = 0, self.size_bytes
            while position < size_bytes:
                end = min(self.index.after_position(position + _READ_BYTES), size_bytes)
                yield partial(self._read_part, descriptor, position, end - position)
                position = end
        finally:
            with contextlib.suppress(OSError):
                calls.close(descriptor)

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

    def truncate(self, position: int) -> None:
        """Cut the file at the start of a batch, and the index before it. Raises LogError."""
        self.open()
        try:
            self.index.keep_before(position)
            self._calls.ftruncate(self._descriptor, position)
        except OSError as error:
            raise self._error("truncate", error) from error
        checked = self.checked_position
        self.size_bytes = position
        self._scan()
        self.checked_position = min(checked, position)

    def seal(self) -> None:
        """No more is appended: the index gets its last time."""
        self.is_sealed = True
        self.index.add_time(self._greatest_ms, self._greatest_at)

    # Reading

    def hop(self, position: int, limit: int = _NO_LIMIT) -> Iterator[Place]:
        """The batches from the one at `position` to the end, or to the one at `limit`, by their headers."""
        limit = min(limit, self.size_bytes)
        while position < limit:
            chunk = self.read(position, min(_WINDOW_BYTES, self.size_bytes - position))
            place = None
            for place in places(chunk, min(len(chunk), limit - position), position):
                self._require_sane(place)
                yield place
            if place is None:
                raise self._corrupt(position, "file ends inside a header")
            position = place.end

    def _require_sane(self, place: Place) -> None:
        if not place.position + HEADER_BYTES <= place.end <= self.size_bytes or place.last_offset < place.base_offset:
            raise self._corrupt(place.position, "no batch header")

    def _corrupt(self, position: int, reason: str) -> CorruptLog:
        """There is no valid header at `position`: find where the damage begins, which headers alone do not show."""
        damage = self.first_damage(0, self.base_offset) or Damage(position, self.base_offset, reason)
        return CorruptLog(self.path, damage.offset, damage.position, damage.reason)

    def position_of(self, offset: int) -> int:
        """Where the batch lies that holds `offset`, or else the first one behind it."""
        if not self._is_loaded:
            self.load()
        first_offset, last_offset, position = self._newest
        if first_offset <= offset <= last_offset:  # a consumer that has read all but this
            return position
        return self._find(self.index.before_offset(offset), offset, _NO_LIMIT)

    def end_of_whole_batches(self, position: int, limit: int) -> int:
        """End of the last batch that ends at or before `limit`, from `position` on; `position` if there is none."""
        if not self._is_loaded:
            self.load()
        if limit >= self.size_bytes:
            return self.size_bytes
        entry = self.index.before_position(limit)
        return self._find(entry if entry[0] > position else (position, -1), _NO_LIMIT, limit)

    def _find(self, entry: tuple[int, int], offset: int, limit: int) -> int:
        """Position of the first batch, from the entry's on, that reaches `offset` or ends behind `limit`."""
        position, entry_last_offset = entry
        while position < self.size_bytes:
            chunk = self.read(position, min(_WINDOW_BYTES, self.size_bytes - position))
            at = 0
            last_at = len(chunk) - HEADER_BYTES
            while at <= last_at:
                base_offset, length, last_offset_delta = _unpack_reach(chunk, at)
                end = at + OVERHEAD_BYTES + length
                last_offset = base_offset + last_offset_delta
                is_batch = length >= MIN_BATCH_LENGTH and position + end <= self.size_bytes
                if entry_last_offset >= 0:
                    if not is_batch or last_offset != entry_last_offset:
                        return self._find_without_index(offset, limit)
                    entry_last_offset = -1
                elif not is_batch:
                    raise self._corrupt(position + at, "no batch header")
                if last_offset >= offset or position + end > limit:
                    return position + at
                at = end
            if last_at < 0:
                raise self._corrupt(position, "file ends inside a header")
            position += at
        return position

    def _find_without_index(self, offset: int, limit: int) -> int:
        self.check_all()
        self._owner.index_rebuilt(self, "pointed at no batch")
        return self._find((0, -1), offset, limit)

    def end_of_batch(self, position: int) -> int:
        """Where the batch at `position` ends."""
        return next(self.hop(position)).end

    def places_from_timestamp(self, timestamp_ms: int) -> Iterator[Place]:
        """The batches that promise a timestamp >= `timestamp_ms`."""
        if self.max_timestamp_ms < timestamp_ms:
            return
        for place in self.hop(self.index.before_timestamp(timestamp_ms)[0]):
            if place.max_timestamp_ms >= timestamp_ms:
                yield place

    def run(self, position: int, max_bytes: int, next_offset: int) -> bytes:
        """Sound whole batches from the one at `position` on, up to `max_bytes` but at least one.

        Those whose CRC has not been checked yet are checked. Raises as `load` when damage was found; b"" when it was
        repaired, and at the end.
        """
        if not self._is_loaded:
            self.load()
        if position >= self.size_bytes:
            return b""
        left = self.size_bytes - position
        if position >= self.checked_position:
            if left <= max_bytes:
                return self.read(position, left)
            end = self.index.before_position(position + max_bytes)[0]
            if end > position:
                return self.read(position, end - position)
        chunk = self.read(position, min(max_bytes, left))
        sound = sound_batches(chunk, next_offset, self._offset_limit)
        while not sound.end and not sound.reason and len(chunk) < left:
            whole_bytes = OVERHEAD_BYTES + int.from_bytes(chunk[8:OVERHEAD_BYTES], "big")
            chunk = self.read(position, min(max(whole_bytes, _WINDOW_BYTES), left))
            sound = sound_batches(chunk, next_offset, self._offset_limit)
            if len(chunk) >= whole_bytes > _WINDOW_BYTES:
                break
        if sound.end:
            return chunk if sound.end == len(chunk) else chunk[: sound.end]
        self._mend(Damage(position, next_offset, sound.reason or _end_inside(chunk)))
        return b""


def _end_inside(chunk: bytes) -> str:
    return f"file ends inside a {'header' if len(chunk) < HEADER_BYTES else 'batch'}"
