"""Whole batches out of bytes that may be damaged: what is sound is read, the rest is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.batch import BatchHeader, crc_matches, parse_batch_header
from kshim_protocol.records.layout import HEADER_BYTES, MAGIC_AT, OVERHEAD_BYTES

_MAGIC = b"\x02"
_BLOCK_BYTES = 1 << 20


class SourceError(Exception):
    """A log cannot be had at all; `str(error)` is one sentence."""


class Batch(NamedTuple):
    """A whole batch whose CRC is right. `place` says where it stands, for people."""

    data: bytes
    header: BatchHeader
    place: str


class Damage(NamedTuple):
    """Bytes that are no whole batch. `is_tail`: nothing whole follows in this log, as after a torn write."""

    place: str
    size_bytes: int
    reason: str
    is_tail: bool


def checked(data: bytes, place: str) -> Batch | Damage:
    """One batch as it was cut out of a log by its length."""
    try:
        header = parse_batch_header(data)
    except ProtocolError as error:
        return Damage(place, len(data), f"{error.field}: {error.reason}", is_tail=False)
    if not crc_matches(data):
        reason = f"the CRC of the batch at offset {header.base_offset} is wrong"
        return Damage(place, len(data), reason, is_tail=False)
    return Batch(data, header, place)


def batches_in_file(file: BinaryIO, path: str, size_bytes: int, start: int = 0) -> Iterator[Batch | Damage]:
    """What stands in the first `size_bytes` bytes of a segment, from byte `start` on, in order.

    After damage the search goes on at the next whole batch; `is_tail` is True where there is none. Raises OSError.
    """
    at = start
    while at < size_bytes:
        file.seek(at)
        found = _read(file, path, at, size_bytes)
        if isinstance(found, Batch):
            yield found
            at += len(found.data)
            continue
        following = _next_whole(file, path, at + 1, size_bytes)
        end = size_bytes if following is None else following
        yield Damage(found.place, end - at, found.reason, is_tail=following is None)
        at = end


def _read(file: BinaryIO, path: str, at: int, size_bytes: int) -> Batch | Damage:
    """The batch at `at`; a Damage without a size when there is none."""
    place = f"{path} at byte {at}"
    left = size_bytes - at
    head = file.read(min(HEADER_BYTES, left))
    if len(head) < HEADER_BYTES:
        return Damage(place, 0, f"{left} bytes are too few for a batch", is_tail=False)
    try:
        header = parse_batch_header(head)
    except ProtocolError as error:
        return Damage(place, 0, f"{error.field.replace('_', ' ')}: {error.reason}", is_tail=False)
    if header.size_bytes > left:
        reason = f"the batch at offset {header.base_offset} has {header.size_bytes} bytes, {left} are there"
        return Damage(place, 0, reason, is_tail=False)
    data = head + file.read(header.size_bytes - HEADER_BYTES)
    if len(data) < header.size_bytes:  # the file became shorter while it was read
        return Damage(place, 0, f"{len(data)} of {header.size_bytes} bytes are there", is_tail=False)
    return checked(data, place)


def _next_whole(file: BinaryIO, path: str, start: int, size_bytes: int) -> int | None:
    """The next byte at which a whole batch begins. Batches stand on no boundary, so each magic byte is tried."""
    at = start
    while at + HEADER_BYTES <= size_bytes:
        file.seek(at)
        block = file.read(_BLOCK_BYTES + HEADER_BYTES)
        if len(block) < HEADER_BYTES:
            return None
        magic_at = block.find(_MAGIC, MAGIC_AT)
        while magic_at != -1 and magic_at - MAGIC_AT < _BLOCK_BYTES:
            begin = magic_at - MAGIC_AT
            if _may_be_header(block, begin, size_bytes - at - begin):
                file.seek(at + begin)
                if isinstance(_read(file, path, at + begin, size_bytes), Batch):
                    return at + begin
            magic_at = block.find(_MAGIC, magic_at + 1)
        at += _BLOCK_BYTES
    return None


def _may_be_header(block: bytes, begin: int, left: int) -> bool:
    length = int.from_bytes(block[begin + 8 : begin + 12], "big", signed=True)
    return HEADER_BYTES <= length + OVERHEAD_BYTES <= left
