"""Scanning the bytes of a log: which are sound batches, where each lies, and where damage ends.

Used by everything that reads segment files: storage, tools and the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NamedTuple

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.batch import BatchHeader, crc_matches, parse_batch_header
from kshim_protocol.records.crc import crc32c
from kshim_protocol.records.layout import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    LOG_FIELDS,
    MAGIC_AT,
    MIN_BATCH_LENGTH,
    OVERHEAD_BYTES,
    fields,
)

_SEARCH_BYTES = 1 << 20

_unpack = fields("base_offset", "batch_length", "magic", "crc", "last_offset_delta").unpack_from


ANY_OFFSET: Final = range(1 << 63)


class Batch(NamedTuple):
    """A whole batch whose CRC is right. `place` says where it stands, for people."""

    data: bytes
    header: BatchHeader
    place: str


class Damage(NamedTuple):
    """Bytes that are no whole batch.

    `is_tail`: no whole batch follows them, as after a torn write. `is_cut_short`: the bytes end before the batch does.
    """

    place: str
    size_bytes: int
    reason: str
    is_tail: bool = False
    is_cut_short: bool = False


class Place(NamedTuple):
    """Where a batch lies in the file and what its header says."""

    position: int
    end: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int


class Sound(NamedTuple):
    """How far a run of bytes is sound batches: `end` is where, `next_offset` what follows the last one.

    `reason` says what is wrong with the batch at `end`, "" when it is only cut short by the end of the bytes, or when
    there is none.
    """

    end: int
    next_offset: int
    reason: str


def checked(data: bytes, place: str) -> Batch | Damage:
    """One batch as its length cut it out of a log."""
    try:
        header = parse_batch_header(data)
    except ProtocolError as error:
        return Damage(place, len(data), f"{error.field.replace('_', ' ')}: {error.reason}")
    if not crc_matches(data):
        return Damage(place, len(data), f"the CRC of the batch at offset {header.base_offset} is wrong")
    return Batch(data, header, place)


def batches_in_file(file: BinaryIO, path: str, size_bytes: int, start: int = 0) -> Iterator[Batch | Damage]:
    """What the first `size_bytes` bytes of a segment hold, from byte `start` on, in order.

    After damage the scan goes on at the next whole batch. Raises OSError.
    """

    def read(position: int, wanted_bytes: int) -> bytes:
        file.seek(position)
        return file.read(min(wanted_bytes, size_bytes - position))

    at = start
    while at < size_bytes:
        found = _batch_at(read, at, size_bytes, f"{path} at byte {at}")
        if isinstance(found, Batch):
            yield found
            at += len(found.data)
            continue
        following = find_whole_batch(read, at + 1, size_bytes, ANY_OFFSET)
        end = size_bytes if following is None else following
        yield found._replace(size_bytes=end - at, is_tail=following is None)
        at = end


def _batch_at(read: Callable[[int, int], bytes], at: int, end: int, place: str) -> Batch | Damage:
    head = read(at, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return Damage(place, 0, f"{len(head)} bytes are too few for a batch", is_cut_short=True)
    try:
        header = parse_batch_header(head)
    except ProtocolError as error:
        return Damage(place, 0, f"{error.field.replace('_', ' ')}: {error.reason}")
    if header.size_bytes > end - at:
        reason = f"the batch at offset {header.base_offset} has {header.size_bytes} bytes, {end - at} are there"
        return Damage(place, 0, reason, is_cut_short=True)
    data = head + read(at + HEADER_BYTES, header.size_bytes - HEADER_BYTES)
    if len(data) < header.size_bytes:  # the file became shorter while it was read
        return Damage(place, 0, f"{len(data)} of {header.size_bytes} bytes are there", is_cut_short=True)
    return checked(data, place)


def sound_batches(data: bytes, next_offset: int, offset_limit: int) -> Sound:
    """Check batches from the start of `data`: headers, CRCs, and that offsets rise from `next_offset` to the limit."""
    view = memoryview(data)
    checksum = crc32c
    unpack = _unpack
    at = 0
    size_bytes = len(data)
    last_at = size_bytes - HEADER_BYTES
    while at <= last_at:
        offset, length, magic, crc, last_offset_delta = unpack(data, at)
        if not next_offset <= offset < offset_limit or magic != 2 or length < MIN_BATCH_LENGTH or last_offset_delta < 0:
            return Sound(at, next_offset, "no batch header")
        end = at + OVERHEAD_BYTES + length
        if end > size_bytes:
            break
        if checksum(view[at + ATTRIBUTES_AT : end]) != crc:
            return Sound(at, next_offset, "CRC differs")
        next_offset = offset + last_offset_delta + 1
        at = end
    return Sound(at, next_offset, "")


def last_offset_of_run(run: bytes) -> int:
    """The last offset of sound batches, at least one."""
    at = last_offset = 0
    while at < len(run):
        offset, length, _, _, last_offset_delta = _unpack(run, at)
        last_offset = offset + last_offset_delta
        at += OVERHEAD_BYTES + length
    return last_offset


def find_whole_batch(read: Callable[[int, int], bytes], position: int, end: int, offsets: range) -> int | None:
    """Where in a file, from `position` to `end`, the first sound batch with one of `offsets` stands; None: nowhere.

    `read(position, size_bytes)` reads the file. Every byte might be the first of a batch.
    """
    window = b""
    window_at = position
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > window_at + len(window):
            window = read(position, min(_SEARCH_BYTES, end - position))
            window_at = position
        found = window.find(b"\x02", position - window_at + MAGIC_AT)
        if found < 0:
            position = window_at + len(window) - MAGIC_AT
            continue
        position = window_at + found - MAGIC_AT
        if position + HEADER_BYTES > end:
            return None
        if position + HEADER_BYTES > window_at + len(window):
            continue
        offset, length, magic, crc, last_offset_delta = _unpack(window, position - window_at)
        if (
            magic == 2
            and offset in offsets
            and MIN_BATCH_LENGTH <= length <= end - position - OVERHEAD_BYTES
            and last_offset_delta >= 0
            and crc32c(read(position, OVERHEAD_BYTES + length)[ATTRIBUTES_AT:]) == crc
        ):
            return position
        position += 1
    return None


def places(chunk: bytes, size_bytes: int, position: int) -> Iterator[Place]:
    """The batches whose headers lie in the first `size_bytes` of `chunk`, which was read at `position`."""
    at = 0
    last_at = size_bytes - 1
    header_at = len(chunk) - HEADER_BYTES
    while at <= last_at and at <= header_at:
        offset, length, _, _, last_offset_delta, max_timestamp_ms = LOG_FIELDS.unpack_from(chunk, at)
        end = at + OVERHEAD_BYTES + length
        yield Place(position + at, position + end, offset, offset + last_offset_delta, max_timestamp_ms)
        if end <= at:
            return
        at = end
