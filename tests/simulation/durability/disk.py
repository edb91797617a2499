"""A real directory on a disk that can lose power: it knows of every file what a sync has made safe.

What was written since is kept as a list of changes. A power loss keeps a beginning of that list and perhaps a part of the
next change, each file for itself. A sync that fails forgets the list: the pages count as written though they are not, and
no later sync will write them, until they are written to again. So do Linux and most others.

Kinder than a real disk: names (new, renamed and removed files) are safe at once, which is left to the tests of storage; and
what a failed sync has left behind is written after all when the process dies before it has repaired its log.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from random import Random

from kshim.storage.os_calls import OsCalls

_Change = tuple[int, bytes | None]
"""Bytes at a position, or (None) the length to cut to."""


class _File:
    __slots__ = ("changes", "forgotten", "safe")

    def __init__(self, safe: bytes) -> None:
        self.safe = bytearray(safe)
        self.changes: list[_Change] = []
        self.forgotten: list[_Change] = []

    def apply(self, change: _Change) -> None:
        position, data = change
        if data is None:
            del self.safe[position:]
            self.safe.extend(bytes(position - len(self.safe)))
            return
        self.safe.extend(bytes(max(position - len(self.safe), 0)))
        self.safe[position : position + len(data)] = data


class SimulatedDisk(OsCalls):
    """`bad_syncs` and `bad_writes` name the partition folders for which these fail."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._real = OsCalls()
        self._root = root
        self._files: dict[str, _File] = {}
        self._open: dict[int, str] = {}
        self.bad_syncs: set[str] = set()
        self.bad_writes: set[str] = set()
        self.open = self._opened
        self.open_existing = self._opened_existing
        self.close = self._closed
        self.dup = self._duplicated
        self.pwrite = self._written
        self.ftruncate = self._cut
        self.fdatasync = self._synced
        self.rename = self._renamed
        self.unlink = self._unlinked

    # What may happen to it

    def end_process(self) -> None:
        """The kernel closes what the process had open."""
        for file in self._files.values():
            file.changes[:0] = file.forgotten
            file.forgotten.clear()
        for descriptor in list(self._open):
            with contextlib.suppress(OSError):
                self._closed(descriptor)

    def lose_power(self, rng: Random) -> None:
        """Leave of each file what was safe, and what the disk happened to get to."""
        for path, file in self._files.items():
            if not os.path.exists(path):
                continue
            kept = rng.randint(0, len(file.changes))
            for change in file.changes[:kept]:
                file.apply(change)
            position, data = file.changes[kept] if kept < len(file.changes) else (0, b"")
            if data:
                file.apply((position, data[: rng.randint(0, len(data))]))
            file.changes.clear()
            Path(path).write_bytes(file.safe)

    # The calls

    def _opened(self, path: str) -> int:
        return self._known(path, self._real.open(path))

    def _opened_existing(self, path: str) -> int:
        return self._known(path, self._real.open_existing(path))

    def _known(self, path: str, descriptor: int) -> int:
        self._open[descriptor] = path
        if path not in self._files:
            self._files[path] = _File(Path(path).read_bytes())
        return descriptor

    def _closed(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)
        self._real.close(descriptor)

    def _duplicated(self, descriptor: int) -> int:
        copy = self._real.dup(descriptor)
        self._open[copy] = self._open[descriptor]
        return copy

    def _written(self, descriptor: int, data: bytes, offset: int) -> int:
        path = self._open[descriptor]
        if self._folder(path) in self.bad_writes:
            if len(data) < 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[: len(data) // 2]  # it fills up: a part, then less, then nothing
        written = self._real.pwrite(descriptor, data, offset)
        self._files[path].changes.append((offset, bytes(data[:written])))
        return written

    def _cut(self, descriptor: int, size: int) -> None:
        self._real.ftruncate(descriptor, size)
        self._files[self._open[descriptor]].changes.append((size, None))

    def _synced(self, descriptor: int) -> None:
        path = self._open[descriptor]
        file = self._files[path]
        changes, file.changes = file.changes, []
        if self._folder(path) in self.bad_syncs:
            file.forgotten += changes
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        file.forgotten.clear()
        for change in changes:
            file.apply(change)

    def _renamed(self, old: str, new: str) -> None:
        self._real.rename(old, new)
        if old in self._files:
            self._files[new] = self._files.pop(old)

    def _unlinked(self, path: str) -> None:
        self._real.unlink(path)
        self._files.pop(path, None)

    def _folder(self, path: str) -> str:
        parent = Path(path).parent
        return "" if parent == self._root else parent.name
