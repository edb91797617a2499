"""Offsets of many partitions of a topic as the bytes of the commit they came in, without an object each.

A row is what an OffsetCommit says of a partition without metadata: its index, its position but for the metadata, and two
bytes that say that there are none. Most commits of a group name the same partitions as the one before, which they then
replace as a whole.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from functools import partial
from struct import unpack
from typing import Final, overload

from kshim.coordinator.groups.offsets.committed_offsets import Commit, CommittedOffset
from kshim_protocol.compiler_source import struct_format

EMPTY_TEXT: Final = b"\1"
"""What stands behind the position in a row: the metadata of each."""
_ROW_BYTES = 18
_POSITION_AT, _POSITION_END = 4, 16

_committed = partial(tuple.__new__, CommittedOffset)


class Partitions:
    """Those that a commit names, in its order; one may be named twice. Commits of the same ones share it.

    `columns` are the first bytes of all indexes, then the second ones, up to the fourth: where rows have them, they are
    found fastest so. Negative indexes are very large ones here.
    """

    __slots__ = ("columns", "greatest", "indexes")

    def __init__(self, data: bytes, columns: bytes) -> None:
        count = len(data) // _ROW_BYTES
        self.columns = columns
        self.indexes: tuple[int, ...] = unpack(struct_format("I14x", count), data)
        self.greatest: int = max(self.indexes)


class PositionRows(Sequence[tuple[int, bytes]]):
    """Partition and position of each, in rows."""

    __slots__ = ("data", "partitions")

    partitions: Partitions

    def __init__(self, data: bytes, known: Mapping[int, CommittedOffset] | None = None) -> None:
        """`known`: the offsets that there are, which often are of the same partitions."""
        self.data = data
        columns = data[0::_ROW_BYTES] + data[1::_ROW_BYTES] + data[2::_ROW_BYTES] + data[3::_ROW_BYTES]
        rows = known.rows_at(int.from_bytes(data[:4], "big")) if type(known) is TopicOffsets else None
        if rows is not None and rows.positions.partitions.columns == columns:
            self.partitions = rows.positions.partitions
        else:
            self.partitions = Partitions(data, columns)

    def parts(self) -> Sequence[bytes]:
        """The bytes of each partition and of its position but for the metadata, one after the other."""
        parts: tuple[bytes, ...] = unpack(struct_format("4s12s2x", len(self)), self.data)
        return parts

    def position(self, row: int) -> bytes:
        """The position in a row."""
        at = row * _ROW_BYTES
        return self.data[at + _POSITION_AT : at + _POSITION_END] + EMPTY_TEXT

    def __len__(self) -> int:
        return len(self.partitions.indexes)

    @overload
    def __getitem__(self, row: int) -> tuple[int, bytes]: ...
    @overload
    def __getitem__(self, row: slice) -> list[tuple[int, bytes]]: ...
    def __getitem__(self, row: int | slice) -> tuple[int, bytes] | list[tuple[int, bytes]]:
        if isinstance(row, slice):
            return list(self)[row]
        return self.partitions.indexes[row], self.position(range(len(self))[row])

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return zip(self.partitions.indexes, map(self.position, range(len(self))), strict=True)


class OffsetRows:
    """What one commit says of the partitions of a topic: an offset for each.

    `record_offset` is where the first of its records stands, the others follow.
    """

    __slots__ = ("commit", "positions", "record_offset")

    def __init__(self, positions: PositionRows, commit: Commit, record_offset: int) -> None:
        self.positions = positions
        self.commit = commit
        self.record_offset = record_offset

    def replace(self, newer: OffsetRows) -> None:
        """Become `newer`, which is about the same partitions."""
        self.positions, self.commit, self.record_offset = newer.positions, newer.commit, newer.record_offset

    def offsets(self) -> dict[int, CommittedOffset]:
        """An object each; of a partition that is named twice its last row counts."""
        commit, numbered = self.commit, enumerate(self.positions, self.record_offset)
        return {index: _committed((position, commit, at)) for at, (index, position) in numbered}

    def is_of(self, indexes: Sequence[int]) -> bool:
        """Whether they are of just these partitions, in this order."""
        return self.positions.partitions.indexes == indexes

    def answer(self, end: bytes) -> bytes:
        """The index and the position of each, `end` behind it: the partitions of an OffsetFetch."""
        positions = self.positions
        parts: tuple[bytes, ...] = unpack(struct_format("16s2x", len(positions)), positions.data)
        end = EMPTY_TEXT + end
        return end.join(parts) + end

    def at(self, index: int) -> CommittedOffset:
        """That of a partition, which is among them."""
        row = self.positions.partitions.indexes.index(index)
        return _committed((self.positions.position(row), self.commit, self.record_offset + row))


class TopicOffsets(Mapping[int, CommittedOffset]):
    """The offsets of a topic by partition, some of them in rows.

    Each `OffsetRows` stands at all of its partitions, so that the next commit of the same ones replaces it at once.
    Where it would lose one of them, its other offsets become single ones.
    """

    __slots__ = ("_by_index",)

    def __init__(self, single: Mapping[int, CommittedOffset]) -> None:
        self._by_index: dict[int, CommittedOffset | OffsetRows] = dict(single)

    def rows_at(self, first_index: int) -> OffsetRows | None:
        """The rows that a partition stands in, if it does."""
        found = self._by_index.get(first_index)
        return found if type(found) is OffsetRows else None

    def put_rows(self, rows: OffsetRows) -> None:
        """Store these offsets in place of those before. The rows are taken over."""
        partitions = rows.positions.partitions
        indexes = partitions.indexes
        known = self._by_index.get(indexes[0])
        if type(known) is OffsetRows and known.positions.partitions is partitions:
            known.replace(rows)
        elif len(set(indexes)) < len(indexes):
            self.update(rows.offsets())
        else:
            self._take_apart(indexes)
            self._by_index.update(dict.fromkeys(indexes, rows))

    def update(self, offsets: Mapping[int, CommittedOffset]) -> None:
        """Store these offsets in place of those before."""
        self._take_apart(offsets)
        self._by_index.update(offsets)

    def __setitem__(self, index: int, offset: CommittedOffset) -> None:
        self._take_apart((index,))
        self._by_index[index] = offset

    def pop(self, index: int, default: None) -> CommittedOffset | None:
        """Take out an offset, if there is one."""
        self._take_apart((index,))
        offset = self._by_index.pop(index, default)
        assert not isinstance(offset, OffsetRows)
        return offset

    def _take_apart(self, indexes: Iterable[int]) -> None:
        """Make single offsets of all rows that have one of these partitions."""
        for index in indexes:
            found = self._by_index.get(index)
            if type(found) is OffsetRows:
                self._by_index.update(found.offsets())

    def single(self) -> dict[int, CommittedOffset]:
        """All of them, an object each, in the order in which the partitions were first committed."""
        rows_here = {id(rows): rows for rows in self._by_index.values() if isinstance(rows, OffsetRows)}
        made = {key: rows.offsets() for key, rows in rows_here.items()}
        return {
            index: made[id(offset)][index] if isinstance(offset, OffsetRows) else offset
            for index, offset in self._by_index.items()
        }

    def __getitem__(self, index: int) -> CommittedOffset:
        offset = self._by_index[index]
        return offset.at(index) if isinstance(offset, OffsetRows) else offset

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_index)

    def __len__(self) -> int:
        return len(self._by_index)

    def items(self) -> ItemsView[int, CommittedOffset]:
        return self.single().items()
