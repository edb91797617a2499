"""The segments of one log, oldest first, and the files they are."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from collections.abc import Sequence

from kshim.storage.log import LogError
from kshim.storage.segments.file_sync import Unsynced
from kshim.storage.segments.index import INDEX_SUFFIXES
from kshim.storage.segments.segment import Owner, Segment
from kshim.storage.segments.segment_replacement import (
    DELETED_SUFFIX,
    SWAP_SUFFIX,
    Replacement,
    finish_leftovers,
    is_segment,
)


class SegmentList:
    """`all` holds the segments, of which the last one, `active`, is appended to.

    `version` changes whenever one is removed or replaced. Of the files of the others few are open: that of the one used
    last, and of those that wait to be synced.
    """

    def __init__(self, path: str, owner: Owner, unsynced: Unsynced) -> None:
        self.path = path
        self.all: list[Segment] = []
        self.active: Segment | None = None
        self.size_bytes = 0
        self.version = 0
        self._owner = owner
        self._calls = owner.calls
        self._unsynced = unsynced
        self._older: Segment | None = None

    def open(self) -> set[str]:
        """List the folder's segments, once what a crash interrupted is finished. Returns the names of all files.

        Raises LogError.
        """
        try:
            sizes = self._sizes()
            if finish_leftovers(self.path, set(sizes), self._owner):
                sizes = self._sizes()
        except FileNotFoundError:
            sizes = {}
        except OSError as error:
            raise LogError(f"cannot list {self.path}: {error.strerror or error}") from error
        for name in sorted(filter(is_segment, sizes)):
            self.all.append(Segment(os.path.join(self.path, name), int(name[:20]), self._owner, sizes[name]))
        self.active = self.all[-1] if self.all else None
        self.recount()
        return set(sizes)

    def _sizes(self) -> dict[str, int]:
        return {entry.name: entry.stat().st_size for entry in os.scandir(self.path)}

    def close(self) -> None:
        """Close all files and forget the segments."""
        for segment in self.all:
            segment.close()
        self.all = []
        self.active = self._older = None
        self.version += 1

    def recount(self) -> None:
        """Count the bytes again."""
        self.size_bytes = sum(segment.size_bytes for segment in self.all)

    def index_of(self, offset: int) -> int:
        """Which segment holds `offset`, which the log holds, or else the first batch behind it; their number: none."""
        active = self.active
        if active is not None and offset >= active.base_offset:  # which most reads are of
            return len(self.all) - (offset < active.end_offset)
        index = bisect_right(self.all, offset, key=_base_offset) - 1
        if index < 0:
            return 0
        return index if offset < self.checked(index).end_offset else index + 1

    def checked(self, index: int) -> Segment:
        """The segment, loaded. Raises LogError, also when it reaches into the next one."""
        segment = self.using(index)
        end_offset = segment.end_offset
        if index + 1 < len(self.all) and end_offset > self.all[index + 1].base_offset:
            following = os.path.basename(self.all[index + 1].path)
            raise LogError(f"{segment.path} ends at offset {end_offset} and overlaps {following}")
        return segment

    def using(self, index: int) -> Segment:
        """The segment, with the file of the older one used before closed."""
        segment = self.all[index]
        if segment is not self.active and segment is not self._older:
            if self._older is not None and not self._unsynced.keeps_open(self._older):
                self._older.close()
            self._older = segment
        return segment

    def roll(self, offset: int) -> Segment:
        """Begin a segment at `offset`. The one before is synced by the next sync, never here. Raises LogError."""
        segment = Segment(os.path.join(self.path, f"{offset:020}.log"), offset, self._owner)
        if self.active is None:
            try:
                with contextlib.suppress(FileExistsError):
                    self._calls.mkdir(self.path)
            except OSError as error:
                raise LogError(f"cannot create {self.path}: {error.strerror or error}") from error
        segment.open()
        if self.active is not None:
            self.active.seal()
            self._unsynced.seal(self.active, offset)
        self.all.append(segment)
        self.active = segment
        self._unsynced.has_names = True
        return segment

    def remove(self, index: int) -> None:
        """Take a segment out. Its files go with the next sync. Raises LogError, with the segment still there."""
        segment = self.all[index]
        self._unsynced.doomed += self._retire(segment)
        del self.all[index]
        self.active = self.all[-1] if self.all else None
        self._unsynced.forget(segment)
        self._unsynced.has_names = True
        self.size_bytes -= segment.size_bytes
        self.version += 1
        if self._older is segment or self._older is self.active:
            self._older = None

    def _retire(self, segment: Segment) -> list[str]:
        """Give a segment's files names that are removed at the next start at the latest. Returns them."""
        doomed = []
        segment.close()
        for suffix in (*INDEX_SUFFIXES, ".log"):
            name = f"{segment.base_offset:020}{suffix}"
            path = segment.path if suffix == ".log" else os.path.join(self.path, name)
            gone = os.path.join(self.path, name + DELETED_SUFFIX)
            try:
                self._calls.rename(path, gone)
                doomed.append(gone)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise LogError(f"cannot remove {path}: {error.strerror or error}") from error
        return doomed

    def begin_replacement(self, old: Sequence[Segment]) -> Replacement:
        """A segment to be filled and to take the place of `old`. Raises LogError."""
        return Replacement(self.path, old, self._owner, self._put)

    def _put(self, old: Sequence[Segment], new: Segment) -> bool:
        if old[0] not in self.all:
            return False
        at = self.all.index(old[0])
        if self.all[at : at + len(old)] != list(old) or old[-1] is self.active:
            return False
        final_path = os.path.join(self.path, f"{new.base_offset:020}.log")
        new.rename(final_path + SWAP_SUFFIX)
        # From here on the new segment counts, on the disk too, whatever fails: the next start would finish the rest.
        self.all[at : at + len(old)] = [new]
        self.version += 1
        self.recount()
        if self._older in old:
            self._older = None
        for segment in old:
            self._unsynced.forget(segment)
        self._unsynced.add(new)  # for its index; new names follow
        for segment in old:
            self._unsynced.doomed += self._retire(segment)
        new.rename(final_path)
        return True


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
