"""Reading many byte strings at once: a column of positions that advances together, field by field.

A field is read from all rows by one numpy operation, so that it costs nanoseconds per row. Only common encodings are
handled: a row with anything unusual (a wrong end, an unexpected null, an impossible length, a varint of four bytes,
tagged fields) gets `ok` False and is read again, exactly, by `rows.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_PADDING: Final = 16
_MANY_ROUNDS: Final = 16
_FEW_ROWS: Final = 4


class Slices(NamedTuple):
    """The position of a field in the buffer for each row. A length of -1 is null."""

    start: Ints
    length: Ints

    @staticmethod
    def nulls(count: int) -> Slices:
        """`count` nulls, to be filled."""
        return Slices(np.zeros(count, np.int64), np.full(count, -1, np.int64))

    def put(self, where: Ints, values: Slices) -> None:
        """Set the rows `where`."""
        self.start[where] = values.start
        self.length[where] = values.length


class Buffer:
    """Bytes, and the big-endian numbers at each position."""

    __slots__ = ("bytes", "int16", "int32", "int64")

    def __init__(self, parts: Sequence[npt.NDArray[np.uint8]]) -> None:
        # Padded, for a row that ends too early is found only after the read.
        self.bytes = np.concatenate([*parts, np.zeros(_PADDING, np.uint8)])
        self.int16 = self._numbers(">i2")
        self.int32 = self._numbers(">i4")
        self.int64 = self._numbers(">i8")

    def _numbers(self, kind: str) -> npt.NDArray[Any]:
        size = np.dtype(kind).itemsize
        return np.ndarray(len(self.bytes) - size + 1, kind, buffer=self.bytes.data, strides=(1,))


class Cursor:
    """Positions `at` in rows that end at `end`; both are relative to the start of the buffer."""

    __slots__ = ("at", "buffer", "end", "ok")

    def __init__(self, buffer: Buffer, start: Ints, end: Ints) -> None:
        self.buffer = buffer
        self.at = start.copy()
        self.end = end
        self.ok: Mask = start <= end

    def __len__(self) -> int:
        return len(self.at)

    def int16(self) -> Ints:
        """The next two bytes of each row."""
        return self._number(self.buffer.int16, 2)

    def int32(self) -> Ints:
        """The next four bytes of each row."""
        return self._number(self.buffer.int32, 4)

    def int64(self) -> Ints:
        """The next eight bytes of each row."""
        return self._number(self.buffer.int64, 8)

    def uvarint(self) -> Ints:
        """An unsigned varint of up to three bytes."""
        values = self._number(self.buffer.bytes, 1)
        if (values >= 0x80).any():
            for shift in (7, 14):
                more = values >= 1 << shift
                following = self.buffer.bytes[self.at].astype(np.int64)
                values = np.where(more, values & ((1 << shift) - 1) | following << shift, values)
                self._move(more.astype(np.int64))
            self._require(values < 1 << 21)
        return values

    def string(self, *, nullable: bool = False) -> Slices:
        """A string with an int16 length."""
        return self._slice(self.int16(), nullable)

    def compact_string(self, *, nullable: bool = False) -> Slices:
        """A string with its length + 1 as a varint."""
        return self._slice(self.uvarint() - 1, nullable)

    def bytes(self, *, nullable: bool = False) -> Slices:
        """Bytes with an int32 length."""
        return self._slice(self.int32(), nullable)

    def count(self, values: Ints, least_bytes: int) -> Ints:
        """`values` as counts of items of at least `least_bytes` each; 0 where that is impossible."""
        self._require((values >= 0) & (values * least_bytes <= self.end - self.at))
        return np.where(self.ok, values, 0)

    def skip(self, sizes: Ints | int) -> None:
        """Skip bytes."""
        self._move(sizes)

    def no_tags(self) -> None:
        """An empty section of tagged fields."""
        self._require(self.uvarint() == 0)

    def finish(self) -> None:
        """Require the end of each row."""
        self._require(self.at == self.end)

    def take(self, rows: Ints | Mask) -> Cursor:
        """A cursor over some rows."""
        taken = Cursor(self.buffer, self.at[rows], self.end[rows])
        taken.ok &= self.ok[rows]
        return taken

    def put(self, rows: Ints | Mask, taken: Cursor) -> None:
        """Go on where `taken` arrived."""
        self.at[rows] = taken.at
        self.ok[rows] = taken.ok

    def _number(self, numbers: npt.NDArray[Any], size: int) -> Ints:
        values = numbers[self.at].astype(np.int64)
        self._move(size)
        return values

    def _slice(self, length: Ints, nullable: bool) -> Slices:
        self._require(length >= (-1 if nullable else 0))
        found = Slices(self.at, length)
        self._move(np.maximum(length, 0))
        # A row that turned out wrong keeps an empty place that is inside the buffer.
        return found if self.ok.all() else Slices(found.start, np.where(self.ok, found.length, -1))

    def _move(self, sizes: Ints | int) -> None:
        at = self.at + sizes
        self._require(at <= self.end)
        self.at = at if self.ok.all() else np.where(self.ok, at, self.end)

    def _require(self, condition: Mask) -> None:
        self.ok &= condition


def read_items(cursor: Cursor, counts: Ints, read: Callable[[Cursor, Ints], None]) -> Ints:
    """Read `counts` items from each row; returns the offsets of the rows in the flat columns, one more than rows.

    `read(rows, where)` reads one item from each of some rows and stores it at `where` of its flat columns. If only a
    few long rows are left, they are left to `rows.py`, which is faster for them.
    """
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    active = np.nonzero(counts > 0)[0]
    done = 0
    while len(active):
        if done >= _MANY_ROUNDS and len(active) < _FEW_ROWS:
            cursor.ok[active] = False
            break
        taken = cursor.take(active)
        read(taken, offsets[active] + done)
        cursor.put(active, taken)
        done += 1
        active = active[(counts[active] > done) & taken.ok]
    return offsets
