"""The operating system as storage uses it: one object of functions, so that a test can hand in a failing disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

_BINARY: int = getattr(os, "O_BINARY", 0)  # Windows would translate line ends


class OsCalls:
    """Blocking calls that raise OSError. Replace an attribute to make one of them fail.

    `pwrite` may write less than it was given; `pread` returns less at the end of the file only.
    """

    def __init__(self) -> None:
        self.open: Callable[[str], int] = _open
        """Open for reading and writing, made if it is not there."""
        self.open_existing: Callable[[str], int] = _open_existing
        """Open for reading and writing; FileNotFoundError if it is not there."""
        self.close: Callable[[int], None] = os.close
        self.dup: Callable[[int], int] = os.dup
        self.pread: Callable[[int, int, int], bytes] = _pread
        """(descriptor, size, offset)"""
        self.pwrite: Callable[[int, bytes, int], int] = _pwrite
        """(descriptor, data, offset)"""
        self.ftruncate: Callable[[int, int], None] = os.ftruncate
        self.fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
        self.rename: Callable[[str, str], None] = os.replace
        self.unlink: Callable[[str], None] = os.unlink
        self.mkdir: Callable[[str], None] = os.mkdir
        self.sync_directory: Callable[[str], None] = _sync_directory
        """Make new, renamed and removed names in a directory survive power loss."""

    def write_whole_file(self, path: str, data: bytes, *, is_private: bool = False) -> None:
        """Replace the file in one step that survives power loss: readers see the old content or the new. OSError.

        A private one only its owner may read, where the system knows owners.
        """
        temporary = path + ".tmp"
        descriptor = self.open(temporary)
        try:
            if is_private and sys.platform != "win32":
                os.fchmod(descriptor, 0o600)
            self.ftruncate(descriptor, 0)
            written = 0
            while written < len(data):
                written += self.pwrite(descriptor, data[written:], written)
            self.fdatasync(descriptor)
        finally:
            self.close(descriptor)
        self.rename(temporary, path)
        self.sync_directory(os.path.dirname(path))


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | _BINARY, 0o644)


def _open_existing(path: str) -> int:
    return os.open(path, os.O_RDWR | _BINARY)


if sys.platform == "win32":

    def _pread(descriptor: int, size: int, offset: int) -> bytes:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)

    def _pwrite(descriptor: int, data: bytes, offset: int) -> int:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.write(descriptor, data)

    def _sync_directory(path: str) -> None:
        """Windows keeps names safe by itself."""

else:
    _pread = os.pread
    _pwrite = os.pwrite

    def _sync_directory(path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
