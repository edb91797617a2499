"""Random messages, derived from the rows: whatever a declared message may carry in a version."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

from kshim_protocol.schema import Row, Struct, row_is_in
from kshim_protocol.shape import default_of

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
MAX_ELEMENTS = 3
MAX_BYTES = 20


def integers(bits: int) -> st.SearchStrategy[int]:
    """Signed integers: small ones and both ends more often than chance would."""
    return st.one_of(
        st.integers(-2, 200).filter(lambda n: n < 1 << (bits - 1)),
        st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    )


@functools.cache
def primitive(type_: str) -> st.SearchStrategy[Any]:
    """Values of a type that is no struct and no array."""
    match type_:
        case "int8" | "int16" | "int32" | "int64":
            return integers(INTEGER_BITS[type_])
        case "uint16":
            return st.integers(0, (1 << 16) - 1)
        case "boolean":
            return st.booleans()
        case "float64":
            return st.floats(allow_nan=False)
        case "uuid":
            return st.binary(min_size=16, max_size=16)
        case "string":
            # Long enough, sometimes, for a compact length of two bytes.
            return st.one_of(
                st.text(max_size=MAX_BYTES), st.builds(str.__mul__, st.sampled_from("aé"), st.integers(120, 200))
            )
        case "bytes" | "records":
            return st.one_of(st.binary(max_size=MAX_BYTES), st.builds(bytes, st.integers(120, 200)))
        case _:
            raise AssertionError(f"no strategy for {type_}")


def row_values(row: Row, version: int) -> st.SearchStrategy[Any]:
    """Values of one row in one version, null included where it may be."""
    found: st.SearchStrategy[Any]
    if row.type == "array":
        element = primitive(row.element) if isinstance(row.element, str) else messages(row.element, version)
        found = st.lists(element, max_size=MAX_ELEMENTS).map(tuple)
    elif row.type == "struct":
        found = messages(row.element, version)
    else:
        found = primitive(row.type)
    if row.nullable[0] <= version <= row.nullable[1]:
        found = st.one_of(st.none(), found)
    if row.tag is not None:
        found = st.one_of(st.just(default_of(row)), found)
    return found


def messages(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Objects of a declared class that can travel in `version`; rows of other versions have their default."""
    return st.builds(
        cls,
        **{
            row.name: row_values(row, version) if row_is_in(row, version) else st.just(default_of(row))
            for row in cls.info.rows
        },
    )
