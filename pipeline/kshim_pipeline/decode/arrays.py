"""Arrow arrays from slices and flat columns, without a Python object per value."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from kshim_pipeline.decode.cursor import Buffer, Ints, Mask, Slices


def numbers(values: Ints, kind: pa.DataType) -> pa.Array:
    """Numbers that fit `kind`."""
    return pa.array(values.astype(kind.to_pandas_dtype(), copy=False))


def texts(buffer: Buffer, slices: Slices) -> tuple[pa.Array, Mask | None]:
    """Strings, and which of them are not UTF-8 (None: all are); those are null."""
    offsets, data = _gathered(buffer, slices)
    if len(data) and data.max() >= 0x80 and not _is_utf8(offsets, data):
        wrong = np.array(
            [not _decodes(data[start:end]) for start, end in pairwise(offsets)],
            dtype=np.bool_,
        )
        return texts(buffer, Slices(slices.start, np.where(wrong, -1, slices.length)))[0], wrong
    is_null = slices.length < 0
    validity = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if is_null.any() else None
    return (
        pa.StringArray.from_buffers(len(slices.start), pa.py_buffer(offsets), pa.py_buffer(data), validity),
        None,
    )


def blobs(buffer: Buffer, slices: Slices) -> pa.Array:
    """Bytes."""
    offsets, data = _gathered(buffer, slices)
    validity = pa.py_buffer(np.packbits(slices.length >= 0, bitorder="little"))
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(slices.start), [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def int32_lists(buffer: Buffer, start: Ints, counts: Ints) -> pa.Array:
    """Lists of `counts` adjacent big-endian int32 from `start` on."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    where = np.repeat(start - 4 * offsets[:-1], counts) + 4 * np.arange(offsets[-1])
    return lists(offsets, pa.array(buffer.int32[where].astype(np.int32)))


def lists(offsets: Ints, items: pa.Array, is_null: Mask | None = None) -> pa.Array:
    """Lists of the items between offsets; a null list must be empty."""
    mask = None if is_null is None else pa.array(is_null)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), items, mask=mask)


def structs(kind: pa.DataType, columns: dict[str, pa.Array], is_null: Mask | None = None) -> pa.Array:
    """Structs of type `kind`."""
    mask = None if is_null is None else pa.array(is_null)
    return pa.StructArray.from_arrays([columns[field.name] for field in kind], fields=list(kind), mask=mask)


def _gathered(buffer: Buffer, slices: Slices) -> tuple[Any, Any]:
    sizes = np.maximum(slices.length, 0)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    where = np.repeat(slices.start - offsets[:-1], sizes) + np.arange(offsets[-1])
    return offsets.astype(np.int32), buffer.bytes[where]


def _is_utf8(offsets: Any, data: Any) -> bool:
    array = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _decodes(data: Any) -> bool:
    try:
        bytes(data).decode()
    except UnicodeDecodeError:
        return False
    return True
