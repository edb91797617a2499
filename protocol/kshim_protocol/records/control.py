"""Control batches: the markers that end a transaction in a partition.

Kafka: ControlRecordType.json keys, EndTxnMarker.json; KIP-98.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class ControlType(IntEnum):
    """What a control record says. Kafka's other types are written by its own quorum only."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    """Ends all that the batch's producer id has open in this partition."""

    control_type: ControlType
    coordinator_epoch: int


def build_end_transaction_batch(
    marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, timestamp_ms: int, base_offset: int = 0
) -> bytes:
    """The control batch of one marker, byte for byte as Kafka 4.4 writes it."""
    record = Record(
        _KEY.pack(0, marker.control_type), _VALUE.pack(0, marker.coordinator_epoch), timestamp_ms=timestamp_ms
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def parse_control_record(record: Record) -> EndTransactionMarker | None:
    """The marker in a control batch's record; None for types that are not ours to read.

    Newer versions may add to the end of key and value. Raises ProtocolError.
    """
    key, value = record.key, record.value
    if key is None or len(key) < _KEY.size:
        raise _malformed(f"{key!r}", "key")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise _malformed(f"version {version}", "key")
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise _malformed(f"{value!r}", "value")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise _malformed(f"version {version}", "value")
    return EndTransactionMarker(ControlType(control_type), coordinator_epoch)


def _malformed(reason: str, field: str) -> ProtocolError:
    return ProtocolError(reason, message="ControlRecord", field=field, offset=0)
