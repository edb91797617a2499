"""Making a log in files survive power loss, off the loop: what waits for it, and one sync at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.storage.os_calls import OsCalls
    from kshim.storage.segments.index import IndexEntries
    from kshim.storage.segments.segment import Segment


_MOST_OPEN = 4


class FileSync:
    """One sync of one log: `segments`, oldest first, then the names in `folders`, then the indexes of the segments.

    Everything `run` touches is its own: descriptors are duplicates, so that the log may append, roll, or close meanwhile.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        folders: tuple[str, ...],
        doomed: list[str],
        *,
        end_offset: int,
        calls: OsCalls,
        outcome: Callable[[FileSync, LogError | None], None],
    ) -> None:
        self.segments = segments
        self.folders = folders
        self.end_offset = end_offset
        self._calls = calls
        self._doomed = doomed
        self._outcome = outcome
        self._is_void = False
        self._lock = Lock()
        self._descriptors: list[tuple[str, int]] = []
        self._indexes: list[tuple[Segment, IndexEntries]] = []
        try:
            for segment in segments:
                self._descriptors.append((segment.path, segment.duplicate()))
                entries = segment.index.unwritten()
                if entries is not None and (entries.offsets or entries.times or segment.is_sealed):
                    self._indexes.append((segment, entries))
        except BaseException:
            self._close()
            raise

    def run(self) -> None:
        """Sync; blocks, in any thread, once. Raises LogError, after which nothing is known of what is on the disk."""
        try:
            for path, descriptor in self._descriptors:
                try:
                    if descriptor >= 0:
                        self._calls.fdatasync(descriptor)
                    else:
                        self._sync_closed(path)
                except OSError as error:
                    raise LogError(f"cannot sync {path}: {error.strerror or error}") from error
            for folder in self.folders:
                try:
                    self._calls.sync_directory(folder)
                except FileNotFoundError:  # the log was deleted since
                    break
                except OSError as error:
                    raise LogError(f"cannot sync {folder}: {error.strerror or error}") from error
        finally:
            self._close()
        self._write_indexes()
        for path in self._doomed:
            with contextlib.suppress(OSError):  # what cannot be removed now goes at the next start
                self._calls.unlink(path)

    def _write_indexes(self) -> None:
        """An index is no more than a help: when it cannot be written, the next sync tries again."""
        for pair in list(self._indexes):
            segment, entries = pair
            with self._lock:
                if self._is_void or pair not in self._indexes:
                    continue
                try:
                    segment.index.write(entries)
                except OSError:
                    self._indexes.remove(pair)

    def finish(self) -> None:
        """`run` has returned. On the loop."""
        if not self._is_void:
            for segment, entries in self._indexes:
                segment.index.note_written(entries)
        self._outcome(self, None)

    def failed(self, error: LogError) -> None:
        """`run` has raised `error`. On the loop."""
        self._outcome(self, error)

    def void(self) -> None:
        """The log was cut meanwhile: what was synced says nothing of what it holds now."""
        with self._lock:
            self._is_void = True
            for segment, _ in self._indexes:  # some may be written already, and are not noted
                segment.index.is_in_files = False

    def leave_index(self, segment: Segment) -> None:
        """The segment is no longer part of the log: write nothing under its name."""
        with self._lock:
            self._indexes = [pair for pair in self._indexes if pair[0] is not segment]

    @property
    def is_void(self) -> bool:
        """Whether its outcome no longer matters."""
        return self._is_void

    def _sync_closed(self, path: str) -> None:
        try:
            descriptor = self._calls.open_existing(path)
        except FileNotFoundError:  # removed since, and so nothing that must survive
            return
        try:
            self._calls.fdatasync(descriptor)
        finally:
            self._calls.close(descriptor)

    def _close(self) -> None:
        for _, descriptor in self._descriptors:
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    self._calls.close(descriptor)
        self._descriptors = []


class Unsynced:
    """What of one log waits to be synced, and the sync under way.

    `durable_offset`: everything before it survives power loss. The active segment waits whenever the log reaches beyond
    `begun_offset`, or `is_cut`.
    """

    def __init__(self, path: str, calls: OsCalls) -> None:
        self._path = path
        self._calls = calls
        self.failure: str | None = None
        self.reset(0)

    def reset(self, durable_offset: int) -> None:
        """Nothing waits. A failure is not forgotten."""
        self.durable_offset = self.begun_offset = durable_offset
        self.sealed: list[Segment] = []
        self.doomed: list[str] = []
        self.has_names = False
        self.is_cut = False
        self.current: FileSync | None = None

    def seal(self, segment: Segment, end_offset: int) -> None:
        """A new segment begins behind `segment`."""
        if self.has_active(end_offset) or segment.index.unwritten() is not None:
            # It stays open, because an error might not be reported to a descriptor that is opened later.
            self.sealed.append(segment)
            if len(self.sealed) > _MOST_OPEN:
                self.sealed[-1 - _MOST_OPEN].close()
            self.begun_offset = end_offset
            self.is_cut = False
        elif not self.keeps_open(segment):
            segment.close()

    def keeps_open(self, segment: Segment) -> bool:
        """Whether the file must not be closed yet."""
        return segment in self.sealed[-_MOST_OPEN:]

    def add(self, segment: Segment) -> None:
        """There is a new segment among the sealed ones; its data is synced, but neither its name nor its index."""
        self.sealed.append(segment)
        self.has_names = True

    def forget(self, segment: Segment) -> None:
        """The segment is no longer part of the log, or is the active one again."""
        if segment in self.sealed:
            self.sealed.remove(segment)
        if self.current is not None:
            self.current.leave_index(segment)

    def cut(self, end_offset: int) -> None:
        """The log ends at `end_offset` now, and must be synced."""
        self.durable_offset = min(self.durable_offset, end_offset)
        self.begun_offset = min(self.begun_offset, end_offset)
        self.is_cut = True

    def has_active(self, end_offset: int) -> bool:
        """Whether the active segment of a log that ends at `end_offset` waits."""
        return end_offset > self.begun_offset or self.is_cut

    def begin(self, active: Segment | None, end_offset: int) -> FileSync | None:
        """Begin to sync all that waits; None when there is nothing, while a sync is under way, after a failure."""
        if self.current is not None or self.failure is not None:
            return None
        segments = list(self.sealed)
        if active is not None and self.has_active(end_offset):
            segments.append(active)
        if not segments and not self.has_names and not self.doomed:
            return None
        sync = FileSync(
            segments,
            (self._path, os.path.dirname(self._path)) if self.has_names else (),
            self.doomed,
            end_offset=end_offset,
            calls=self._calls,
            outcome=self._ended,
        )
        self.current = sync
        self.sealed = []
        self.doomed = []
        self.has_names = self.is_cut = False
        self.begun_offset = end_offset
        return sync

    def _ended(self, sync: FileSync, error: LogError | None) -> None:
        if sync is self.current:
            self.current = None
        elif not sync.is_void:  # of a log that was closed since
            return
        if error is not None:  # also of a void one: the pages it could not write may still be part of the log
            self.failure = str(error)
        elif not sync.is_void and sync.end_offset > self.durable_offset:
            self.durable_offset = sync.end_offset

    def take_back(self, segments: Sequence[Segment]) -> None:
        """What is being synced counts as unsynced again, whatever becomes of that sync. `segments`: the log's."""
        sync, self.current = self.current, None
        if sync is None:
            return
        sync.void()
        again = (*sync.segments, *self.sealed)
        self.sealed = [segment for segment in segments[:-1] if segment in again]
        self.is_cut |= bool(segments) and segments[-1] in sync.segments
        self.has_names |= bool(sync.folders)
        self.begun_offset = self.durable_offset
