"""Random records of `__consumer_offsets`: whole ones of every version, and damaged ones."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st

from kshim_protocol.codec import codec
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kshim_protocol.internal.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kshim_protocol.internal.offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kshim_protocol.internal.record_types import RECORD_TYPES
from kshim_protocol.schema import Struct
from tests.protocol.strategies import messages

OF_EPOCHS = tuple(number for number in RECORD_TYPES if number > 2)
CLASSES: dict[int, tuple[type[Struct], type[Struct]]] = {
    0: (LegacyOffsetCommitKey, LegacyOffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    **{number: (RECORD_TYPES[number].key_class(), RECORD_TYPES[number].value_class()) for number in OF_EPOCHS},
}
VERSIONS = {0: range(1), 1: range(5), 2: range(5)} | dict.fromkeys(OF_EPOCHS, range(1))
SHAPES = [(key_type, version) for key_type, versions in VERSIONS.items() for version in versions]

S = TypeVar("S", bound=Struct)


class Bytes(NamedTuple):
    """Key and value of a record."""

    key: bytes | None
    value: bytes | None


def encoded(version: int, found: Struct, *, as_version: int | None = None) -> bytes:
    """An object behind its version, which may be told to be another."""
    told = version if as_version is None else as_version
    return struct.pack(">h", told) + codec(type(found), version).build(found)


def changed(found: S, **values: Any) -> S:
    """The object with other values."""
    return type(found)(**{row.name: getattr(found, row.name) for row in found.info.rows} | values)


def consumer_bytes(cls: type[Struct]) -> st.SearchStrategy[bytes]:
    """What consumers send: all versions, newer ones with more behind, none at all, and rubbish."""
    known = st.integers(0, 3).flatmap(lambda version: messages(cls, version).map(lambda found: encoded(version, found)))
    newer = messages(cls, 3).map(lambda found: encoded(3, found, as_version=7) + b"more")
    return st.one_of(known, known, newer, st.just(b""), st.binary(max_size=12))


@st.composite
def whole_members(draw: st.DrawFn, member: MemberMetadata) -> MemberMetadata:
    """The member with what a consumer would have sent."""
    return changed(
        member,
        subscription=draw(consumer_bytes(ConsumerProtocolSubscription)),
        assignment=draw(consumer_bytes(ConsumerProtocolAssignment)),
    )


@st.composite
def whole_records(draw: st.DrawFn) -> Bytes:
    """A record as a broker of some version might have written it."""
    key_type, version = draw(st.sampled_from(SHAPES))
    key_class, value_class = CLASSES[key_type]
    key = encoded(0, draw(messages(key_class, 0)), as_version=key_type)
    if draw(st.integers(0, 9)) == 0:
        return Bytes(key, None)
    value: Any = draw(messages(value_class, version))
    if isinstance(value, GroupMetadataValue) and draw(st.booleans()):
        members = tuple(draw(whole_members(member)) for member in value.members)
        value = changed(value, protocol_type="consumer", members=members)
    return Bytes(key, encoded(version, value))


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes cut, longer, or with one of them changed."""
    match draw(st.integers(0, 2)):
        case 0:
            return data[: draw(st.integers(0, len(data)))]
        case 1:
            return data + draw(st.binary(min_size=1, max_size=4))
        case _:
            at = draw(st.integers(0, max(len(data) - 1, 0)))
            return data[:at] + draw(st.binary(min_size=1, max_size=1)) + data[at + 1 :]


@st.composite
def damaged_records(draw: st.DrawFn) -> Bytes:
    """A record of which a byte, an end or a part is not what it was."""
    key, value = draw(whole_records())
    assert key is not None
    match draw(st.integers(0, 3)):
        case 0:
            return Bytes(draw(damaged(key)), value)
        case 1:
            return Bytes(key, None if value is None else draw(damaged(value)))
        case 2:
            return Bytes(struct.pack(">h", draw(st.integers(-2, 30))) + key[2:], value)
        case _:
            return Bytes(None if draw(st.booleans()) else draw(st.binary(max_size=8)), draw(st.binary(max_size=8)))
