"""The file of a recording: entries in checked blocks. No clock and no I/O; `docs/testing/recording.md` has the format."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import IO, Any, Final, NamedTuple

from kshim.coordinator.step import Now

MAGIC: Final = b"kshimrec"
VERSION: Final = 1
HEADER: Final = Struct(">8sH")
BLOCK: Final = Struct(">II")
"""In front of each block: its compressed size and the CRC-32 of that."""
MAX_BLOCK_BYTES: Final = 256 << 20
"""No block holds more, compressed or not: a larger one is damaged."""
_LEVEL: Final = 1


class RecordingError(Exception):
    """This is no recording, or one of a version that cannot be read. `str(error)` is a sentence."""


class Kind(IntEnum):
    """What an entry says. `subject` and `payload` of an `Entry` depend on it. Numbers are never given twice."""

    START = 1
    """The broker as it began: JSON. Always the first entry."""
    STORED = 2
    """Batches that a partition held at the start. Subject: its place in `partitions` of START; payload: whole batches."""
    NODES = 3
    """Where the nodes can be reached: JSON, {node id: {listener: [host, port]}}."""
    CONNECTED = 4
    """A connection's first request is next. Subject: the connection; payload: JSON."""
    PRINCIPAL = 5
    """A connection has authenticated as somebody else. Subject: the connection; payload: JSON."""
    REQUEST = 6
    """A request, the next number from 1 on. Subject: the connection; payload: the frame without its size."""
    HIDDEN_REQUEST = 7
    """As REQUEST, with a frame that is not written: it holds a secret, or is too long. Payload: JSON."""
    DRAWN = 8
    """A random value was drawn. Subject: 0 a member id's suffix, 1 a topic id; payload: the value."""
    ANSWER = 9
    """Subject: the request's number; payload: the frame without its size."""
    NO_ANSWER = 10
    """The request ended without an answer (acks=0). Subject: its number."""
    HIDDEN_ANSWER = 11
    """As ANSWER, with a frame that is not written. Payload: JSON."""
    REFUSED = 12
    """The request was not answered, and its connection closed. Subject: its number; payload: why, as text."""
    DISCONNECTED = 13
    """Subject: the connection."""
    GROUP_TIMERS = 14
    """Timers of the group clock that were due fired."""
    FETCH_TIMERS = 15
    """Waiting Fetches whose time was over were answered."""
    FAULT = 16
    """An injected fault fired. Subject: the number of the last request before it; payload: JSON."""
    OPERATION = 17
    """Something that no client asked for: JSON, `what` and its arguments."""
    END = 18
    """The recording was closed; nothing follows. Payload: JSON."""


class Entry(NamedTuple):
    """One entry. `now` and `real_ms` are when it happened, on the group clock (with wall time) and the real clock."""

    kind: int
    now: Now
    real_ms: int
    subject: int = 0
    payload: bytes = b""

    @property
    def fields(self) -> dict[str, Any]:
        """The payload of an entry that is JSON."""
        found: dict[str, Any] = json.loads(self.payload)
        return found


def as_json(fields: dict[str, Any]) -> bytes:
    """The payload of an entry that is JSON."""
    return json.dumps(fields, separators=(",", ":")).encode()


class Encoder:
    """Entries in, blocks out. `pending_bytes` counts what the next block will hold, uncompressed."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._mono_ms = self._wall_ms = self._real_ms = 0
        self._compress = zlib.compressobj(_LEVEL)

    @staticmethod
    def header() -> bytes:
        """What the file begins with."""
        return HEADER.pack(MAGIC, VERSION)

    @property
    def pending_bytes(self) -> int:
        """Bytes of entries that are in no block yet."""
        return len(self._pending)

    def add(self, kind: int, now: Now, real_ms: int, subject: int = 0, payload: bytes = b"") -> None:
        """Put an entry behind those before."""
        out = self._pending
        mono_ms, wall_ms = now
        moved_ms = mono_ms - self._mono_ms
        wall_moved_ms = wall_ms - self._wall_ms - moved_ms
        real_moved_ms = real_ms - self._real_ms - moved_ms
        self._mono_ms, self._wall_ms, self._real_ms = mono_ms, wall_ms, real_ms
        moved = (moved_ms << 1) ^ (moved_ms >> 63)
        wall_moved = (wall_moved_ms << 1) ^ (wall_moved_ms >> 63)
        real_moved = (real_moved_ms << 1) ^ (real_moved_ms >> 63)
        size = len(payload)
        out.append(kind)
        if (moved | wall_moved | real_moved) < 0x80:
            out.append(moved)
            out.append(wall_moved)
            out.append(real_moved)
        else:
            _put_varint(out, moved)
            _put_varint(out, wall_moved)
            _put_varint(out, real_moved)
        if subject < 0x80:
            out.append(subject)
        else:
            _put_varint(out, subject)
        if size < 0x80:
            out.append(size)
        else:
            _put_varint(out, size)
        out += payload

    def block(self) -> bytes:
        """The block of what is pending; b"" when nothing is."""
        if not self._pending:
            return b""
        data = self._compress.compress(self._pending) + self._compress.flush(zlib.Z_SYNC_FLUSH)
        self._pending.clear()
        return BLOCK.pack(len(data), zlib.crc32(data)) + data


class Reader:
    """Reads the entries of a recording. What a crash has cut off, or is damaged, ends it: `damage` says so then.

    `is_ended` is True once END was read. Raises RecordingError for a file that is no recording.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.damage: str | None = None
        self.is_ended = False
        header = file.read(HEADER.size)
        if len(header) < HEADER.size or header[:8] != MAGIC:
            raise RecordingError("this is not a recording of kshim")
        version = HEADER.unpack(header)[1]
        if version != VERSION:
            raise RecordingError(
                f"this recording has version {version} of the format; this kshim reads version {VERSION}"
            )

    def __iter__(self) -> Iterator[Entry]:
        mono_ms = wall_ms = real_ms = 0
        for data in self._blocks():
            at = 0
            try:
                while at < len(data):
                    kind = data[at]
                    moved, at = _varint(data, at + 1)
                    wall_moved, at = _varint(data, at)
                    real_moved, at = _varint(data, at)
                    subject, at = _varint(data, at)
                    size, at = _varint(data, at)
                    if at + size > len(data):
                        raise IndexError
                    moved = moved >> 1 ^ -(moved & 1)
                    mono_ms += moved
                    wall_ms += moved + (wall_moved >> 1 ^ -(wall_moved & 1))
                    real_ms += moved + (real_moved >> 1 ^ -(real_moved & 1))
                    yield Entry(kind, Now(mono_ms, wall_ms), real_ms, subject, data[at : at + size])
                    at += size
                    self.is_ended = kind == Kind.END
            except IndexError:
                self.damage = "a block holds an entry that is not whole"
                return

    def _blocks(self) -> Iterator[bytes]:
        decompress = zlib.decompressobj()
        place = HEADER.size
        while head := self._file.read(BLOCK.size):
            size, crc = BLOCK.unpack(head) if len(head) == BLOCK.size else (0, 0)
            data = self._file.read(size) if 0 < size <= MAX_BLOCK_BYTES else b""
            if not data or len(data) < size:
                self.damage = f"it ends inside of the block at byte {place}"
                return
            if zlib.crc32(data) != crc:
                self.damage = f"the block at byte {place} is damaged"
                return
            try:
                entries = decompress.decompress(data, MAX_BLOCK_BYTES)
            except zlib.error as error:
                self.damage = f"the block at byte {place} cannot be decompressed: {error}"
                return
            if decompress.unconsumed_tail:
                self.damage = f"the block at byte {place} is too large"
                return
            yield entries
            place += BLOCK.size + size


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, and where it ends. Raises IndexError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError
