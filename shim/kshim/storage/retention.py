"""Which segments of a log are too old or too many. Kafka: UnifiedLog.deleteOldSegments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kshim.storage.log import SegmentView


class Expired(NamedTuple):
    """What may go: `segment_count` segments, so that the log begins at `start_offset`."""

    segment_count: int
    start_offset: int


def expired(
    segments: Sequence[SegmentView], *, now_ms: int, retention_ms: int, retention_bytes: int, durable_offset: int
) -> Expired | None:
    """Whole segments from the front: first by time, then by size. None when all stay.

    A segment is too old when its newest record is older than `retention_ms`; one without any timestamp never is, and
    one that compaction has emptied always. Of
    more than `retention_bytes`, the segments go without which at least that much is left. -1 stands for no limit, and
    `now_ms` is Unix time. The active segment, the last one, may be among them: the log begins a new one then. Nothing
    behind `durable_offset` goes.
    """
    count = 0
    if retention_ms >= 0:
        while count < len(segments) and _may_go(segments, count, durable_offset):
            newest_ms = segments[count].max_timestamp_ms
            if segments[count].size_bytes and (newest_ms < 0 or now_ms - newest_ms <= retention_ms):
                break
            count += 1
    if retention_bytes >= 0:
        excess_bytes = sum(segment.size_bytes for segment in segments[count:]) - retention_bytes
        while count < len(segments) and _may_go(segments, count, durable_offset):
            excess_bytes -= segments[count].size_bytes
            if excess_bytes < 0:
                break
            count += 1
    if not count:
        return None
    return Expired(count, segments[count].base_offset if count < len(segments) else segments[-1].end_offset)


def _may_go(segments: Sequence[SegmentView], index: int, durable_offset: int) -> bool:
    segment = segments[index]
    if index == len(segments) - 1 and not segment.size_bytes:
        return False
    return segment.end_offset <= durable_offset
