"""The records inside a batch: reading them, one by one and lazily, and encoding one.

Kafka: DefaultRecord; KIP-82 for headers.
"""

from __future__ import annotations

from collections.abc import Iterator

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.compression import MAX_DECOMPRESSED_BYTES, Compression, decompress
from kshim_protocol.records.layout import (
    ATTRIBUTES_AT,
    COMPRESSION_BITS,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    MIN_RECORD_BYTES,
    OVERHEAD_BYTES,
    fields,
)
from kshim_protocol.records.varint import decode_varint, decode_varlong, encode_varint, encode_varlong

_INSIDE = fields(
    "base_offset", "batch_length", "magic", "attributes", "base_timestamp", "max_timestamp", "record_count"
)


class Record:
    """One key and value with its headers.

    `value` None is a tombstone; `timestamp_ms` is Unix time, -1 for none. `offset` is -1 before a log has given one.
    `headers` are (key, value) in order; keys may repeat.
    """

    __slots__ = ("headers", "key", "offset", "timestamp_ms", "value")

    def __init__(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        timestamp_ms: int = -1,
        offset: int = -1,
    ) -> None:
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_ms = timestamp_ms
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
            and self.timestamp_ms == other.timestamp_ms
            and self.offset == other.offset
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Record(key={self.key!r}, value={self.value!r}, headers={self.headers!r},"
            f" timestamp_ms={self.timestamp_ms}, offset={self.offset})"
        )


def encode_record(record: Record, offset_delta: int, timestamp_delta_ms: int) -> bytes:
    """A record as it stands in a batch. Raises ValueError for a number too wide for its varint."""
    parts = [b"\0", encode_varlong(timestamp_delta_ms), encode_varint(offset_delta)]
    for data in (record.key, record.value):
        if data is None:
            parts.append(b"\1")
        else:
            parts += (encode_varint(len(data)), data)
    parts.append(encode_varint(len(record.headers)))
    for name, value in record.headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        if value is None:
            parts.append(b"\1")
        else:
            parts += (encode_varint(len(value)), value)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


class _Inside:
    """What is needed of a header to read the records, and the records themselves, decompressed."""

    __slots__ = ("base_offset", "base_timestamp_ms", "count", "data", "fixed_timestamp_ms", "start")

    def __init__(self, batch: bytes, max_decompressed_bytes: int) -> None:
        if len(batch) < HEADER_BYTES:
            raise _malformed(f"{len(batch)} bytes left, {HEADER_BYTES} wanted", "base_offset", 0)
        (
            self.base_offset,
            length,
            magic,
            attributes,
            self.base_timestamp_ms,
            max_timestamp_ms,
            self.count,
        ) = _INSIDE.unpack_from(batch)
        if magic != 2:
            raise _malformed(f"magic is {magic}, not 2", "magic", 16)
        if length != len(batch) - OVERHEAD_BYTES:
            raise _malformed(f"{length} in {len(batch)} bytes", "batch_length", 8)
        self.fixed_timestamp_ms: int | None = max_timestamp_ms if attributes & LOG_APPEND_TIME_BIT else None
        codec = attributes & COMPRESSION_BITS
        if not codec:
            self.data, self.start = batch, HEADER_BYTES
        elif codec <= Compression.ZSTD:
            self.data, self.start = (
                decompress(Compression(codec), batch[HEADER_BYTES:], max_bytes=max_decompressed_bytes),
                0,
            )
        else:
            raise _malformed(f"no compression codec {codec}", "attributes", ATTRIBUTES_AT)
        if not 0 <= self.count * MIN_RECORD_BYTES <= len(self.data) - self.start:
            raise _malformed(f"{self.count} records in {len(self.data) - self.start} bytes", "record_count", 57)


def iter_records(batch: bytes, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """The records of one whole batch, decoded as they are asked for. The CRC is not checked.

    Raises ProtocolError, CompressionUnavailableError; both only while iterating.
    """
    yield from _decoded(_Inside(batch, max_decompressed_bytes))


# Varints of one byte are read in place, lengths also those of two: calls would double the cost. An odd byte is a
# negative number, which as a length means null. Slices cannot run past the data, so it is enough to check that each
# record ends where its length says.
def _decoded(inside: _Inside) -> Iterator[Record]:
    data = inside.data
    base_offset = inside.base_offset
    base_timestamp_ms = inside.base_timestamp_ms
    fixed_timestamp_ms = inside.fixed_timestamp_ms
    at = inside.start
    index = start = 0
    try:
        for index in range(inside.count):  # noqa: B007 - named in the errors
            start = at
            if (byte := data[at]) < 0x80:
                size = -1 if byte & 1 else byte >> 1
                at += 1
            else:
                size, at = decode_varint(data, at)
            end = at + size
            at += 1  # the attributes, which mean nothing yet
            if data[at]:
                timestamp_ms, at = decode_varlong(data, at)
                timestamp_ms += base_timestamp_ms
            else:
                timestamp_ms = base_timestamp_ms
                at += 1
            if (byte := data[at]) < 0x80 and not byte & 1:
                offset = base_offset + (byte >> 1)
                at += 1
            else:
                offset, at = decode_varint(data, at)
                offset += base_offset
            if (byte := data[at]) < 0x80:
                size = -1 if byte & 1 else byte >> 1
                at += 1
            else:
                size, at = decode_varint(data, at)
            key = data[at : (at := at + size)] if size >= 0 else None
            if (byte := data[at]) < 0x80:
                size = -1 if byte & 1 else byte >> 1
                at += 1
            elif (more := data[at + 1]) < 0x80 and not byte & 1:
                size = byte >> 1 & 0x3F | more << 6
                at += 2
            else:
                size, at = decode_varint(data, at)
            value = data[at : (at := at + size)] if size >= 0 else None
            headers: tuple[tuple[str, bytes | None], ...] = ()
            if data[at]:
                headers, at = _decode_headers(data, at)
            else:
                at += 1
            if at != end:
                raise _malformed(f"{end - start} bytes announced, {at - start} read", "length", start)
            yield Record(
                key, value, headers, timestamp_ms if fixed_timestamp_ms is None else fixed_timestamp_ms, offset
            )
    except IndexError:
        raise _bad_record(index, start, "batch ends inside it") from None
    except ProtocolError as error:
        raise _bad_record(index, start, error.reason) from None
    if at != len(data):
        raise _malformed(f"{len(data) - at} bytes after the last record", "records", at)


def iter_timestamps(batch: bytes, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[tuple[int, int]]:
    """(offset, timestamp_ms) of every record, skipping what the records hold.

    Raises ProtocolError, CompressionUnavailableError; both only while iterating.
    """
    inside = _Inside(batch, max_decompressed_bytes)
    data = inside.data
    at = inside.start
    for index in range(inside.count):
        start = at
        try:
            length, at = decode_varint(data, at)
            end = at + length
            timestamp_delta, at = decode_varlong(data, at + 1)
            offset_delta, at = decode_varint(data, at)
        except ProtocolError as error:
            raise _bad_record(index, start, error.reason) from None
        if not at < end <= len(data):
            raise _bad_record(index, start, f"{length} bytes announced, {len(data) - start} left")
        fixed = inside.fixed_timestamp_ms
        yield inside.base_offset + offset_delta, inside.base_timestamp_ms + timestamp_delta if fixed is None else fixed
        at = end


def _decode_headers(data: bytes, at: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = decode_varint(data, at)
    if count < 0:
        raise _malformed(f"{count} headers", "headers", at)
    headers = []
    for _ in range(count):
        size, at = decode_varint(data, at)
        if not 0 <= size <= len(data) - at:
            raise _malformed(f"header key of {size} bytes, {len(data) - at} left", "headers", at)
        try:
            name = data[at : at + size].decode()
        except UnicodeDecodeError as error:
            raise _malformed(f"header key: {error}", "headers", at) from None
        at += size
        size, at = decode_varint(data, at)
        value = None
        if size >= 0:
            value = data[at : at + size]
            at += size
        headers.append((name, value))
    return tuple(headers), at


def _malformed(reason: str, field: str, offset: int) -> ProtocolError:
    return ProtocolError(reason, message="RecordBatch", version=2, field=field, offset=offset)


def _bad_record(index: int, at: int, reason: str) -> ProtocolError:
    return _malformed(reason, f"records[{index}]", at)
