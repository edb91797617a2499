"""Reading a shard's state back from its log: at start-up, after a crash, and when a shard is loaded again.

Rules: offset order; control batches end transactions; unknown record types are skipped and counted.
Source: Kafka's CoordinatorLoaderImpl and GroupCoordinatorShard.replay.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kshim.coordinator.groups.consumer.updates import UPDATE_TYPES, parse_update
from kshim.coordinator.groups.offsets.committed_offsets import Commit, CommittedOffset
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.share.updates import SHARE_UPDATE_TYPES, parse_share_update
from kshim.coordinator.groups.streams.updates import STREAMS_UPDATE_TYPES, parse_streams_update
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.group_metadata import GroupMetadataKey
from kshim_protocol.internal.offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kshim_protocol.internal.records import (
    UnknownKey,
    parse_key,
    parse_value,
    split_offset_commit_key,
    split_offset_commit_value,
)
from kshim_protocol.records.batch import parse_batch_header
from kshim_protocol.records.control import ControlType, parse_control_record
from kshim_protocol.records.layout import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    OVERHEAD_BYTES,
    TRANSACTIONAL_BIT,
    fields,
)
from kshim_protocol.records.record import Record, iter_records
from kshim_protocol.records.varint import decode_varint

_NO_PRODUCER = -1

_unpack_batch = fields("batch_length", "attributes").unpack_from
_unpack_offset = struct.Struct(">q").unpack_from

_HARMLESS_BITS = LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT  # they speak of timestamps, which replay does not look at

# Where key and value stand in a batch of one record follows from its record count, the record's length, its attributes
# and deltas and the key's length; with the first bytes of the key behind them, this much of the batch.
_SHAPE_FROM, _SHAPE_END = HEADER_BYTES - 4, HEADER_BYTES + 9
_MOST_SHAPES = 10_000
_Shape = tuple[int, int]
"""Where key and value begin, the value with its length, whose first byte is odd for a tombstone; (0, 0) for what has to
be read record by record."""

_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT, _GROUP_METADATA = b"\0\0", b"\0\1", b"\0\2"
_KEPT = (_OFFSET_COMMIT, _GROUP_METADATA)
_IN_ORDER = frozenset(
    {
        _LEGACY_OFFSET_COMMIT,
        *(number.to_bytes(2, "big") for number in UPDATE_TYPES | SHARE_UPDATE_TYPES | STREAMS_UPDATE_TYPES),
    }
)
"""Types that say something about what records of other keys are about."""
_SLICE_RECORDS = 512
_SLICE_BYTES = 1 << 16

_Entry = bytes | tuple[int, bytes]
"""A record: the batch it is alone in, or its offset and its value. It is no tombstone."""


class Replay:
    """Brings a shard's log back into the shard, fed with one run of whole batches after the other.

    Records are not decoded as they come: the last value of each key is kept as bytes, and what is left at the end is
    put into the shard. The outcome is that of applying one record after the other. Where order matters between keys,
    around transactions and in groups of the new protocol, which may have been classic before, what has come so far is
    put into the shard first.

    Counts in `shard.skipped` what is of an unknown type. Raises ProtocolError, which names the offset, for what cannot
    be a record of this topic and for values of a version that is not known here, unless a later record of the same key
    replaces them. `feed` and `finish` do their work in slices of less than a millisecond: iterate, give way at each None.
    """

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._live: dict[bytes, _Entry] = {}  # the last record of each key
        self._shapes: dict[bytes, _Shape] = {}
        self._gone: dict[bytes, int] = {}  # group -> offset of its last tombstone
        self._was_classic: set[bytes] = set()  # of those, the groups whose classic record the tombstone ended
        self._touched: dict[bytes, int] = {}  # group -> offset of the last record whose offset was removed again
        self._names: dict[bytes, str] = {}  # so that equal names are one string

    def feed(self, run: bytes) -> Iterator[None]:
        """Take the next whole batches. Raises ProtocolError."""
        live = self._live
        find_shape = self._shapes.get
        at = slice_at = 0
        size_bytes = len(run)
        while at < size_bytes:
            length, attributes = _unpack_batch(run, at)
            end = at + OVERHEAD_BYTES + length
            shape = find_shape(run[at + _SHAPE_FROM : at + _SHAPE_END])
            if shape is None:
                shape = self._learn_shape(run[at:end])
            key_at, value_at = shape
            if value_at and not attributes & ~_HARMLESS_BITS and not run[at + value_at] & 1:
                live[run[at + key_at : at + value_at]] = run[at:end]
            elif attributes & (TRANSACTIONAL_BIT | CONTROL_BIT):
                yield from self.finish()
                _apply_batch(self._shard, run[at:end])
            else:
                yield from self._take_records(run[at:end])
            at = end
            if at - slice_at > _SLICE_BYTES:
                slice_at = at
                yield None

    def _learn_shape(self, batch: bytes) -> _Shape:
        if len(self._shapes) == _MOST_SHAPES:
            self._shapes.clear()
        shape = self._shapes[batch[_SHAPE_FROM:_SHAPE_END]] = _shape(batch)
        return shape

    def _take_records(self, batch: bytes) -> Iterator[None]:
        """The same for any batch outside transactions."""
        live = self._live
        left = _SLICE_RECORDS
        for record in iter_records(batch):
            key = record.key
            kind = b"" if key is None else key[:2]
            if kind not in _KEPT:
                if kind in _IN_ORDER:
                    yield from self.finish()
                _apply(self._shard, record, _NO_PRODUCER)
            else:
                assert key is not None
                if record.value is None:
                    self._forget(key, record.offset)
                else:
                    live[key] = record.offset, record.value
            left -= 1
            if not left:
                left = _SLICE_RECORDS
                yield None

    def _forget(self, key: bytes, offset: int) -> None:
        """A tombstone. An offset's is applied at once, for it also ends what transactions have pending."""
        before = self._live.pop(key, None)
        if key[:2] == _GROUP_METADATA:
            self._gone[key[4:]] = offset
            if before is not None:
                self._was_classic.add(key[4:])
            return
        try:
            group, topic, partition = split_offset_commit_key(key)
            self._shard.forget_offset(self._name(group), self._name(topic), partition)
        except ProtocolError as error:
            raise _at_offset(offset, error) from None
        if before is not None:  # what stays of it is that the group was there
            before_offset = _unpack_offset(before)[0] if isinstance(before, bytes) else before[0]
            self._touched[group] = max(before_offset, self._touched.get(group, before_offset))

    def finish(self) -> Iterator[None]:
        """Put what has come so far into the shard; `feed` may go on afterwards. Raises ProtocolError."""
        live, gone, touched = self._live, self._gone, self._touched
        for group in gone:
            group_id = self._name(group)
            if group in self._was_classic and group_id in self._shard.groups:
                self._shard.end_group(group_id)  # its classic record has replaced what it was, of any kind
            else:
                self._shard.forget_group(group_id)
        left = _SLICE_RECORDS
        for key, entry in live.items():
            if isinstance(entry, bytes):
                offset, value = _unpack_offset(entry)[0], self._value(entry)
            else:
                offset, value = entry
            try:
                self._put(key, value, offset, gone)
            except ProtocolError as error:
                raise _at_offset(offset, error) from None
            left -= 1
            if not left:
                left = _SLICE_RECORDS
                yield None
        for group, offset in touched.items():
            if offset > gone.get(group, -1):
                self._shard.require_group(self._name(group))
        live.clear()
        gone.clear()
        self._was_classic.clear()
        touched.clear()

    def _value(self, batch: bytes) -> bytes:
        """The value in a batch that was kept whole."""
        value_at = (self._shapes.get(batch[_SHAPE_FROM:_SHAPE_END]) or self._learn_shape(batch))[1]
        if (byte := batch[value_at]) < 0x80:
            return batch[value_at + 1 : value_at + 1 + (byte >> 1)]
        size_bytes, start = decode_varint(batch, value_at)
        return batch[start : start + size_bytes]

    def _put(self, key: bytes, value: bytes, offset: int, gone: dict[bytes, int]) -> None:
        if key[1] == 1:
            self._put_offset(key, value, offset, gone)
        else:
            group_key = parse_key(key)
            assert isinstance(group_key, GroupMetadataKey)
            self._shard.put_group(group_key.group, parse_value(group_key, value))

    def _put_offset(self, key: bytes, value: bytes, record_offset: int, gone: dict[bytes, int]) -> None:
        group_bytes, topic_bytes, partition = split_offset_commit_key(key)
        position, commit_ms, expire_ms, topic_id = split_offset_commit_value(value)
        group, topic = self._name(group_bytes), self._name(topic_bytes)
        committed = CommittedOffset(position, Commit(commit_ms, expire_ms, topic_id), record_offset)
        if record_offset > gone.get(group_bytes, -1):
            self._shard.put_offset(group, topic, partition, committed)
        else:  # the group was forgotten since
            self._shard.offsets.put(group, topic, partition, committed)

    def _name(self, name: bytes) -> str:
        found = self._names.get(name)
        if found is None:
            try:
                found = self._names[name] = name.decode()
            except UnicodeDecodeError as error:
                raise ProtocolError(str(error), message="OffsetsRecord", field="key", offset=0) from None
        return found


def _shape(batch: bytes) -> _Shape:
    """Of any other batch than one of a single record with deltas of zero and a key of a kept type: (0, 0)."""
    try:
        size_bytes, at = decode_varint(batch, HEADER_BYTES)
        end = at + size_bytes
        key_bytes, key_at = decode_varint(batch, at + 3)
        value_at = key_at + key_bytes
        is_plain = batch[at : at + 3] == b"\0\0\0" and key_bytes >= 2 and batch[key_at : key_at + 2] in _KEPT
        if is_plain and int.from_bytes(batch[57:61], "big") == 1 and key_at + 2 <= _SHAPE_END and value_at < end:
            return key_at, value_at
    except (IndexError, ProtocolError):
        pass
    return 0, 0


# One record after the other


def _apply_batch(shard: Shard, batch: bytes) -> None:
    header = parse_batch_header(batch)
    if header.is_control:
        for record in iter_records(batch):
            _end_transaction(shard, header.producer_id, record)
        return
    producer_id = header.producer_id if header.is_transactional else _NO_PRODUCER
    for record in iter_records(batch):
        _apply(shard, record, producer_id)


def _apply(shard: Shard, record: Record, producer_id: int) -> None:
    try:
        unknown = _apply_known(shard, record, producer_id)
    except ProtocolError as error:
        raise _at_offset(record.offset, error) from None
    if unknown is not None:
        shard.skipped[unknown] = shard.skipped.get(unknown, 0) + 1


def _at_offset(offset: int, error: ProtocolError) -> ProtocolError:
    return ProtocolError(
        error.reason,
        message=f"offset {offset}: {error.message}",
        version=error.version,
        field=error.field,
        offset=error.offset,
    )


def _end_transaction(shard: Shard, producer_id: int, record: Record) -> None:
    marker = parse_control_record(record)
    if marker is None:
        return
    match marker.control_type:
        case ControlType.COMMIT:
            shard.offsets.commit_transaction(producer_id)
        case ControlType.ABORT:
            shard.offsets.abort_transaction(producer_id)


def _apply_known(shard: Shard, record: Record, producer_id: int) -> int | None:
    """Apply one record; returns its key type when that is not known."""
    if record.key is None:
        raise ProtocolError("no key", message="OffsetsRecord", field="key", offset=0)
    if (found := parse_update(record.key, record.value)) is not None:
        shard.apply_update(*found)
        return None
    if (share := parse_share_update(record.key, record.value)) is not None:
        shard.apply_share_update(*share)
        return None
    if (streams := parse_streams_update(record.key, record.value)) is not None:
        shard.apply_streams_update(*streams)
        return None
    key = parse_key(record.key)
    match key:
        case UnknownKey():
            return key.type
        case GroupMetadataKey():
            if record.value is None:
                shard.forget_group(key.group)
            else:
                shard.put_group(key.group, parse_value(key, record.value))
        case OffsetCommitKey() | LegacyOffsetCommitKey():
            if record.value is None:
                shard.forget_offset(key.group, key.topic, key.partition)
            else:
                offset = _committed(parse_value(key, record.value), record.offset)
                _put_offset(shard, key, offset, producer_id)
    return None


def _put_offset(
    shard: Shard, key: OffsetCommitKey | LegacyOffsetCommitKey, offset: CommittedOffset, producer_id: int
) -> None:
    if producer_id == _NO_PRODUCER:
        shard.put_offset(key.group, key.topic, key.partition, offset)
    else:
        shard.put_pending_offset(producer_id, key.group, key.topic, key.partition, offset)


def _committed(value: OffsetCommitValue | LegacyOffsetCommitValue, record_offset: int) -> CommittedOffset:
    if isinstance(value, LegacyOffsetCommitValue):
        return CommittedOffset.of(value.offset, -1, value.metadata, value.commit_timestamp, record_offset)
    return CommittedOffset.of(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        record_offset,
        value.expire_timestamp,
        value.topic_id,
    )
