"""The construct description of a batch and its records: the codec of record for what `batch.py` does by hand.

Batches without compression; of others, the header.
"""

from __future__ import annotations

from typing import Any

import construct as c

_NULLABLE_BYTES = c.FocusedSeq(
    "data",
    "size" / c.Rebuild(c.ZigZag, lambda context: -1 if context.data is None else len(context.data)),
    "data" / c.If(c.this.size >= 0, c.Bytes(c.this.size)),
)

RECORD_HEADER = c.Struct("key" / c.PascalString(c.ZigZag, "utf8"), "value" / _NULLABLE_BYTES)

RECORD = c.Prefixed(
    c.ZigZag,
    c.Struct(
        "attributes" / c.Int8sb,
        "timestamp_delta" / c.ZigZag,
        "offset_delta" / c.ZigZag,
        "key" / _NULLABLE_BYTES,
        "value" / _NULLABLE_BYTES,
        "headers" / c.PrefixedArray(c.ZigZag, RECORD_HEADER),
        c.Terminated,
    ),
)

_HEADER_ROWS: tuple[Any, ...] = (
    "base_offset" / c.Int64sb,
    "batch_length" / c.Int32sb,
    "partition_leader_epoch" / c.Int32sb,
    "magic" / c.Const(2, c.Int8sb),
    "crc" / c.Int32ub,
    "attributes" / c.Int16sb,
    "last_offset_delta" / c.Int32sb,
    "base_timestamp_ms" / c.Int64sb,
    "max_timestamp_ms" / c.Int64sb,
    "producer_id" / c.Int64sb,
    "producer_epoch" / c.Int16sb,
    "base_sequence" / c.Int32sb,
    "record_count" / c.Int32sb,
)

HEADER = c.Struct(*_HEADER_ROWS)

BATCH = c.Struct(*_HEADER_ROWS, "records" / c.Array(c.this.record_count, RECORD), c.Terminated)
"""A whole batch whose codec is none."""
