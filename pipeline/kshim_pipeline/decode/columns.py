"""Batches of records decoded by columns: rows of one key type and value version at a time.

Each combination is returned as a batch of its own, which saves merging its columns with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kshim_pipeline.decode.arrays import blobs, numbers, texts
from kshim_pipeline.decode.cursor import Buffer, Cursor, Ints, Mask, Slices
from kshim_pipeline.decode.epochs import EPOCH_KINDS
from kshim_pipeline.decode.members import read_members
from kshim_pipeline.decode.rows import decode_row
from kshim_pipeline.decode.types import DECODED, STORED
from kshim_pipeline.records import KIND_UNREADABLE, KINDS
from kshim_pipeline.topics import OFFSETS_TOPIC

_COMMIT_VERSIONS: Final = {0: (0,), 1: (0, 1, 2, 3, 4)}
_GROUP_VERSIONS: Final = (0, 1, 2, 3, 4)
_NO_VALUE: Final = 1 << 15  # beyond every int16, as the next
_NO_VERSION: Final = _NO_VALUE + 1
_GATHERED_ROWS: Final = 16_384
_GATHERED_BYTES: Final = 32 << 20
_TOPIC_ID_BYTES: Final = 16
_CONSUMER: Final = int.from_bytes(b"consumer", "big")

_Columns = dict[str, Any]
_DecodeRow = Callable[[bytes | None, bytes | None], dict[str, Any]]


def decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: batches of RECORDS to batches of DECODED, both without the topic, which is constant."""
    for batch in _gathered(batches):
        if batch.num_rows:
            yield from _Batch(batch, DECODED).decoded()


def store_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: batches of RECORDS to batches of STORED. A mistake of the decoder loses no record."""
    others: list[pa.RecordBatch] = []

    def of_offsets() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            is_of_offsets = pc.equal(batch.column("topic"), OFFSETS_TOPIC)
            if pc.all(is_of_offsets).as_py():
                yield batch
            else:
                others.append(batch.filter(pc.invert(is_of_offsets)))
                yield batch.filter(is_of_offsets)

    for batch in _gathered(of_offsets()):
        if batch.num_rows:
            yield from _Batch(batch, STORED).decoded_or_kept()
        yield from map(_not_decoded, others)
        others.clear()


def _not_decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Records of another topic as STORED."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in STORED
    ]
    return pa.RecordBatch.from_arrays(columns, schema=STORED)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches combined: decoding has a cost per batch, and Spark limits batches by rows alone."""
    held: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows >= _GATHERED_ROWS or size_bytes >= _GATHERED_BYTES:
            yield pa.concat_batches(held)
            held, rows, size_bytes = [], 0, 0
    if held:
        yield pa.concat_batches(held)


class _Batch:
    """One batch: positions of keys and values in one buffer, and key types and value versions.

    Its decoded batches have the columns of `schema`, which has those of DECODED; others of the batch are carried over.
    """

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self.batch = batch
        self.schema = schema
        self._carried_names = [name for name in schema.names if name in batch.schema.names]
        keys, values = batch.column("key"), batch.column("value")
        key_data, key_offsets = _binary(keys)
        value_data, value_offsets = _binary(values)
        value_offsets = value_offsets + len(key_data)
        self.buffer = Buffer([key_data, value_data])
        self.key_start, self.key_end = key_offsets[:-1], key_offsets[1:]
        self.value_start, self.value_end = value_offsets[:-1], value_offsets[1:]
        self.has_value: Mask = ~np.asarray(values.is_null())
        self.key_type = self._first_int16(self.key_start, self.key_end)
        self.version = np.where(self.has_value, self._first_int16(self.value_start, self.value_end), _NO_VALUE)

    def _first_int16(self, start: Ints, end: Ints) -> Ints:
        first = self.buffer.int16[start].astype(np.int64)  # before _NO_VERSION, which no int16 can hold
        return np.where(end - start >= 2, first, _NO_VERSION)

    def decoded(self) -> Iterator[pa.RecordBatch]:
        """The decoded batches, together as many rows as the batch has."""
        left = []
        shapes, shape_of = np.unique((self.key_type << 20) + self.version, return_inverse=True)
        for index in range(len(shapes)):
            rows = np.nonzero(shape_of == index)[0]
            key_type, version = int(self.key_type[rows[0]]), int(self.version[rows[0]])
            found = self._shape(rows, key_type, version)
            if found is None:
                left.append(rows)
                continue
            columns, ok = found
            made = self._made(rows, key_type, version, columns)
            if not ok.all():
                left.append(rows[~ok])
                made = made.filter(pa.array(ok))
            if made.num_rows:
                yield made
        if left:
            yield self._one_by_one(np.concatenate(left))

    def decoded_or_kept(self) -> list[pa.RecordBatch]:
        """`decoded`; a record at which the decoder fails is unreadable."""
        try:
            return list(self.decoded())
        except Exception:  # whatever it is: these bytes may be gone from the broker tomorrow
            return [self._one_by_one(np.arange(self.batch.num_rows), _decode_or_keep)]

    def _shape(self, rows: Ints, key_type: int, version: int) -> tuple[_Columns, Mask] | None:
        """The columns of rows of one combination, and which rows they are valid for; None: not decoded by columns."""
        if key_type not in KINDS or key_type in EPOCH_KINDS:
            return None
        keys = Cursor(self.buffer, self.key_start[rows] + 2, self.key_end[rows])
        columns: _Columns = {"group_id": keys.string()}
        if key_type <= 1:
            columns["committed_topic"] = keys.string()
            columns["committed_partition"] = keys.int32()
        keys.finish()
        ok = keys.ok
        if version != _NO_VALUE:
            values = Cursor(self.buffer, self.value_start[rows] + 2, self.value_end[rows])
            values.ok &= ok
            if key_type <= 1 and version in _COMMIT_VERSIONS[key_type]:
                columns |= _commits(values, version)
            elif key_type == 2 and version in _GROUP_VERSIONS:
                columns |= _groups(values, version)
            else:
                return None
            ok = values.ok
        return self._arrays(columns, ok), ok

    def _arrays(self, columns: _Columns, ok: Mask) -> _Columns:
        arrays: _Columns = {}
        for name, column in columns.items():
            if isinstance(column, Slices):
                arrays[name], wrong = texts(self.buffer, column)
                if wrong is not None:
                    ok &= ~wrong
            elif isinstance(column, np.ndarray):
                arrays[name] = numbers(column, DECODED.field(name).type)
            else:
                arrays[name] = column
        return arrays

    def _made(self, rows: Ints, key_type: int, version: int, columns: _Columns) -> pa.RecordBatch:
        count = len(rows)
        columns |= self._carried(rows)
        columns["kind"] = _repeated(KINDS[key_type], count)
        columns["key_type"] = _repeated(key_type, count, pa.int16())
        columns["is_tombstone"] = _repeated(version == _NO_VALUE, count)
        if version != _NO_VALUE:
            columns["value_version"] = _repeated(version, count, pa.int16())
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _one_by_one(self, rows: Ints, decode: _DecodeRow | None = None) -> pa.RecordBatch:
        taken = self.batch.take(pa.array(rows))
        found = [
            (decode or decode_row)(key, value)
            for key, value in zip(taken.column("key").to_pylist(), taken.column("value").to_pylist(), strict=True)
        ]
        carried = self._carried(rows)
        arrays = [
            carried[field.name]
            if field.name in carried
            else pa.array([row.get(field.name) for row in found], type=field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _carried(self, rows: Ints) -> _Columns:
        where = pa.array(rows)
        return {
            name: self.batch.column(name).take(where).cast(self.schema.field(name).type) for name in self._carried_names
        }


def _decode_or_keep(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    try:
        return decode_row(key, value)
    except Exception as error:
        problem = f"the decoder failed: {error!r}"
        return {"kind": KIND_UNREADABLE, "is_tombstone": value is None, "problem": problem}


def _commits(values: Cursor, version: int) -> _Columns:
    """Values of OffsetCommit from version 0 to 4; version 0 is also that of key type 0."""
    count = len(values)
    columns: _Columns = {"committed_offset": values.int64()}
    columns["leader_epoch"] = values.int32() if version >= 3 else np.full(count, -1, np.int64)
    columns["metadata"] = values.compact_string() if version >= 4 else values.string()
    columns["commit_timestamp_ms"] = values.int64()
    columns["expire_timestamp_ms"] = values.int64() if version == 1 else np.full(count, -1, np.int64)
    if version >= 4:
        columns["committed_topic_id"] = _topic_id(values)
    values.finish()
    return columns


def _topic_id(values: Cursor) -> pa.Array:
    """No tagged field, or the topic id alone: tag 0, 16 bytes."""
    tags = values.uvarint()
    has_topic_id = tags > 0
    found = Slices.nulls(len(values))
    if has_topic_id.any():
        tagged = values.take(has_topic_id)
        tagged.ok &= (tags[has_topic_id] == 1) & (tagged.uvarint() == 0) & (tagged.uvarint() == _TOPIC_ID_BYTES)
        start = tagged.at
        tagged.skip(_TOPIC_ID_BYTES)
        is_id = tagged.ok & (values.buffer.int64[start] | values.buffer.int64[start + 8] != 0)
        found.put(np.nonzero(has_topic_id)[0], Slices(start, np.where(is_id, _TOPIC_ID_BYTES, -1)))
        values.put(has_topic_id, tagged)
    return blobs(values.buffer, found)


def _groups(values: Cursor, version: int) -> _Columns:
    """Values of GroupMetadata from version 0 to 4."""
    is_flexible = version >= 4
    string = Cursor.compact_string if is_flexible else Cursor.string
    protocol_type = string(values)
    columns: _Columns = {"protocol_type": protocol_type, "generation_id": values.int32()}
    columns["protocol_name"] = string(values, nullable=True)
    columns["leader_id"] = string(values, nullable=True)
    columns["state_timestamp_ms"] = values.int64() if version >= 2 else np.full(len(values), -1, np.int64)
    is_consumer = (protocol_type.length == 8) & (values.buffer.int64[protocol_type.start] == _CONSUMER)
    columns["members"] = read_members(values, version, is_consumer)
    if is_flexible:
        values.no_tags()
    values.finish()
    return columns


def _binary(column: Any) -> tuple[Any, Ints]:
    """The bytes of a binary column, and where each value begins; nulls are empty."""
    column = column.cast(pa.large_binary())
    _, offsets_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, len(column) + 1, column.offset * 8)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.frombuffer(data_buffer, np.uint8, last - first, first) if last > first else np.zeros(0, np.uint8)
    return data, offsets - first


def _repeated(value: Any, count: int, kind: Any = None) -> Any:
    return pa.repeat(pa.scalar(value, kind) if kind is not None else pa.scalar(value), count)
