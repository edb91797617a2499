"""Going through raw batches: are they sound, where do they end, is there a sound one somewhere behind damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

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


class Damage(NamedTuple):
    """At `position` of a file stands no sound batch; `offset` is the first that it might have held."""

    position: int
    offset: int
    reason: str


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
