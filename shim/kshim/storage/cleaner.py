"""Compaction of one log, as a chore: sealed segments are read, filtered and replaced one group after the other.

Loops over records yield every half millisecond; reading, writing and syncing are jobs for a thread. Appends, reads and
rolls may go on meanwhile: nothing of the log changes before `Replacement.finish`. Kafka: Cleaner.doClean.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

from kshim.storage.cleaner_rules import RECORDS_A_SLICE, Filter, KeyMap, Survey
from kshim.storage.log import Log, Replacement, SegmentView

__all__ = ["Cleaned", "clean"]

_HEADERS_A_SLICE = 1024
_WRITE_BYTES = 1 << 20
_MAX_RELATIVE_OFFSET = (1 << 31) - 1


class Cleaned(NamedTuple):
    """What a clean has done. Everything before `clean_offset` now holds each key at most once."""

    clean_offset: int
    bytes_read: int
    bytes_kept: int
    next_horizon_ms: int | None
    """When the first tombstone that stayed may go, in Unix time."""
    first_unstable_offset: int | None
    """Where an open transaction kept the clean from going on."""


def clean(
    log: Log,
    *,
    first_dirty_offset: int,
    before_offset: int,
    now_ms: int,
    delete_retention_ms: int,
    producers_since_ms: int,
    segment_bytes: int,
    key_map_bytes: int,
    drops_tombstones: bool = False,
    may_replace: Callable[[], bool] = lambda: True,
) -> Generator[Callable[[], Any] | None, Any, Cleaned | None]:
    """Compact the sealed segments before `before_offset`, or as far as the keys fit into `key_map_bytes`.

    `now_ms` is Unix time. `drops_tombstones` goes over everything even when nothing is dirty. `may_replace` is asked
    before each change. Returns None when there was nothing to do, or when the log was changed by others meanwhile.
    Raises LogError; UncleanableBatch for a damaged batch.
    """
    segments = log.segments()
    sealed = [segment for segment in segments[:-1] if segment.end_offset <= before_offset and segment.size_bytes]
    end_offset = log.end_offset
    survey = Survey()
    for segment in segments:
        yield from _over(segment, survey.read, _HEADERS_A_SLICE)
    unstable_offset = survey.first_unstable_offset
    keys = KeyMap(survey, key_map_bytes)
    yield from _index(keys, sealed, first_dirty_offset, unstable_offset)
    if keys.latest_offset < 0:
        if not drops_tombstones or not sealed:
            return None
        keys.latest_offset = min(first_dirty_offset, sealed[-1].end_offset) - 1
    filter_ = Filter(
        survey,
        keys,
        now_ms=now_ms,
        delete_retention_ms=delete_retention_ms,
        producers_since_ms=producers_since_ms,
        end_offset=end_offset,
    )
    bytes_read = bytes_kept = 0
    for group in _groups(sealed, keys.latest_offset, segment_bytes):
        kept = yield from _replace(log, group, filter_, keys.latest_offset, may_replace)
        if kept < 0:
            return None
        bytes_read += sum(segment.size_bytes for segment in group)
        bytes_kept += kept
    return Cleaned(keys.latest_offset + 1, bytes_read, bytes_kept, filter_.next_horizon_ms, unstable_offset)


def _index(
    keys: KeyMap, sealed: list[SegmentView], first_dirty_offset: int, unstable_offset: int | None
) -> Generator[Callable[[], Any] | None, Any, None]:
    """Fill the map from the first dirty batch on; up to the first open transaction, or as far as it goes."""
    for segment in sealed:
        if segment.end_offset <= first_dirty_offset:
            continue
        for job in segment.chunks():
            left = RECORDS_A_SLICE
            for batch in _batches((yield job)):
                if _last_offset(batch) < first_dirty_offset:
                    continue
                if keys.is_full or (unstable_offset is not None and _last_offset(batch) >= unstable_offset):
                    return
                more = keys.read(batch)
                if more is not None:
                    yield from more
                left -= 1 + _record_count(batch)
                if left <= 0:
                    left = RECORDS_A_SLICE
                    yield None


def _replace(
    log: Log,
    group: list[SegmentView],
    filter_: Filter,
    latest_offset: int,
    may_replace: Callable[[], bool],
) -> Generator[Callable[[], Any] | None, Any, int]:
    """Write one segment for a group of them. Returns how many bytes it has, or -1 when it was not wanted any more."""
    replacement = log.begin_replacement(group)
    bytes_kept = 0
    is_finished = False
    try:
        for segment in group:
            for job in segment.chunks():
                bytes_kept += yield from _filter(filter_, (yield job), latest_offset, replacement)
        yield replacement.prepare
        is_finished = may_replace() and replacement.finish()
    finally:
        if not is_finished:
            replacement.abandon()
    return bytes_kept if is_finished else -1


def _filter(
    filter_: Filter, chunk: bytes, latest_offset: int, replacement: Replacement
) -> Generator[Callable[[], Any] | None, Any, int]:
    left = RECORDS_A_SLICE
    for batch in _batches(chunk):
        if int.from_bytes(batch[:8], "big") > latest_offset:
            filter_.kept.append(batch)
        else:
            more = filter_.take(batch)
            if more is not None:
                yield from more
        left -= 1 + _record_count(batch)
        if left <= 0:
            left = RECORDS_A_SLICE
            yield None
    kept = b"".join(filter_.kept)
    filter_.kept.clear()
    if kept:
        yield lambda: replacement.write(kept)
    return len(kept)


def _over(
    segment: SegmentView, read: Callable[[bytes], None], batches_a_slice: int
) -> Generator[Callable[[], Any] | None, Any, None]:
    for job in segment.chunks():
        left = batches_a_slice
        for batch in _batches((yield job)):
            read(batch)
            left -= 1
            if not left:
                left = batches_a_slice
                yield None


def _groups(sealed: list[SegmentView], latest_offset: int, segment_bytes: int) -> Iterator[list[SegmentView]]:
    """Neighbours that fit one segment together even if all of them stays. Kafka: Cleaner.groupSegmentsBySize."""
    group: list[SegmentView] = []
    group_bytes = 0
    for segment in sealed:
        if segment.base_offset > latest_offset:
            break
        if group and (
            group_bytes + segment.size_bytes > segment_bytes
            or segment.end_offset - group[0].base_offset > _MAX_RELATIVE_OFFSET
        ):
            yield group
            group, group_bytes = [], 0
        group.append(segment)
        group_bytes += segment.size_bytes
    if group:
        yield group


def _batches(chunk: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(chunk):
        end = at + 12 + int.from_bytes(chunk[at + 8 : at + 12], "big")
        yield chunk[at:end]
        at = end


def _last_offset(batch: bytes) -> int:
    return int.from_bytes(batch[:8], "big") + int.from_bytes(batch[23:27], "big")


def _record_count(batch: bytes) -> int:
    return int.from_bytes(batch[57:61], "big")
