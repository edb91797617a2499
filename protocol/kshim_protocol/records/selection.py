"""Leaving records out of a batch, as compaction does, without decoding what stays.

Offsets, and the last offset of the batch, do not change. Functions that go over records take a `count`, so that a
caller can stop between any two records of a large batch. Kafka: MemoryRecords.filterTo, KIP-534.
"""

from __future__ import annotations

import struct

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.compression import Compression, compress, decompress
from kshim_protocol.records.crc import crc32c
from kshim_protocol.records.layout import (
    ATTRIBUTES_AT,
    COMPRESSION_BITS,
    COUNT_AT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    MIN_RECORD_BYTES,
    OVERHEAD_BYTES,
    PRODUCER_ID_AT,
    run_of,
)
from kshim_protocol.records.varint import decode_varint, decode_varlong, encode_varint, encode_varlong

EncodedRecord = tuple[int, bytes | None, bool, int, int, int]
"""Offset, key, whether it has a value, timestamp delta, and where in the data what follows that delta begins and ends."""

_NO_TIMESTAMP = -1

_unpack_count = struct.Struct(">i").unpack_from
_BEFORE_CRC = run_of("base_offset", "crc")
_TAIL = run_of("attributes", "max_timestamp")


def plain_records(batch: bytes, *, max_decompressed_bytes: int) -> tuple[bytes, int, int]:
    """The data that holds the records of a batch, where the first one begins in it, and how many there are.

    Raises ProtocolError, CompressionUnavailableError.
    """
    count: int = _unpack_count(batch, COUNT_AT)[0]
    codec = batch[ATTRIBUTES_AT + 1] & COMPRESSION_BITS
    if not codec:
        data, at = batch, HEADER_BYTES
    elif codec > Compression.ZSTD:
        raise _malformed(f"no compression codec {codec}", ATTRIBUTES_AT)
    else:
        data, at = decompress(Compression(codec), batch[HEADER_BYTES:], max_bytes=max_decompressed_bytes), 0
    if not 0 <= count * MIN_RECORD_BYTES <= len(data) - at:
        raise _malformed(f"{count} records in {len(data) - at} bytes", COUNT_AT)
    return data, at, count


# Varints of up to two bytes are read in place: calls would double the cost. An odd first byte is a negative number,
# which as a length means null.
def read_keys(data: bytes, at: int, count: int, base_offset: int, latest: dict[bytes, int]) -> int:
    """Put the offset of each of the next `count` records into `latest` under its key; those without one are passed over.

    Returns where the next record begins. Raises ProtocolError.
    """
    size_bytes = len(data)
    try:
        for _ in range(count):
            if (byte := data[at]) < 0x80:
                end = at + 1 + (byte >> 1)
                at += 2
            elif (more := data[at + 1]) < 0x80:
                end = at + 2 + (byte >> 1 & 0x3F | more << 6)
                at += 3
            else:
                size, at = decode_varint(data, at)
                end = at + size
                at += 1
            if data[at] < 0x80:
                at += 1
            else:
                _, at = decode_varlong(data, at)
            if (byte := data[at]) < 0x80:
                offset = byte >> 1
                at += 1
            elif (more := data[at + 1]) < 0x80:
                offset = byte >> 1 & 0x3F | more << 6
                at += 2
            else:
                offset, at = decode_varint(data, at)
            if (byte := data[at]) < 0x80:
                if byte & 1:
                    at = end
                    if end > size_bytes:
                        raise _malformed("a record ends behind the batch", at)
                    continue
                key_end = at + 1 + (byte >> 1)
                at += 1
            else:
                size, at = decode_varint(data, at)
                key_end = at + max(size, 0)
            if key_end >= end or end > size_bytes:
                raise _malformed("a record ends inside its key or behind the batch", at)
            latest[data[at:key_end]] = base_offset + offset
            at = end
    except IndexError:
        raise _malformed("the batch ends inside a record", at) from None
    return at


def read_records(data: bytes, at: int, count: int, base_offset: int, into: list[EncodedRecord]) -> int:
    """Add the next `count` records to `into`; returns where the one after them begins. Raises ProtocolError."""
    try:
        for _ in range(count):
            if (more := data[at + 1]) < 0x80 <= (byte := data[at]) and not byte & 1:
                end = at + 2 + (byte >> 1 & 0x3F | more << 6)
                at += 3
            else:
                size, at = decode_varint(data, at)
                end = at + size
                at += 1
            timestamp_delta = 0
            if data[at]:
                timestamp_delta, at = decode_varlong(data, at)
            else:
                at += 1
            rest_at = at
            if (byte := data[at]) < 0x80 and not byte & 1:
                offset = byte >> 1
                at += 1
            else:
                offset, at = decode_varint(data, at)
            if (byte := data[at]) < 0x80:
                size = -1 if byte & 1 else byte >> 1
                at += 1
            else:
                size, at = decode_varint(data, at)
            key = None
            if size >= 0:
                key = data[at : at + size]
                at += size
            if at >= end or end > len(data):
                raise _malformed("a record ends inside its key or behind the batch", at)
            into.append((base_offset + offset, key, not data[at] & 1, timestamp_delta, rest_at, end))
            at = end
    except IndexError:
        raise _malformed("the batch ends inside a record", at) from None
    return at


def encode_selected(data: bytes, records: list[EncodedRecord], earlier_ms: int) -> bytes:
    """These records of `data`, for a batch whose base timestamp lies `earlier_ms` before that of theirs."""
    parts: list[bytes] = []
    for _, _, _, timestamp_delta, rest_at, end in records:
        delta = encode_varlong(timestamp_delta + earlier_ms)
        parts += (encode_varint(1 + len(delta) + end - rest_at), b"\0", delta, data[rest_at:end])
    return b"".join(parts)


def batch_with(
    batch: bytes, records: bytes, count: int, *, base_timestamp_ms: int, max_timestamp_ms: int, has_delete_horizon: bool
) -> bytes:
    """`batch` with other records: `count` of them, encoded but not compressed yet. Its codec is kept.

    With `has_delete_horizon`, `base_timestamp_ms` is the horizon. Raises CompressionUnavailableError.
    """
    attributes, last_offset_delta, _, _ = _TAIL.unpack_from(batch, ATTRIBUTES_AT)
    attributes = attributes & ~DELETE_HORIZON_BIT | (DELETE_HORIZON_BIT if has_delete_horizon else 0)
    tail = _TAIL.pack(attributes, last_offset_delta, base_timestamp_ms, max_timestamp_ms)
    return _sealed(batch, tail, count, compress(Compression(attributes & COMPRESSION_BITS), records))


def empty_batch(batch: bytes) -> bytes:
    """`batch` without records: it still says what its producer's last sequence number and its last offset were."""
    attributes, last_offset_delta, _, max_timestamp_ms = _TAIL.unpack_from(batch, ATTRIBUTES_AT)
    attributes &= ~(DELETE_HORIZON_BIT | COMPRESSION_BITS)
    return _sealed(batch, _TAIL.pack(attributes, last_offset_delta, _NO_TIMESTAMP, max_timestamp_ms), 0, b"")


def _sealed(batch: bytes, tail: bytes, count: int, records: bytes) -> bytes:
    base_offset, _, leader_epoch, magic, _ = _BEFORE_CRC.unpack_from(batch)
    after_crc = b"".join((tail, batch[PRODUCER_ID_AT:COUNT_AT], count.to_bytes(4, "big"), records))
    length = ATTRIBUTES_AT + len(after_crc) - OVERHEAD_BYTES
    return _BEFORE_CRC.pack(base_offset, length, leader_epoch, magic, crc32c(after_crc)) + after_crc


def _malformed(reason: str, at: int) -> ProtocolError:
    return ProtocolError(reason, message="RecordBatch", version=2, field="records", offset=at)
