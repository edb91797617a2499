"""Batches and logs for the storage tests."""

from __future__ import annotations

from kshim.storage.os_calls import OsCalls
from kshim_protocol.records.batch import build_batch, iter_batches, parse_batch_header
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.record import Record, iter_records


def a_batch(
    *values: bytes | str, timestamp_ms: int = 1_000, compression: Compression = Compression.NONE, pad: int = 0
) -> bytes:
    """One batch with a record for each value, its timestamps rising by one; `pad` adds bytes to each value."""
    return build_batch(
        [
            Record(b"key", (value.encode() if isinstance(value, str) else value) + bytes(pad), (), timestamp_ms + i)
            for i, value in enumerate(values)
        ],
        compression=compression,
    )


def values(data: bytes) -> list[str]:
    """The values of all records in a run of batches."""
    return [
        (record.value or b"").rstrip(b"\0").decode() for batch in iter_batches(data) for record in iter_records(batch)
    ]


def offsets(data: bytes) -> list[int]:
    """The offsets of all records in a run of batches."""
    return [record.offset for batch in iter_batches(data) for record in iter_records(batch)]


def base_offsets(data: bytes) -> list[int]:
    """The base offsets of a run of batches, which is whole."""
    batches = list(iter_batches(data))
    assert b"".join(batches) == data
    return [parse_batch_header(batch).base_offset for batch in batches]


class FailingDisk(OsCalls):
    """A real disk that fails as it is told.

    `free_bytes` is the room left: a write takes what fits, and the next one gets `error`. The calls named in `broken`
    raise `error`.
    """

    __slots__ = ("_real", "broken", "error", "free_bytes", "synced")

    def __init__(self) -> None:
        super().__init__()
        self._real = OsCalls()
        self.free_bytes: int | None = None
        self.error: OSError = OSError(5, "Input/output error")
        self.broken: set[str] = set()
        self.synced: list[str] = []
        self.pwrite = self._pwrite
        self.pread = self._pread
        self.ftruncate = self._ftruncate
        self.fdatasync = self._fdatasync
        self.sync_directory = self._sync_directory
        self.open = self._open
        self.rename = self._rename
        self.unlink = self._unlink

    def _check(self, name: str) -> None:
        if name in self.broken:
            raise self.error

    def _pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        self._check("pwrite")
        if self.free_bytes is not None:
            if not self.free_bytes:
                raise self.error
            data = data[: self.free_bytes]
            self.free_bytes -= len(data)
        return self._real.pwrite(descriptor, data, offset)

    def _pread(self, descriptor: int, size: int, offset: int) -> bytes:
        self._check("pread")
        return self._real.pread(descriptor, size, offset)

    def _ftruncate(self, descriptor: int, size: int) -> None:
        self._check("ftruncate")
        self._real.ftruncate(descriptor, size)

    def _fdatasync(self, descriptor: int) -> None:
        self._check("fdatasync")
        self.synced.append("file")
        self._real.fdatasync(descriptor)

    def _sync_directory(self, path: str) -> None:
        self._check("sync_directory")
        self.synced.append("directory")
        self._real.sync_directory(path)

    def _open(self, path: str) -> int:
        self._check("open")
        return self._real.open(path)

    def _rename(self, old: str, new: str) -> None:
        self._check("rename")
        self._real.rename(old, new)

    def _unlink(self, path: str) -> None:
        self._check("unlink")
        self._real.unlink(path)
