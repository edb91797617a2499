"""The file that a recording is written to."""

from __future__ import annotations

import errno
import os
from os import PathLike, fspath
from typing import Self


class RecordingFile:
    """A new file, for its owner only, as it holds what clients sent. Raises OSError: FileExistsError where it holds something."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(self._descriptor).st_size:
            self.close()
            raise FileExistsError(
                errno.EEXIST, "a recording is written to a new file, and this one is not empty", fspath(path)
            )

    def write(self, data: bytes) -> None:
        """Append all of it; it has reached the kernel then. Raises OSError."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def close(self) -> None:
        """No more is written."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
