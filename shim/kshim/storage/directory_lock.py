"""One process at a time uses a data directory."""

from __future__ import annotations

import os
import sys

from kshim.storage.log import LogError


class DirectoryLocked(LogError):
    """Another process uses the folder."""


class DirectoryLock:
    """An exclusive lock on a file, which ends with the process in any case. The file contains the process id.

    Raises DirectoryLocked; OSError when the file cannot be made.
    """

    def __init__(self, path: str) -> None:
        self._file = open(path, "a+b")  # noqa: SIM115 - open as long as the lock is held
        try:
            _lock_file(self._file.fileno())
        except OSError as error:
            self._file.seek(0)
            owner = self._file.read(20).decode(errors="replace").strip()
            self._file.close()
            who = f"process {owner}" if owner else "another process"
            raise DirectoryLocked(f"{os.path.dirname(path)} is in use by {who}") from error
        self._file.truncate(0)
        self._file.write(b"%d\n" % os.getpid())
        self._file.flush()

    def release(self) -> None:
        """Unlock; nothing when it is done already."""
        self._file.close()


if sys.platform == "win32":

    def _lock_file(descriptor: int) -> None:
        import msvcrt

        os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # far behind the process id, which others must be able to read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:

    def _lock_file(descriptor: int) -> None:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
