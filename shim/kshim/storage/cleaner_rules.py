"""What compaction keeps and what it drops, batch by batch. Kafka: Cleaner, CleanedTransactionMetadata; KIP-98, KIP-534.

Three passes over batches in offset order: `Survey` over all headers (which transactions were aborted or are open, which
batch is each producer's last), `KeyMap` over the part not cleaned yet (the last offset of each key), `Filter` over
everything up to where the map reaches. Work on many records is generators, which yield now and then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator
from typing import Any

from kshim.storage.log import UncleanableBatch
from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.batch import crc_matches
from kshim_protocol.records.compression import CompressionUnavailableError
from kshim_protocol.records.control import ControlType, parse_control_record
from kshim_protocol.records.layout import (
    COMPRESSION_BITS,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_FIELDS,
    TRANSACTIONAL_BIT,
    fields,
)
from kshim_protocol.records.record import iter_records
from kshim_protocol.records.selection import (
    EncodedRecord,
    batch_with,
    empty_batch,
    encode_selected,
    plain_records,
    read_keys,
    read_records,
)

Work = Generator[Callable[[], Any] | None, Any, None]

RECORDS_A_SLICE = 2048
"""Under a millisecond of Python; what a batch costs besides its records is counted as some more of them."""
_HEADERS_A_SLICE = 4096
_KEY_OVERHEAD_BYTES = 140
"""What CPython takes for an entry of the map besides the key's own bytes."""
_LARGE_BATCH_BYTES = 64 * 1024
"""Compressed batches from here on are unpacked and packed in a thread: the codecs let other threads run meanwhile."""
_MAX_PLAIN_BYTES = 1 << 30
_KEYS_A_SLICE = 8192
_MAX_MARKS = 1 << 26
_FAR = 1 << 63


_unpack_header = fields(
    "base_offset",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "record_count",
).unpack_from
_Header = tuple[int, int, int, int, int, int, int, int]
_unpack_length_and_producer = fields("batch_length", "producer_id").unpack_from


class _Producer:
    __slots__ = ("epoch", "last_data_offset", "seen_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.last_data_offset = -1
        self.seen_ms = 0


class Survey:
    """What the headers of a log say about producers and transactions. `read` every batch from the start to the end."""

    def __init__(self) -> None:
        self._aborted: dict[int, list[tuple[int, int]]] = {}  # by producer id: first offset, offset of the marker
        self._open: dict[int, int] = {}
        self._producers: dict[int, _Producer] = {}

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction begins, or None."""
        return min(self._open.values(), default=None)

    def read(self, batches: bytes) -> Work:
        """Take the next batches, whole ones. Raises UncleanableBatch."""
        at = 0
        left = _HEADERS_A_SLICE
        while at < len(batches):
            length, producer_id = _unpack_length_and_producer(batches, at)
            end = at + 12 + length
            if producer_id >= 0:
                batch = batches[at:end]
                self._read(batch, _unpack_header(batch))
                left -= 7
            at = end
            left -= 1
            if left <= 0:
                left = _HEADERS_A_SLICE
                yield None

    def _read(self, batch: bytes, header: _Header) -> None:
        base_offset, attributes, last_offset_delta, _, max_timestamp_ms, producer_id, epoch, _ = header
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = _Producer(epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.last_data_offset = -1
        producer.seen_ms = max(producer.seen_ms, max_timestamp_ms)
        if attributes & CONTROL_BIT:
            first_offset = self._open.pop(producer_id, None)
            if first_offset is not None and _control_type(batch) is ControlType.ABORT:
                self._aborted.setdefault(producer_id, []).append((first_offset, base_offset))
            return
        producer.last_data_offset = base_offset + last_offset_delta
        if attributes & TRANSACTIONAL_BIT:
            self._open.setdefault(producer_id, base_offset)

    def is_aborted(self, offset: int, producer_id: int) -> bool:
        """Whether a transactional batch at `offset` belongs to a transaction that was aborted."""
        aborted = self._aborted.get(producer_id)
        if aborted is None:
            return False
        at = bisect_right(aborted, (offset, _FAR)) - 1
        return at >= 0 and offset < aborted[at][1]

    def is_last_of_producer(self, header: _Header, seen_since_ms: int) -> bool:
        """Whether a producer that wrote since then needs this batch for its last sequence number or epoch."""
        base_offset, attributes, last_offset_delta, _, _, producer_id, epoch, _ = header
        producer = self._producers.get(producer_id)
        if producer is None or producer.seen_ms <= seen_since_ms:
            return False
        if producer.last_data_offset >= 0:
            return base_offset + last_offset_delta == producer.last_data_offset
        return bool(attributes & CONTROL_BIT) and epoch == producer.epoch


class KeyMap:
    """The last offset of each key in the part not cleaned yet, up to and with `latest_offset`.

    `is_full` once about `max_bytes` of memory are used; one batch is always taken.
    """

    __slots__ = ("_first_offset", "_marks", "_offsets", "_survey", "latest_offset", "max_bytes", "used_bytes")

    def __init__(self, survey: Survey, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}
        self._first_offset = -1  # of what was read
        self._marks = b""  # a byte for each offset from there on: 1 where a key has its last record
        self._survey = survey

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether no further batch should be read."""
        return self.used_bytes >= self.max_bytes

    def get(self, key: bytes) -> int:
        """The key's last offset, -1 if the part not cleaned yet does not have it."""
        return self._offsets.get(key, -1)

    def read(self, batch: bytes) -> Work | None:
        """Take the next batch. What is returned, for a large one, has to be run to its end. Raises UncleanableBatch."""
        base_offset, attributes, last_offset_delta, _, _, producer_id, _, record_count = _unpack_header(batch)
        last_offset = base_offset + last_offset_delta
        if not crc_matches(batch):
            raise _uncleanable(batch, "CRC differs")
        if self._first_offset < 0:
            self._first_offset = base_offset
        if attributes & CONTROL_BIT or (
            attributes & TRANSACTIONAL_BIT and self._survey.is_aborted(base_offset, producer_id)
        ):
            self.latest_offset = last_offset
            return None
        if attributes & COMPRESSION_BITS or record_count > RECORDS_A_SLICE:
            return self._read_slowly(batch, base_offset, last_offset)
        offsets = self._offsets
        key_count = len(offsets)
        try:
            read_keys(batch, HEADER_BYTES, record_count, base_offset, offsets)
        except ProtocolError as error:
            raise _uncleanable(batch, error.reason) from error
        if len(offsets) != key_count:
            self.used_bytes += (len(offsets) - key_count) * _KEY_OVERHEAD_BYTES + len(batch) - HEADER_BYTES
        self.latest_offset = last_offset
        return None

    def mark(self) -> Work:
        """After the last `read`: make `is_replaced` quick. Left out where it would take too much memory."""
        size_bytes = self.latest_offset + 1 - self._first_offset
        if self._first_offset < 0 or size_bytes > _MAX_MARKS:
            return
        marks = bytearray(size_bytes)
        first_offset = self._first_offset
        left = _KEYS_A_SLICE
        for offset in self._offsets.values():
            marks[offset - first_offset] = 1
            left -= 1
            if not left:
                left = _KEYS_A_SLICE
                yield None
        self._marks = bytes(marks)

    def is_replaced(self, first_offset: int, last_offset: int) -> bool:
        """Whether surely no record from one offset to the other is the last of its key."""
        at = first_offset - self._first_offset
        end = last_offset + 1 - self._first_offset
        return at >= 0 and end <= len(self._marks) and self._marks.find(1, at, end) < 0

    def _read_slowly(self, batch: bytes, base_offset: int, last_offset: int) -> Work:
        data, at, left = yield from _unpacked(batch)
        offsets = self._offsets
        try:
            while left:
                key_count, began_at = len(offsets), at
                at = read_keys(data, at, min(left, RECORDS_A_SLICE), base_offset, offsets)
                left -= min(left, RECORDS_A_SLICE)
                if len(offsets) != key_count:
                    self.used_bytes += (len(offsets) - key_count) * _KEY_OVERHEAD_BYTES + at - began_at
                if left:
                    yield None
        except ProtocolError as error:
            raise _uncleanable(batch, error.reason) from error
        self.latest_offset = last_offset


class Filter:
    """Drops what a later record replaces. `take` each batch up to `keys.latest_offset`, in order, from the log's start.

    What stays is appended to `kept`. `now_ms` is Unix time; a tombstone stays until `delete_retention_ms` after the
    first clean that met it. `end_offset` is the log's end: the batch right before it stays, if need be empty.
    """

    def __init__(
        self,
        survey: Survey,
        keys: KeyMap,
        *,
        now_ms: int,
        delete_retention_ms: int,
        producers_since_ms: int,
        end_offset: int,
    ) -> None:
        self.kept: list[bytes] = []
        self.decoded_count = 0
        """Records processed so far."""
        self.latest_offset = keys.latest_offset
        self.next_horizon_ms: int | None = None
        """When the first of the tombstones and markers that stayed may go (Unix time); None if there is none."""
        self._survey = survey
        self._keys = keys
        self._is_replaced = keys.is_replaced
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._producers_since_ms = producers_since_ms
        self._end_offset = end_offset
        self._has_data: set[int] = set()  # producer ids of transactions of which a batch was met, up to their markers

    def take(self, batch: bytes) -> Work | None:
        """Take the next batch. What is returned has to be run to its end. Raises UncleanableBatch."""
        header = _unpack_header(batch)
        base_offset, attributes, last_offset_delta, base_timestamp_ms, _, producer_id, _, record_count = header
        is_dropped = is_idle_marker = False
        if attributes & CONTROL_BIT:
            # Nothing is left of its transaction; like a tombstone it stays until a horizon all the same.
            is_idle_marker = producer_id >= 0 and producer_id not in self._has_data
            self._has_data.discard(producer_id)
            is_dropped = is_idle_marker and bool(attributes & DELETE_HORIZON_BIT) and base_timestamp_ms <= self._now_ms
        elif attributes & TRANSACTIONAL_BIT:
            self._has_data.add(producer_id)
            is_dropped = self._survey.is_aborted(base_offset, producer_id)
        last_offset = base_offset + last_offset_delta
        if (
            is_dropped
            or not record_count
            or (not attributes & CONTROL_BIT and self._is_replaced(base_offset, last_offset))
        ):
            self._keep_empty(batch, header)
            return None
        self.decoded_count += record_count
        if attributes & CONTROL_BIT:
            if is_idle_marker and not attributes & DELETE_HORIZON_BIT:
                return self._rebuild(batch, header, None)
            self._keep(batch, header)
            return None
        if record_count > 1 or attributes & (COMPRESSION_BITS | DELETE_HORIZON_BIT):
            return self._choose(batch, header)
        return self._take_single(batch, header)

    def _take_single(self, batch: bytes, header: _Header) -> Work | None:
        # One plain record, as the coordinator mostly writes: the batch stays as it is or goes.
        records: list[EncodedRecord] = []
        try:
            read_records(batch, HEADER_BYTES, 1, header[0], records)
        except ProtocolError as error:
            raise _uncleanable(batch, error.reason) from error
        offset, key, has_value, _, _, _ = records[0]
        if key is None or offset < self._keys.get(key):
            self._keep_empty(batch, header)
        elif has_value:
            self.kept.append(batch)
        else:
            return self._rebuild(batch, header, (batch, records))
        return None

    def _choose(self, batch: bytes, header: _Header) -> Work:
        """Keep the records that are their keys' last, and tombstones until their horizon."""
        data, at, left = yield from _unpacked(batch)
        base_offset, attributes, _, base_timestamp_ms, _, _, _, record_count = header
        has_horizon = bool(attributes & DELETE_HORIZON_BIT)
        keeps_tombstones = not has_horizon or self._now_ms < base_timestamp_ms
        last_of = self._keys.get
        kept: list[EncodedRecord] = []
        try:
            while left:
                records: list[EncodedRecord] = []
                at = read_records(data, at, min(left, RECORDS_A_SLICE), base_offset, records)
                left -= len(records)
                for record in records:
                    offset, key, has_value, _, _, _ = record
                    if key is not None and offset >= last_of(key) and (has_value or keeps_tombstones):
                        kept.append(record)
                if left:
                    yield None
        except ProtocolError as error:
            raise _uncleanable(batch, error.reason) from error
        if not kept:
            self._keep_empty(batch, header)
        elif not has_horizon and not all(record[2] for record in kept):
            yield from self._rebuild(batch, header, (data, kept))
        elif len(kept) < record_count:
            yield from self._rebuild(batch, header, (data, kept), sets_horizon=False)
        else:
            self._keep(batch, header)

    def _rebuild(
        self,
        batch: bytes,
        header: _Header,
        chosen: tuple[bytes, list[EncodedRecord]] | None,
        *,
        sets_horizon: bool = True,
    ) -> Work:
        """The batch with the chosen records (all when None), and from now on with a delete horizon if so asked."""
        _, attributes, _, base_timestamp_ms, max_timestamp_ms, _, _, record_count = header
        if chosen is None:
            data, at, _ = yield from _unpacked(batch)
            records: list[EncodedRecord] = []
            read_records(data, at, record_count, header[0], records)
        else:
            data, records = chosen
        has_horizon = sets_horizon or bool(attributes & DELETE_HORIZON_BIT)
        new_base_ms = self._now_ms + self._delete_retention_ms if sets_horizon else base_timestamp_ms
        if len(records) < record_count and not attributes & 0x08:
            max_timestamp_ms = max(base_timestamp_ms + record[3] for record in records)
        parts: list[bytes] = []
        for at in range(0, len(records), RECORDS_A_SLICE):
            if at:
                yield None
            parts.append(encode_selected(data, records[at : at + RECORDS_A_SLICE], base_timestamp_ms - new_base_ms))

        def build() -> bytes:
            return batch_with(
                batch,
                b"".join(parts),
                len(records),
                base_timestamp_ms=new_base_ms,
                max_timestamp_ms=max_timestamp_ms,
                has_delete_horizon=has_horizon,
            )

        is_large = attributes & COMPRESSION_BITS and len(batch) >= _LARGE_BATCH_BYTES
        rebuilt: bytes = (yield build) if is_large else build()
        self._keep(rebuilt, _unpack_header(rebuilt))

    def _keep(self, batch: bytes, header: _Header) -> None:
        self.kept.append(batch)
        if header[1] & DELETE_HORIZON_BIT and (self.next_horizon_ms is None or header[3] < self.next_horizon_ms):
            self.next_horizon_ms = header[3]

    def _keep_empty(self, batch: bytes, header: _Header) -> None:
        """Nothing in it stays. The batch itself does where it is a producer's last, or the log's."""
        is_log_end = header[0] + header[2] + 1 == self._end_offset
        if is_log_end or (header[5] >= 0 and self._survey.is_last_of_producer(header, self._producers_since_ms)):
            self.kept.append(empty_batch(batch) if header[7] else batch)


def _unpacked(batch: bytes) -> Generator[Callable[[], Any] | None, Any, tuple[bytes, int, int]]:
    def unpack() -> tuple[bytes, int, int]:
        return plain_records(batch, max_decompressed_bytes=_MAX_PLAIN_BYTES)

    try:
        if batch[22] & COMPRESSION_BITS and len(batch) >= _LARGE_BATCH_BYTES:
            found: tuple[bytes, int, int] = yield unpack
            return found
        return unpack()
    except (ProtocolError, CompressionUnavailableError) as error:
        raise _uncleanable(batch, str(error)) from error


def _control_type(batch: bytes) -> ControlType | None:
    try:
        record = next(iter_records(batch), None)
        marker = None if record is None else parse_control_record(record)
    except (ProtocolError, CompressionUnavailableError) as error:
        raise _uncleanable(batch, str(error)) from error
    return None if marker is None else marker.control_type


def _uncleanable(batch: bytes, reason: str) -> UncleanableBatch:
    return UncleanableBatch(f"cannot compact the batch at offset {LOG_FIELDS.unpack_from(batch)[0]}: {reason}")
