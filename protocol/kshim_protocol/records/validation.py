"""Whether the records inside a batch are sound, without making objects of them. Kafka: LogValidator, DefaultRecord.

Functions that go over records take a `count`, so that a caller can stop between any two records of a large batch.
"""

from __future__ import annotations

import struct

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.alike import FEW, AlikeRecords, find_alike
from kshim_protocol.records.compression import Compression, compress
from kshim_protocol.records.crc import crc32c
from kshim_protocol.records.layout import (
    ATTRIBUTES_AT,
    COMPRESSION_BITS,
    CRC_AT,
    HEADER_BYTES,
    LENGTH_AT,
    OVERHEAD_BYTES,
)
from kshim_protocol.records.varint import SMALL_VARINTS, decode_varint, decode_varlong

_NEVER = 1 << 63
_SHORT_LENGTHS = 64  # those whose zig-zag varints have one byte
_LEAST_SINGLE_BYTES = 6
_pack_length = struct.Struct(">i").pack_into
_pack_crc_and_attributes = struct.Struct(">Ih").pack_into


class RecordFacts:
    """What was found so far in the records of one batch, which are numbered from 0 without a gap if it is compressed.

    `least_delta_ms` and `greatest_delta_ms` are relative to the batch's base timestamp; `lacks_key`: a record has none;
    `largest_bytes`: the size of the largest.
    """

    __slots__ = ("count", "greatest_delta_ms", "lacks_key", "largest_bytes", "least_delta_ms")

    def __init__(self) -> None:
        self.count = 0
        self.least_delta_ms = _NEVER
        self.greatest_delta_ms = -_NEVER
        self.lacks_key = False
        self.largest_bytes = 0

    def add(self, alike: AlikeRecords) -> None:
        """The next records are these."""
        count, _, size_bytes, least_delta_ms, greatest_delta_ms, lacks_key = alike
        self.count += count
        if least_delta_ms < self.least_delta_ms:
            self.least_delta_ms = least_delta_ms
        if greatest_delta_ms > self.greatest_delta_ms:
            self.greatest_delta_ms = greatest_delta_ms
        if lacks_key:
            self.lacks_key = True
        if size_bytes > self.largest_bytes:
            self.largest_bytes = size_bytes


def check_records(data: bytes, at: int, count: int, facts: RecordFacts, *, is_numbered: bool) -> int:
    """Check the next `count` records; returns where the one after them begins. Raises ProtocolError.

    `is_numbered`: the offsets inside have to be right. Kafka asks for that in compressed batches only.
    """
    if count == 1 and not facts.count and (end := _end_of_usual_single(data, at, facts)):
        return end
    last = facts.count + count
    singles = 1
    while last - facts.count >= FEW:
        alike = find_alike(data, at, facts.count, last - facts.count)
        if alike is not None:
            facts.add(alike)
            at = alike.end
            singles = 1
        else:  # looking costs as much as two records, so it is done the less often the less is found
            at = check_one_by_one(data, at, min(singles, last - facts.count), facts, is_numbered=is_numbered)
            singles *= 2
    return check_one_by_one(data, at, last - facts.count, facts, is_numbered=is_numbered)


def _end_of_usual_single(data: bytes, at: int, facts: RecordFacts) -> int:
    """Where the only record of a batch ends, which is of the usual shape; 0: look at it as at any other.

    From where it has to end, all lengths in it follow but that of its key, and so the bytes that say them. It has no
    headers, a value, and the timestamp of the batch.
    """
    end = len(data)
    size_bytes = end - at - 1 if end - at <= _SHORT_LENGTHS else end - at - 2
    if not _LEAST_SINGLE_BYTES <= size_bytes < len(SMALL_VARINTS) or data[-1]:
        return 0
    start = SMALL_VARINTS[size_bytes] + b"\0\0\0"  # no attributes, no timestamp delta, no offset delta
    key_at = at + len(start)
    key = data[key_at]
    value_at = key_at + 1 if key & 1 else key_at + 1 + (key >> 1)
    rest_bytes = end - 1 - value_at
    if key > 127 or rest_bytes < 1 or not data.startswith(start, at) or key_at - 3 + size_bytes != end:
        return 0
    value_bytes = rest_bytes - 1 if rest_bytes <= _SHORT_LENGTHS else rest_bytes - 2
    value_size = SMALL_VARINTS[value_bytes]
    if len(value_size) + value_bytes != rest_bytes or not data.startswith(value_size, value_at):
        return 0
    facts.count, facts.largest_bytes, facts.lacks_key = 1, size_bytes, key & 1 == 1
    facts.least_delta_ms = facts.greatest_delta_ms = 0
    return end


# Varints of one byte, and most of two, are read in place: calls would double the cost. An odd first byte is a
# negative number. No index runs past the data unnoticed, for each record is read up to its last byte.
def check_one_by_one(data: bytes, at: int, count: int, facts: RecordFacts, *, is_numbered: bool) -> int:
    """`check_records` without looking for those that are alike."""
    least_ms, greatest_ms, lacks_key = facts.least_delta_ms, facts.greatest_delta_ms, facts.lacks_key
    largest_bytes = facts.largest_bytes - 1
    index = facts.count
    try:
        for index in range(facts.count, facts.count + count):
            if (byte := data[at]) < 0x80:
                end = at + 1 + (byte >> 1 ^ -(byte & 1))
                at += 2
            elif (more := data[at + 1]) < 0x80:
                end = at + 2 + ((byte >> 1 & 0x3F | more << 6) ^ -(byte & 1))
                at += 3
            else:
                size, at = decode_varint(data, at)
                end = at + size
                at += 1
            largest_bytes = end - at if end - at > largest_bytes else largest_bytes  # without its attributes
            if (byte := data[at]) < 0x80:
                delta_ms = byte >> 1 ^ -(byte & 1)
                at += 1
            elif (more := data[at + 1]) < 0x80:
                delta_ms = (byte >> 1 & 0x3F | more << 6) ^ -(byte & 1)
                at += 2
            else:
                delta_ms, at = decode_varlong(data, at)
            greatest_ms = delta_ms if delta_ms > greatest_ms else greatest_ms
            least_ms = delta_ms if delta_ms < least_ms else least_ms
            if (byte := data[at]) < 0x80:
                offset = byte >> 1 ^ -(byte & 1)
                at += 1
            elif (more := data[at + 1]) < 0x80:
                offset = (byte >> 1 & 0x3F | more << 6) ^ -(byte & 1)
                at += 2
            else:
                offset, at = decode_varint(data, at)
            if offset != index and is_numbered:
                raise _malformed(f"offset delta {offset}", index)
            if (byte := data[at]) < 0x80:
                lacks_key = lacks_key or byte & 1 == 1
                at += 1 if byte & 1 else 1 + (byte >> 1)
            else:
                size, at = decode_varint(data, at)
                lacks_key = lacks_key or size < 0
                at += max(size, 0)
            if (byte := data[at]) < 0x80:
                at += 1 if byte & 1 else 1 + (byte >> 1)
            elif (more := data[at + 1]) < 0x80:
                at += 2 if byte & 1 else 2 + (byte >> 1 & 0x3F | more << 6)
            else:
                size, at = decode_varint(data, at)
                at += max(size, 0)
            at = _end_of_headers(data, at, index) if data[at] else at + 1
            if at != end:
                raise _malformed("its length is wrong", index)
    except IndexError:
        raise _malformed("the batch ends inside it", index) from None
    facts.count, facts.largest_bytes = facts.count + count, largest_bytes + 1
    facts.least_delta_ms, facts.greatest_delta_ms, facts.lacks_key = least_ms, greatest_ms, lacks_key
    return at


def _end_of_headers(data: bytes, at: int, index: int) -> int:
    count, at = decode_varint(data, at)
    if not 0 <= count <= len(data) - at:
        raise _malformed(f"{count} headers", index)
    for _ in range(count):
        size, at = decode_varint(data, at)
        if size < 0:
            raise _malformed("a header without a key", index)
        size, at = decode_varint(data, at + size)
        at += max(size, 0)
        if at > len(data):
            raise _malformed("the batch ends inside its headers", index)
    return at


def recompressed(batch: bytes, plain: bytes, codec: Compression) -> bytes:
    """The batch with its records, which are `plain`, compressed by another codec. Raises CompressionUnavailableError."""
    packed = bytearray(batch[:HEADER_BYTES])
    packed += compress(codec, plain)
    given = int.from_bytes(batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2], "big", signed=True)  # unknown bits are kept
    attributes = given & ~COMPRESSION_BITS | codec
    _pack_length(packed, LENGTH_AT, len(packed) - OVERHEAD_BYTES)
    _pack_crc_and_attributes(packed, CRC_AT, 0, attributes)
    _pack_crc_and_attributes(packed, CRC_AT, crc32c(memoryview(packed)[ATTRIBUTES_AT:]), attributes)
    return bytes(packed)


def _malformed(reason: str, index: int) -> ProtocolError:
    return ProtocolError(f"record {index}: {reason}", message="RecordBatch", version=2, field="records", offset=0)
