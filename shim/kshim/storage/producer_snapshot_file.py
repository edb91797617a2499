"""What the producers of a partition have written, beside its segments, so that a log need not be read for it.

In Kafka's formats: `<offset>.snapshot` holds every producer as it was at that offset, `<segment>.txnindex` the aborted
transactions whose markers are in that segment. A snapshot's CRC says whether it is whole, so it is not synced; what is
in a `.txnindex` is, before the snapshot that counts on it. All of these are written by `ProducerFiles.save` only: what a
segment that was removed or compacted leaves behind stays until then, and is read until then.
Kafka: ProducerStateManager, TransactionIndex, AbortedTxn.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls
from kshim.storage.producer_snapshot import AbortedTransaction, ProducerSnapshot, SavedProducer
from kshim_protocol.records.crc import crc32c

_SNAPSHOT_SUFFIX = ".snapshot"
_TRANSACTION_INDEX_SUFFIX = ".txnindex"

_VERSION = 1
_HEADER = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_ABORTED = struct.Struct(">hqqqq")
_ABORTED_VERSION = 0


class ProducerFiles:
    """The snapshots of one folder."""

    def __init__(self, folder: str, calls: OsCalls) -> None:
        self._folder = folder
        self._calls = calls
        self._offsets: list[int] = []

    def opened(self, names: Iterable[str]) -> None:
        """These are the names of the folder's files."""
        self._offsets = sorted(_offsets_of(names, _SNAPSHOT_SUFFIX))

    def load(self, *, end_offset: int) -> ProducerSnapshot | None:
        """The newest sound snapshot that says nothing of what a log up to `end_offset` does not hold, or None.

        Raises LogError.
        """
        self.forget_beyond(end_offset)  # of records that power loss has taken: others will have their offsets
        for offset in reversed(self._offsets):
            producers = _read_snapshot(self._path(offset, _SNAPSHOT_SUFFIX))
            if producers is not None:
                aborted = self._read_aborted(offset)
                if aborted is not None:
                    return ProducerSnapshot(offset, producers, aborted)
        return None

    def save(self, snapshot: ProducerSnapshot, segments: Sequence[int]) -> Callable[[], None]:
        """Writes a snapshot of what the log holds by now: to be called in any thread, one at a time for a log.

        `segments` are the base offsets of the log's segments, at least one. What is returned blocks and raises LogError.
        """
        older = self._offsets
        self._offsets = sorted({*older[-1:], snapshot.offset})
        doomed = [offset for offset in older if offset not in self._offsets]
        return partial(self._save, snapshot, segments, doomed)

    def forget_beyond(self, end_offset: int) -> None:
        """The log ends there: snapshots of more must never be believed again. Raises LogError."""
        doomed = [offset for offset in self._offsets if offset > end_offset]
        if not doomed:
            return
        try:
            for offset in doomed:
                self._remove(offset, _SNAPSHOT_SUFFIX)
            self._calls.sync_directory(self._folder)
        except OSError as error:
            raise LogError(f"cannot remove a snapshot in {self._folder}: {error.strerror or error}") from error
        self._offsets = [offset for offset in self._offsets if offset <= end_offset]

    def _save(self, snapshot: ProducerSnapshot, segments: Sequence[int], doomed: Iterable[int]) -> None:
        try:
            found = set(_offsets_of(os.listdir(self._folder), _TRANSACTION_INDEX_SUFFIX))
            wanted = _by_segment(snapshot.aborted, segments)
            for base_offset, data in wanted.items():
                path = self._path(base_offset, _TRANSACTION_INDEX_SUFFIX)
                if base_offset not in found or _content(path) != data:
                    self._calls.write_whole_file(path, data)
            _write(self._path(snapshot.offset, _SNAPSHOT_SUFFIX), _packed(snapshot.producers), self._calls)
            for base_offset in found.difference(wanted):
                self._remove(base_offset, _TRANSACTION_INDEX_SUFFIX)
            for offset in doomed:
                self._remove(offset, _SNAPSHOT_SUFFIX)
        except FileNotFoundError:  # the log was deleted meanwhile
            pass
        except OSError as error:
            raise LogError(f"cannot save the producers in {self._folder}: {error.strerror or error}") from error

    def _read_aborted(self, end_offset: int) -> list[AbortedTransaction] | None:
        """Those whose markers lie before `end_offset`; None when a file is damaged."""
        found: dict[int, AbortedTransaction] = {}
        try:
            for base_offset in _offsets_of(os.listdir(self._folder), _TRANSACTION_INDEX_SUFFIX):
                data = _content(self._path(base_offset, _TRANSACTION_INDEX_SUFFIX))
                if len(data) % _ABORTED.size:
                    return None
                for version, *fields in _ABORTED.iter_unpack(data):
                    aborted = AbortedTransaction._make(fields)
                    if version < _ABORTED_VERSION or not aborted.first_offset <= aborted.last_offset:
                        return None
                    if aborted.last_offset < end_offset:
                        found[aborted.last_offset] = aborted
        except OSError:
            return None
        return [found[offset] for offset in sorted(found)]

    def _path(self, offset: int, suffix: str) -> str:
        return os.path.join(self._folder, f"{offset:020}{suffix}")

    def _remove(self, offset: int, suffix: str) -> None:
        with suppress(FileNotFoundError):
            self._calls.unlink(self._path(offset, suffix))


def _offsets_of(names: Iterable[str], suffix: str) -> list[int]:
    return [int(name[:20]) for name in names if name[20:] == suffix and name[:20].isdecimal()]


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _packed(producers: Sequence[SavedProducer]) -> bytes:
    body = b"".join([_COUNT.pack(len(producers)), *(_ENTRY.pack(*producer) for producer in producers)])
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def _read_snapshot(path: str) -> list[SavedProducer] | None:
    try:
        data = _content(path)
    except OSError:
        return None
    if len(data) < _HEADER.size + _COUNT.size:
        return None
    version, crc = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    (count,) = _COUNT.unpack_from(body)
    if version != _VERSION or crc != crc32c(body) or len(body) != _COUNT.size + count * _ENTRY.size:
        return None
    return [SavedProducer._make(entry) for entry in _ENTRY.iter_unpack(body[_COUNT.size :])]


def _by_segment(aborted: Iterable[AbortedTransaction], segments: Sequence[int]) -> dict[int, bytes]:
    parts: dict[int, list[bytes]] = {}
    for transaction in aborted:
        index = bisect_right(segments, transaction.last_offset) - 1
        if index >= 0:
            parts.setdefault(segments[index], []).append(_ABORTED.pack(_ABORTED_VERSION, *transaction))
    return {base_offset: b"".join(data) for base_offset, data in parts.items()}


def _write(path: str, data: bytes, calls: OsCalls) -> None:
    temporary = path + ".tmp"
    descriptor = calls.open(temporary)
    try:
        calls.ftruncate(descriptor, 0)
        written = 0
        while written < len(data):
            written += calls.pwrite(descriptor, data[written:], written)
    finally:
        calls.close(descriptor)
    calls.rename(temporary, path)
