"""Records whose key is a group's id and perhaps one more text, to and from bytes: those of all groups but classic ones."""

from __future__ import annotations

from collections.abc import Collection

from kshim.coordinator.groups.kinds import Pair
from kshim_protocol.internal.record_types import (
    RECORD_TYPES,
    build_key_of_texts,
    build_versioned_value,
    parse_typed_key,
    parse_versioned_value,
)
from kshim_protocol.schema import Struct


def build_record(number: int, *texts: str, value: Struct | bytes | None) -> Pair:
    """Key and value of a record of type `number`; a value of None is a tombstone. Raises BuildError."""
    built = build_versioned_value(value) if isinstance(value, Struct) else value
    return build_key_of_texts(RECORD_TYPES[number], *texts), built


def parse_record(
    key: bytes, value: bytes | None, numbers: Collection[int]
) -> tuple[int, list[str], Struct | None] | None:
    """(type, texts of the key, value) of a record; None when its type is none of `numbers`. Raises ProtocolError."""
    if int.from_bytes(key[:2], "big") not in numbers:
        return None
    number, parsed_key = parse_typed_key(key)
    type_ = RECORD_TYPES[number]
    texts: list[str] = [getattr(parsed_key, row) for row in type_.key_rows]
    return number, texts, None if value is None else parse_versioned_value(type_, value)[1]
