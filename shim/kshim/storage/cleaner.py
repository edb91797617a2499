"""Compaction of one log, as a task: sealed segments are read, filtered and replaced one group after the other.

Loops over records yield every half millisecond; reading, writing and syncing are jobs for a thread. Appends, reads and
rolls may go on meanwhile: nothing of the log changes before `Replacement.finish`. Kafka: Cleaner.doClean.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

from kshim.storage.cleaner_rules import RECORDS_A_SLICE, Filter, KeyMap, Survey
from kshim.storage.log import Log, Replacement, SegmentView
from kshim_protocol.records.layout import fields

_MAX_RELATIVE_OFFSET = (1 << 31) - 1
_KEPT_BYTES = 8 << 20
"""A log of up to this size is read once and kept in memory, not read by each of the three passes."""

_unpack_place = fields("base_offset", "batch_length", "last_offset_delta", "record_count").unpack_from


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
    pieces = _Pieces(keeps=log.size_bytes <= _KEPT_BYTES)
    for segment in segments:
        for piece in pieces.of(segment):
            yield from survey.read((yield from piece.get()))
    unstable_offset = survey.first_unstable_offset
    keys = KeyMap(survey, key_map_bytes)
    yield from _index(keys, pieces, sealed, first_dirty_offset, unstable_offset)
    if keys.latest_offset < 0:
        if not drops_tombstones or not sealed:
            return None
        keys.latest_offset = min(first_dirty_offset, sealed[-1].end_offset) - 1
    yield from keys.mark()
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
        kept = yield from _replace(log, group, pieces, filter_, may_replace)
        if kept < 0:
            return None
        bytes_read += sum(segment.size_bytes for segment in group)
        bytes_kept += kept
    return Cleaned(keys.latest_offset + 1, bytes_read, bytes_kept, filter_.next_horizon_ms, unstable_offset)


def _index(
    keys: KeyMap, pieces: _Pieces, sealed: list[SegmentView], first_dirty_offset: int, unstable_offset: int | None
) -> Generator[Callable[[], Any] | None, Any, None]:
    """Fill the map from the first dirty batch on; up to the first open transaction, or as far as it goes."""
    for segment in sealed:
        if segment.end_offset <= first_dirty_offset:
            continue
        for piece in pieces.of(segment):
            left = RECORDS_A_SLICE
            for batch, _, last_offset, record_count in _batches((yield from piece.get())):
                if last_offset < first_dirty_offset:
                    continue
                if keys.is_full or (unstable_offset is not None and last_offset >= unstable_offset):
                    return
                more = keys.read(batch)
                if more is not None:
                    yield from more
                left -= 4 + record_count
                if left <= 0:
                    left = RECORDS_A_SLICE
                    yield None


def _replace(
    log: Log,
    group: list[SegmentView],
    pieces: _Pieces,
    filter_: Filter,
    may_replace: Callable[[], bool],
) -> Generator[Callable[[], Any] | None, Any, int]:
    """Write one segment for a group of them. Returns how many bytes it has, or -1 when it was not wanted any more."""
    replacement = log.begin_replacement(group)
    bytes_kept = 0
    is_finished = False
    try:
        for segment in group:
            for piece in pieces.of(segment):
                bytes_kept += yield from _filter(filter_, (yield from piece.get()), replacement)
        yield replacement.prepare
        is_finished = may_replace() and replacement.finish()
    finally:
        if not is_finished:
            replacement.abandon()
    return bytes_kept if is_finished else -1


def _filter(filter_: Filter, chunk: bytes, replacement: Replacement) -> Generator[Callable[[], Any] | None, Any, int]:
    left = RECORDS_A_SLICE
    for batch, base_offset, _, _ in _batches(chunk):
        if base_offset > filter_.latest_offset:
            filter_.kept.append(batch)
        else:
            decoded_count = filter_.decoded_count
            more = filter_.take(batch)
            if more is not None:
                yield from more
            if filter_.decoded_count != decoded_count:
                left -= 8 + 3 * (filter_.decoded_count - decoded_count)
        left -= 3
        if left <= 0:
            left = RECORDS_A_SLICE
            yield None
    kept = b"".join(filter_.kept)
    filter_.kept.clear()
    if kept:
        yield lambda: replacement.write(kept)
    return len(kept)


class _Pieces:
    """The batches of segments, read piece by piece."""

    def __init__(self, *, keeps: bool) -> None:
        self._kept: dict[SegmentView, list[_Piece]] | None = {} if keeps else None

    def of(self, segment: SegmentView) -> Iterable[_Piece]:
        """Those of one segment, in order; get each before the next is asked for."""
        if self._kept is None:
            return map(_Piece, segment.chunks())
        kept = self._kept.get(segment)
        if kept is None:
            kept = self._kept[segment] = []
            return self._keep(segment, kept)
        return kept

    def _keep(self, segment: SegmentView, kept: list[_Piece]) -> Iterator[_Piece]:
        for job in segment.chunks():
            piece = _Piece(job)
            kept.append(piece)
            yield piece


class _Piece:
    """Some whole batches, read when they are first needed."""

    def __init__(self, job: Callable[[], bytes]) -> None:
        self._job = job
        self._data: bytes | None = None

    def get(self) -> Generator[Callable[[], Any] | None, Any, bytes]:
        if self._data is None:
            self._data = yield self._job
        return self._data


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


def _batches(chunk: bytes) -> Iterator[tuple[bytes, int, int, int]]:
    """Each batch with its first and last offset and its number of records."""
    at = 0
    while at < len(chunk):
        base_offset, length, last_offset_delta, record_count = _unpack_place(chunk, at)
        end = at + 12 + length
        yield chunk[at:end], base_offset, base_offset + last_offset_delta, record_count
        at = end
