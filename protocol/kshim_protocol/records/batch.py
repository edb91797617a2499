"""Record batches of format 2: the header, whole batches in a run of bytes, checking, building.

A batch is a header of 61 bytes and its records, compressed as one block or not. The CRC covers everything from the
attributes on, so base offset and leader epoch can be set without touching it. What is inside: `record.py`.
Kafka: DefaultRecordBatch; KIP-98, KIP-32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.compression import Compression, compress
from kshim_protocol.records.crc import crc32c
from kshim_protocol.records.layout import (
    ATTRIBUTES_AT,
    COMPRESSION_BITS,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    MIN_BATCH_LENGTH,
    MIN_RECORD_BYTES,
    OVERHEAD_BYTES,
    TRANSACTIONAL_BIT,
    run_of,
)
from kshim_protocol.records.record import Record, encode_record
from kshim_protocol.records.varint import SMALL_VARINTS, encode_varint

_HEADER = run_of("base_offset", "record_count")
_BEFORE_CRC = run_of("base_offset", "crc")
_AFTER_CRC = run_of("attributes", "record_count")
_OFFSET_AND_LENGTH = run_of("base_offset", "batch_length")
_PLACE = run_of("base_offset", "partition_leader_epoch")

_MAGIC = 2
_LAST_CODEC = int(Compression.ZSTD)
_FEW_RECORDS = 3
_LARGE_VALUE_BYTES = 500  # some less than what SMALL_VARINTS reaches to
_WORTH_A_VIEW_BYTES = 4096  # below that, copying a slice is cheaper than a memoryview


class CorruptBatchError(ProtocolError):
    """The bytes are damaged: the length cannot be, or the CRC differs. Answered as CORRUPT_MESSAGE."""


class InvalidBatchError(ProtocolError):
    """The bytes arrived as they were sent but may not be produced. Answered as INVALID_RECORD."""


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in wire order.

    `batch_length` counts the bytes after itself; `max_timestamp_ms` is the greatest of the records'. With
    `has_delete_horizon`, `base_timestamp_ms` is that horizon. Producer id, epoch and sequence are -1 when absent.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch."""
        return self.batch_length + OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the last record; kept by compaction even when that record is gone."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> Compression:
        """Raises ProtocolError for a codec that does not exist."""
        codec = self.attributes & COMPRESSION_BITS
        if codec > Compression.ZSTD:
            raise _malformed(f"no compression codec {codec}", "attributes", ATTRIBUTES_AT)
        return Compression(codec)

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record's timestamp is `max_timestamp_ms`, set by the broker. False: the producer's times."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        """True for data and markers of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """True for a batch whose one record is a marker (`control.py`), not data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """True after compaction has set when the tombstones in here may go."""
        return bool(self.attributes & DELETE_HORIZON_BIT)


def parse_batch_header(data: bytes, at: int = 0) -> BatchHeader:
    """The header of the batch at `at`. The records need not be there. Raises ProtocolError."""
    if len(data) - at < HEADER_BYTES:
        raise _malformed(f"{max(len(data) - at, 0)} bytes left, {HEADER_BYTES} wanted", "base_offset", at)
    header = BatchHeader._make(_HEADER.unpack_from(data, at))
    if header.magic != _MAGIC:
        raise _malformed(f"magic is {header.magic}, not 2", "magic", at + MAGIC_AT)
    if header.batch_length < MIN_BATCH_LENGTH:
        raise _malformed(f"{header.batch_length} is too short", "batch_length", at + 8)
    return header


def iter_batches(data: bytes) -> Iterator[bytes]:
    """The whole batches in `data`, in order. A truncated one at the end (as a Fetch answer may have) is left out.

    Raises ProtocolError for a length that cannot be and for the formats before 2.
    """
    at = 0
    size_bytes = len(data)
    while size_bytes - at >= OVERHEAD_BYTES:
        _, length = _OFFSET_AND_LENGTH.unpack_from(data, at)
        if length < MIN_BATCH_LENGTH:
            raise _malformed(f"{length} is too short", "batch_length", at + 8)
        if at + MAGIC_AT < size_bytes and data[at + MAGIC_AT] != _MAGIC:
            raise _malformed(f"magic is {data[at + MAGIC_AT]}, not 2", "magic", at + MAGIC_AT)
        end = at + OVERHEAD_BYTES + length
        if end > size_bytes:
            return
        yield data[at:end]
        at = end


def validate_batch(data: bytes) -> BatchHeader:
    """Check what a producer sent for one partition: exactly one sound batch. Records are not decoded.

    Raises CorruptBatchError, InvalidBatchError. Kafka: ProduceRequest.validateRecords, LogValidator.
    """
    size_bytes = len(data)
    if size_bytes > MAGIC_AT and data[MAGIC_AT] != _MAGIC:
        raise _invalid(f"magic is {data[MAGIC_AT]}, not 2", "magic", MAGIC_AT)
    if size_bytes < HEADER_BYTES:
        raise _invalid(f"{size_bytes} bytes hold no whole batch", "base_offset", 0)
    values = _HEADER.unpack_from(data)
    _, length, _, _, crc, attributes, last_offset_delta, _, _, producer_id, _, base_sequence, count = values
    if length < MIN_BATCH_LENGTH:
        raise _corrupt(f"{length} is too short", "batch_length", 8)
    if length != size_bytes - OVERHEAD_BYTES:
        raise _invalid(f"{length} in {size_bytes} bytes: not one whole batch", "batch_length", 8)
    if (computed := _crc_of(data)) != crc:
        raise _corrupt(f"{crc:08x} in the header, {computed:08x} computed", "crc", 17)
    if attributes & COMPRESSION_BITS > _LAST_CODEC:
        raise _invalid(f"no compression codec {attributes & COMPRESSION_BITS}", "attributes", ATTRIBUTES_AT)
    if attributes & CONTROL_BIT:
        raise _invalid("clients may not write control batches", "attributes", ATTRIBUTES_AT)
    if count < 1 or count != last_offset_delta + 1:
        raise _invalid(f"{count}, but the last offset delta is {last_offset_delta}", "record_count", 57)
    if not attributes & COMPRESSION_BITS and count * MIN_RECORD_BYTES > size_bytes - HEADER_BYTES:
        raise _invalid(f"{count} records in {size_bytes - HEADER_BYTES} bytes", "record_count", 57)
    if producer_id >= 0 and base_sequence < 0:
        raise _invalid("producer id without a sequence", "base_sequence", 53)
    # As BatchHeader._make(...), which is a function of Python's own in between: each Produce comes here.
    return tuple.__new__(BatchHeader, values)


def crc_matches(batch: bytes) -> bool:
    """True when the CRC of a whole batch is right."""
    return _crc_of(batch) == int.from_bytes(batch[17:21], "big")


def set_base_offset(batch: bytes, offset: int, leader_epoch: int = 0) -> bytes:
    """The same batch at `offset`. The CRC stays right, for both fields lie outside it."""
    base_offset, length, epoch = _PLACE.unpack_from(batch)
    if base_offset == offset and epoch == leader_epoch:
        return batch
    return placed(batch, offset, length, leader_epoch)


def placed(batch: bytes, offset: int, length: int, leader_epoch: int) -> bytes:
    """The same for a batch that has other fields there, and `length`."""
    place = _PLACE.pack(offset, length, leader_epoch)
    if len(batch) < _WORTH_A_VIEW_BYTES:
        return place + batch[_PLACE.size :]
    return b"".join((place, memoryview(batch)[_PLACE.size :]))


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    compression: Compression = Compression.NONE,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    last_offset_delta: int | None = None,
) -> bytes:
    """One batch of `records`.

    A record with offset -1 follows the one before it; other offsets must rise. `log_append_time_ms` replaces the
    records' own timestamps. `last_offset_delta` is the last record's unless given; it must be given for a batch
    without records (compaction leaves such). Raises ValueError, CompressionUnavailableError.
    """
    encoded: list[bytes] = []
    offset_delta = -1
    base_timestamp_ms = delete_horizon_ms
    max_timestamp_ms = -1
    for record in records:
        previous = offset_delta
        offset_delta = previous + 1 if record.offset < 0 else record.offset - base_offset
        if offset_delta <= previous:
            raise ValueError(f"offset {record.offset} does not come after {base_offset + previous}")
        if base_timestamp_ms is None:
            base_timestamp_ms = record.timestamp_ms
        if record.timestamp_ms > max_timestamp_ms:
            max_timestamp_ms = record.timestamp_ms
        encoded.append(encode_record(record, offset_delta, record.timestamp_ms - base_timestamp_ms))
    if last_offset_delta is None:
        last_offset_delta = offset_delta
    if last_offset_delta < max(offset_delta, 0):
        raise ValueError(f"last offset delta {last_offset_delta} of {len(encoded)} records")
    attributes = int(compression)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME_BIT
        max_timestamp_ms = log_append_time_ms
    if is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if is_control:
        attributes |= CONTROL_BIT
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
    after_crc = _AFTER_CRC.pack(
        attributes,
        last_offset_delta,
        -1 if base_timestamp_ms is None else base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(encoded),
    ) + compress(compression, b"".join(encoded))
    return _sealed(after_crc, base_offset, partition_leader_epoch)


def build_key_value_batch(
    pairs: Sequence[tuple[bytes, bytes | None]],
    timestamp_ms: int,
    *,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = 0,
    is_transactional: bool = False,
) -> bytes:
    """`build_batch` for the group coordinator: keys and values (None: tombstone) with one timestamp, quickly.

    Kafka's coordinator writes base sequence 0 even without a producer id, hence the default. `pairs` is not empty.
    """
    return build_records_batch(
        (pairs,),
        timestamp_ms,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )


def build_records_batch(
    records: Iterable[Sequence[tuple[bytes, bytes | None]] | AlikeRecords],
    timestamp_ms: int,
    *,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = 0,
    is_transactional: bool = False,
) -> bytes:
    """The same of several runs of records, one behind the other. They are not all empty."""
    parts: list[bytes] = []
    count = 0
    for run in records:
        if isinstance(run, AlikeRecords):
            parts += run.parts(count)
            count += run.record_count
        else:
            parts += (len(run) > _FEW_RECORDS and _equal_parts(run, count)) or _parts(run, count)
            count += len(run)
    if not count:
        raise ValueError("a batch needs a record")
    after_crc = _AFTER_CRC.pack(
        TRANSACTIONAL_BIT if is_transactional else 0,
        count - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) + b"".join(parts)
    return _sealed(after_crc, base_offset, 0)


def build_single_batch(record: bytes, timestamp_ms: int) -> bytes:
    """The batch that `build_key_value_batch` makes of one record, from the bytes of this record."""
    return _sealed(_AFTER_CRC.pack(0, 0, timestamp_ms, timestamp_ms, -1, -1, 0, 1) + record, 0, 0)


class AlikeRecords(NamedTuple):
    """Records that are alike but for the ends of their keys and one place in their values.

    `different` has both of each record, one after the other. All key ends are equally long, and so are the others.
    """

    key_start: bytes
    value_start: bytes
    value_end: bytes
    different: Sequence[bytes]

    @property
    def record_count(self) -> int:
        """How many there are."""
        return len(self.different) // 2

    def parts(self, first: int) -> list[bytes]:
        """Their pieces, the first record having the offset delta `first`. No record is looked at by itself."""
        key_start, value_start, value_end, different = self
        key_length = encode_varint(len(key_start) + len(different[0]))
        value_length = encode_varint(len(value_start) + len(different[1]) + len(value_end))
        before_key, before_value, end = key_length + key_start, value_length + value_start, value_end + b"\0"
        rest = 2 + len(before_key) + len(different[0]) + len(before_value) + len(different[1]) + len(end)
        deltas = _deltas(first, self.record_count)
        parts: list[bytes] = []
        done = 0
        while done < len(deltas):  # those with deltas of one length, which are equally long, at once
            delta_bytes = len(deltas[done])
            to = min(len(deltas), (64 << 7 * (delta_bytes - 1)) - first)
            start = encode_varint(rest + delta_bytes) + b"\0\0"
            run = [b"", before_key, b"", before_value, b"", end + start] * (to - done)
            run[0::6], run[2::6], run[4::6] = (
                deltas[done:to],
                different[2 * done : 2 * to : 2],
                different[2 * done + 1 : 2 * to : 2],
            )
            run[-1] = end
            parts.append(start)
            parts += run
            done = to
        return parts


def _equal_parts(pairs: Sequence[tuple[bytes, bytes | None]], first: int) -> list[bytes]:
    """The pieces of records whose keys are all equally long, as are their values; none where that is not so.

    Made column by column, without looking at each record: a commit of many partitions is such a batch.
    """
    keys, values = zip(*pairs, strict=True)
    if None in values or len(set(map(len, keys))) > 1 or len(set(map(len, values))) > 1:
        return []
    count, key_bytes, value_bytes = len(keys), len(keys[0]), len(values[0])
    deltas = _deltas(first, count)
    key_length, value_length = encode_varint(key_bytes), encode_varint(value_bytes)
    rest = 3 + len(key_length) + key_bytes + len(value_length) + value_bytes
    starts = {size: encode_varint(rest + size) + b"\0\0" for size in set(map(len, deltas))}
    parts = [b"\0"] * (7 * count)
    parts[0::7] = map(starts.__getitem__, map(len, deltas))
    parts[1::7], parts[2::7], parts[3::7] = deltas, [key_length] * count, keys
    parts[4::7], parts[5::7] = [value_length] * count, values
    return parts


def _deltas(first: int, count: int) -> list[bytes]:
    """The varints of that many offset deltas."""
    last = first + count
    return SMALL_VARINTS[first:last] if last <= len(SMALL_VARINTS) else list(map(encode_varint, range(first, last)))


def _parts(pairs: Sequence[tuple[bytes, bytes | None]], first: int) -> list[bytes]:
    """The pieces of any records, one by one."""
    small = SMALL_VARINTS
    parts: list[bytes] = []
    for count, (key, value) in enumerate(pairs, first):
        if value is not None and len(value) > _LARGE_VALUE_BYTES:  # cheaper than to be thrown out of the table below
            parts += _key_value_parts(key, value, count)
            continue
        try:
            key_length = small[len(key)]
            offset_delta = small[count]
            if value is None:
                size_bytes = small[4 + len(offset_delta) + len(key_length) + len(key)]
                parts += (size_bytes, b"\0\0", offset_delta, key_length, key, b"\1\0")
            else:
                value_length = small[len(value)]
                size = 3 + len(offset_delta) + len(key_length) + len(value_length) + len(key) + len(value)
                parts += (small[size], b"\0\0", offset_delta, key_length, key, value_length, value, b"\0")
        except IndexError:  # something is too long for the table
            parts += _key_value_parts(key, value, count)
    return parts


def _key_value_parts(key: bytes, value: bytes | None, offset_delta: int) -> tuple[bytes, ...]:
    """The pieces of one record, however long; the value is not copied."""
    delta, key_length = encode_varint(offset_delta), encode_varint(len(key))
    size = 2 + len(delta) + len(key_length) + len(key)
    if value is None:
        return (encode_varint(size + 2), b"\0\0", delta, key_length, key, b"\1\0")
    value_length = encode_varint(len(value))
    size += len(value_length) + len(value) + 1
    return (encode_varint(size), b"\0\0", delta, key_length, key, value_length, value, b"\0")


def _sealed(after_crc: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """Put the start of the header, with length and CRC, before everything the CRC covers."""
    length = len(after_crc) + ATTRIBUTES_AT - OVERHEAD_BYTES
    return _BEFORE_CRC.pack(base_offset, length, leader_epoch, _MAGIC, crc32c(after_crc)) + after_crc


def _crc_of(batch: bytes) -> int:
    return crc32c(batch[ATTRIBUTES_AT:] if len(batch) < _WORTH_A_VIEW_BYTES else memoryview(batch)[ATTRIBUTES_AT:])


def _malformed(reason: str, field: str, offset: int) -> ProtocolError:
    return ProtocolError(reason, message="RecordBatch", version=2, field=field, offset=offset)


def _invalid(reason: str, field: str, offset: int) -> InvalidBatchError:
    return InvalidBatchError(reason, message="RecordBatch", version=2, field=field, offset=offset)


def _corrupt(reason: str, field: str, offset: int) -> CorruptBatchError:
    return CorruptBatchError(reason, message="RecordBatch", version=2, field=field, offset=offset)
