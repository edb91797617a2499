"""Where the fields of a record batch stand: the one place that knows offsets, widths and bits of format 2.

Kafka: DefaultRecordBatch; KIP-98, KIP-32.
"""

from __future__ import annotations

import struct
from typing import Final

FIELDS: Final = {
    "base_offset": "q",
    "batch_length": "i",
    "partition_leader_epoch": "i",
    "magic": "b",
    "crc": "I",
    "attributes": "h",
    "last_offset_delta": "i",
    "base_timestamp": "q",
    "max_timestamp": "q",
    "producer_id": "q",
    "producer_epoch": "h",
    "base_sequence": "i",
    "record_count": "i",
}
"""The header in wire order, with the format of each field in `struct`."""


def offset_of(field: str) -> int:
    """Where a field begins, in bytes from the beginning of its batch."""
    before = list(FIELDS)[: list(FIELDS).index(field)]
    return struct.calcsize(">" + "".join(FIELDS[name] for name in before))


def fields(*names: str) -> struct.Struct:
    """What reads these fields of a header, given in wire order, at once.

    >>> fields("batch_length", "record_count").format
    '>8xi45xi'
    """
    parts, at = [">"], 0
    for name in names:
        gap = offset_of(name) - at
        parts.append(f"{gap}x{FIELDS[name]}" if gap else FIELDS[name])
        at += gap + struct.calcsize(f">{FIELDS[name]}")
    return struct.Struct("".join(parts))


def run_of(first: str, last: str) -> struct.Struct:
    """What reads or packs the fields from `first` to `last`, which follow each other.

    >>> run_of("attributes", "base_timestamp").format
    '>hiq'
    """
    names = list(FIELDS)
    return struct.Struct(">" + "".join(FIELDS[name] for name in names[names.index(first) : names.index(last) + 1]))


HEADER_BYTES: Final = struct.calcsize(">" + "".join(FIELDS.values()))
"""Size of a batch's header; the records follow."""
LENGTH_AT: Final = offset_of("batch_length")
OVERHEAD_BYTES: Final = offset_of("partition_leader_epoch")
"""Base offset and batch length, which the batch length does not count."""
MIN_BATCH_LENGTH: Final = HEADER_BYTES - OVERHEAD_BYTES
"""The batch length of a header without records."""
MAGIC_AT: Final = offset_of("magic")
CRC_AT: Final = offset_of("crc")
ATTRIBUTES_AT: Final = offset_of("attributes")
"""The CRC covers everything from here on."""
MAX_TIMESTAMP_AT: Final = offset_of("max_timestamp")
PRODUCER_ID_AT: Final = offset_of("producer_id")
"""From 0x80 on, its first byte says that there is no producer id."""
COUNT_AT: Final = offset_of("record_count")

COMPRESSION_BITS: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

MIN_RECORD_BYTES: Final = 7
"""A record without key, value and headers."""

LOG_FIELDS: Final = fields(
    "base_offset", "batch_length", "partition_leader_epoch", "magic", "last_offset_delta", "max_timestamp"
)
"""What a log needs of a header, for its inner loops."""
