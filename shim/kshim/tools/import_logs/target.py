"""A new data directory in Kafka's layout: a folder a partition, segments named by their first offset.

Indexes are not written: they are rebuilt when the logs are opened.
"""

from __future__ import annotations

import os
import shutil
from typing import BinaryIO, Final

from kshim_protocol.records.scan import Batch

SEGMENT_BYTES: Final = 100 << 20
"""A segment is closed before it becomes longer: Kafka's `offsets.topic.segment.bytes`."""

_UNFINISHED: Final = "kshim-import-unfinished"
_MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1


class TargetError(Exception):
    """The directory is not empty, or cannot be written; `str(error)` is one sentence."""


class Target:
    """The directory: partitions are written aside and appear together at the end, by `finish`; `abandon` removes all."""

    def __init__(self, directory: str) -> None:
        self.path = directory
        self._aside = os.path.join(directory, _UNFINISHED)
        try:
            self._had_directory = os.path.isdir(directory)
            os.makedirs(directory, exist_ok=True)
            entries = sorted(os.listdir(directory))
            if _UNFINISHED in entries:
                raise TargetError(f"{directory} contains an incomplete import: remove it and try again")
            if entries:
                raise TargetError(f"{directory} is not empty ({entries[0]}): the directory must be empty or not exist")
            os.mkdir(self._aside)
        except OSError as error:
            raise _cannot_write(directory, error) from None

    def partition(self, topic: str, partition: int, topic_id: str) -> PartitionWriter:
        """Begin a partition. Raises TargetError."""
        folder = os.path.join(self._aside, f"{topic}-{partition}")
        try:
            os.mkdir(folder)
            with open(os.path.join(folder, "partition.metadata"), "x", encoding="ascii") as file:
                file.write(f"version: 0\ntopic_id: {topic_id}\n")
        except OSError as error:
            raise _cannot_write(folder, error) from None
        return PartitionWriter(folder)

    def write_file(self, name: str, text: str) -> None:
        """A file beside the partitions. Raises TargetError."""
        path = os.path.join(self._aside, name)
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
                _sync(file.fileno())
        except OSError as error:
            raise _cannot_write(path, error) from None

    def finish(self) -> None:
        """Let everything appear at its place. Raises TargetError."""
        try:
            for name in sorted(os.listdir(self._aside)):
                os.rename(os.path.join(self._aside, name), os.path.join(self.path, name))
            os.rmdir(self._aside)
            _sync_directory(self.path)
        except OSError as error:
            raise _cannot_write(self.path, error) from None

    def abandon(self) -> None:
        """Remove what was written so far."""
        shutil.rmtree(self._aside, ignore_errors=True)
        if not self._had_directory:
            shutil.rmtree(self.path, ignore_errors=True)


class PartitionWriter:
    """Appends batches as they are. `close` makes them durable; a log without any gets an empty segment."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._base_offset = 0
        self._size_bytes = 0

    def append(self, batch: Batch) -> None:
        """Write one batch. Raises TargetError."""
        header = batch.header
        is_full = (
            self._size_bytes + len(batch.data) > SEGMENT_BYTES
            or header.last_offset - self._base_offset > _MAX_RELATIVE_OFFSET
        )
        try:
            if self._file is None or is_full:
                self._begin(header.base_offset)
            assert self._file is not None
            self._file.write(batch.data)
        except OSError as error:
            raise _cannot_write(self._folder, error) from None
        self._size_bytes += len(batch.data)

    def close(self, end_offset: int) -> None:
        """End the partition; `end_offset` is where an empty log goes on. Raises TargetError."""
        try:
            if self._file is None:
                self._begin(end_offset)
            self._end()
            _sync_directory(self._folder)
        except OSError as error:
            raise _cannot_write(self._folder, error) from None

    def abandon(self) -> None:
        """Close the file, whatever is in it."""
        if self._file is not None:
            self._file.close()

    def _begin(self, base_offset: int) -> None:
        self._end()
        path = os.path.join(self._folder, f"{base_offset:020d}.log")
        self._file = open(path, "xb", buffering=1 << 20)  # noqa: SIM115 - closed by _end
        self._base_offset = base_offset
        self._size_bytes = 0

    def _end(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            with file:
                file.flush()
                _sync(file.fileno())


def _sync(descriptor: int) -> None:
    os.fsync(descriptor)


def _sync_directory(path: str) -> None:
    if os.name == "nt":
        return  # directories cannot be opened there
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_write(path: str, error: OSError) -> TargetError:
    return TargetError(f"cannot write {error.filename or path}: {error.strerror or error}")
