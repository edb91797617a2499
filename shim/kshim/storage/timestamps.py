"""Search for timestamps inside batches whose headers are not sufficient."""

from __future__ import annotations

from collections.abc import Iterable

from kshim.storage.log import LogError
from kshim_protocol.frame import ProtocolError
from kshim_protocol.records.compression import CompressionUnavailableError
from kshim_protocol.records.layout import LOG_FIELDS
from kshim_protocol.records.record import iter_timestamps


def first_record_at(batch: bytes, timestamp_ms: int, *, start_offset: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record from `start_offset` on with timestamp >= `timestamp_ms`, or None."""
    for offset, found_ms in _timestamps(batch):
        if found_ms >= timestamp_ms and offset >= start_offset:
            return offset, found_ms
    return None


def first_with_greatest_timestamp(batches: Iterable[bytes], *, start_offset: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record from `start_offset` on with the greatest timestamp from 0 on, or None.

    Batches whose header promises nothing greater are not decoded.
    """
    best: tuple[int, int] | None = None
    for batch in batches:
        promised_ms = LOG_FIELDS.unpack_from(batch)[5]
        if promised_ms < 0 or (best is not None and promised_ms <= best[1]):
            continue
        for offset, found_ms in _timestamps(batch):
            if offset >= start_offset and found_ms >= 0 and (best is None or found_ms > best[1]):
                best = offset, found_ms
    return best


def _timestamps(batch: bytes) -> Iterable[tuple[int, int]]:
    try:
        yield from iter_timestamps(batch)
    except (ProtocolError, CompressionUnavailableError) as error:
        base_offset = LOG_FIELDS.unpack_from(batch)[0]
        raise LogError(f"cannot read the batch at offset {base_offset}: {error}") from error
