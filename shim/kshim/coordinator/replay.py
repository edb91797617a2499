"""Reading a shard's state back from its log: at start-up, after a crash, and when a shard is loaded again.

Rules: offset order; control batches end transactions; unknown record types are skipped and counted.
Source: Kafka's CoordinatorLoaderImpl and GroupCoordinatorShard.replay.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshim.coordinator.offsets import CommittedOffset
from kshim.coordinator.shard import Shard
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.group_metadata import GroupMetadataKey
from kshim_protocol.internal.offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kshim_protocol.internal.records import UnknownKey, parse_key, parse_value
from kshim_protocol.records.batch import Record, iter_records, parse_batch_header
from kshim_protocol.records.control import ControlType, parse_control_record

__all__ = ["replay"]

_NO_PRODUCER = -1


def replay(shard: Shard, batches: Iterable[bytes]) -> None:
    """Apply whole batches in offset order; counts in `shard.skipped` what is of an unknown type.

    Raises ProtocolError, which names the offset, for what cannot be a record of this topic and for values of a version
    that is not known here.
    """
    for batch in batches:
        header = parse_batch_header(batch)
        if header.is_control:
            for record in iter_records(batch):
                _end_transaction(shard, header.producer_id, record)
            continue
        producer_id = header.producer_id if header.is_transactional else _NO_PRODUCER
        for record in iter_records(batch):
            try:
                unknown = _apply(shard, record, producer_id)
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


def _apply(shard: Shard, record: Record, producer_id: int) -> int | None:
    """Apply one record; returns its key type when that is not known."""
    if record.key is None:
        raise ProtocolError("no key", message="OffsetsRecord", field="key", offset=0)
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
        return CommittedOffset(value.offset, -1, value.metadata, value.commit_timestamp, record_offset=record_offset)
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
        record_offset,
    )
