"""A real disk whose syncs are counted and fail, and whose writes fail, for the partition folders it is told."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path

from kshim.storage.os_calls import OsCalls


class UnsafeDisk(OsCalls):
    """`synced` counts by folder name; `unsafe` and `unwritable` are folder names."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._real = OsCalls()
        self.synced: Counter[str] = Counter()
        self.unsafe: set[str] = set()
        self._cut: set[int] = set()
        self.unwritable: dict[str, int] = {}
        """Folder name to errno."""
        self.fdatasync = self._fdatasync
        self.pwrite = self._pwrite

    def _fdatasync(self, descriptor: int) -> None:
        folder = self._folder(descriptor)
        if folder:
            self.synced[folder] += 1
        if folder in self.unsafe:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._real.fdatasync(descriptor)

    def _pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        code = self.unwritable.get(self._folder(descriptor))
        if code is not None:
            half = len(data) // 2
            if code == errno.ENOSPC and half and offset not in self._cut:
                self._cut.add(offset)  # a full disk takes what fits, then nothing
                return self._real.pwrite(descriptor, data[:half], offset)
            raise OSError(code, os.strerror(code))
        return self._real.pwrite(descriptor, data, offset)

    def _folder(self, descriptor: int) -> str:
        """The partition folder that an open file lies in."""
        found = os.fstat(descriptor)
        for path in self._root.glob("*-*/*"):
            if os.path.samestat(found, path.stat()):
                return path.parent.name
        return ""
