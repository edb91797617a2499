"""The file of a segment, opened when it is needed. Calls of the system that fail come out as LogError."""

from __future__ import annotations

import contextlib
import errno

from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls


class SegmentFile:
    """`path` and the descriptor behind it, if it is open."""

    def __init__(self, path: str, calls: OsCalls) -> None:
        self.path = path
        self._calls = calls
        self._descriptor = -1

    def open(self) -> None:
        """Open the file, made if it is not there. Raises LogError."""
        if self._descriptor < 0:
            try:
                self._descriptor = self._calls.open(self.path)
            except OSError as error:
                raise self._error("open", error) from error

    def close(self) -> None:
        """Close the file until it is used again."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with contextlib.suppress(OSError):  # it is closed all the same; what must survive was synced
                self._calls.close(descriptor)

    def duplicate(self) -> int:
        """A descriptor of the same open file, which the caller closes; -1 if the file is not open. Raises LogError."""
        try:
            return self._calls.dup(self._descriptor) if self._descriptor >= 0 else -1
        except OSError as error:
            raise self._error("open", error) from error

    def rename(self, path: str) -> None:
        """Take the file to another name. Its index stays where it is. Raises LogError."""
        self.close()  # for Windows, which renames no open file
        try:
            self._calls.rename(self.path, path)
        except OSError as error:
            raise self._error("rename", error) from error
        self.path = path

    def start_anew(self) -> None:
        """Make the file empty, whatever it held. Raises LogError."""
        self.open()
        try:
            self._calls.ftruncate(self._descriptor, 0)
        except OSError as error:
            self.close()
            raise self._error("truncate", error) from error

    def sync(self) -> None:
        """Make the file's content survive power loss. Blocks, in any thread. Raises LogError."""
        self.open()
        try:
            self._calls.fdatasync(self._descriptor)
        except OSError as error:
            raise self._error("sync", error) from error

    def read(self, position: int, size_bytes: int) -> bytes:
        """Bytes of the file. Raises LogError, also when there are fewer."""
        if self._descriptor < 0:
            self.open()
        return self._read_part(self._descriptor, position, size_bytes)

    def _read_part(self, descriptor: int, position: int, size_bytes: int) -> bytes:
        pread = self._calls.pread
        try:
            data = pread(descriptor, size_bytes, position)
            while len(data) < size_bytes:
                more = pread(descriptor, size_bytes - len(data), position + len(data))
                if not more:
                    raise LogError(f"{self.path} ends at byte {position + len(data)}, not {position + size_bytes}")
                data += more
        except OSError as error:
            raise self._error("read", error) from error
        return data

    def _write(self, data: bytes, position: int) -> None:
        while data:  # a full disk accepts a part first, and reports the error next time
            written = self._calls.pwrite(self._descriptor, data, position)
            if written <= 0:
                raise OSError(errno.EIO, "nothing was written")
            data = data[written:]
            position += written

    def _undo(self, position: int) -> None:
        # If the disk refuses this too, the next append overwrites what was left behind, or the next start cuts it off.
        with contextlib.suppress(OSError):
            self._calls.ftruncate(self._descriptor, position)

    def _error(self, verb: str, error: OSError) -> LogError:
        return LogError(f"cannot {verb} {self.path}: {error.strerror or error}")
