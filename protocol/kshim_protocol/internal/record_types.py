"""All types of records in `__consumer_offsets` and `__share_group_state`, for tools that read everything, and for groups of the new protocol.

What concerns offsets and classic groups only is read and built faster by `records.py`. Types 9 and 18 are not in use. Kafka: CoordinatorRecordType.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from kshim_protocol.codec import Codec, codec
from kshim_protocol.frame import BuildError
from kshim_protocol.internal.versioned import INT16, parse_rest, parse_versioned, version_of
from kshim_protocol.schema import Struct, message, string


class RecordType(NamedTuple):
    """A type of record: the version of its key, Kafka's name, and the module with its tables.

    `key_rows` are the rows of the key where all of them are texts; the module has no table of such a key.
    """

    number: int
    name: str
    module: str
    key_rows: tuple[str, ...] = ()

    def key_class(self) -> type[Struct]:
        """The key's table."""
        name = f"{self.name}Key"
        return _key_of_texts(name, self.key_rows) if self.key_rows else _class_of(self.module, name)

    def value_class(self) -> type[Struct]:
        """The value's table."""
        return _class_of(self.module, f"{self.name}Value")


@cache
def _class_of(module: str, name: str) -> type[Struct]:
    found: type[Struct] = getattr(import_module(f"kshim_protocol.internal.{module}"), name)
    return found


@cache
def _key_of_texts(name: str, rows: tuple[str, ...]) -> type[Struct]:
    namespace = {"__annotations__": dict.fromkeys(rows, str), **{row: string("0") for row in rows}}
    declared: type[Struct] = message(versions="0", flexible="none")(type(name, (Struct,), namespace))
    return declared


_GROUP = ("group_id",)
_MEMBER = ("group_id", "member_id")

RECORD_TYPES: dict[int, RecordType] = {
    type_.number: type_
    for type_ in (
        RecordType(0, "LegacyOffsetCommit", "offset_commit"),
        RecordType(1, "OffsetCommit", "offset_commit"),
        RecordType(2, "GroupMetadata", "group_metadata"),
        RecordType(3, "ConsumerGroupMetadata", "consumer_group", _GROUP),
        RecordType(4, "ConsumerGroupPartitionMetadata", "consumer_group", _GROUP),
        RecordType(5, "ConsumerGroupMemberMetadata", "consumer_group", _MEMBER),
        RecordType(6, "ConsumerGroupTargetAssignmentMetadata", "consumer_group", _GROUP),
        RecordType(7, "ConsumerGroupTargetAssignmentMember", "consumer_group", _MEMBER),
        RecordType(8, "ConsumerGroupCurrentMemberAssignment", "consumer_group", _MEMBER),
        RecordType(10, "ShareGroupMemberMetadata", "share_group", _MEMBER),
        RecordType(11, "ShareGroupMetadata", "share_group", _GROUP),
        RecordType(12, "ShareGroupTargetAssignmentMetadata", "share_group", _GROUP),
        RecordType(13, "ShareGroupTargetAssignmentMember", "share_group", _MEMBER),
        RecordType(14, "ShareGroupCurrentMemberAssignment", "share_group", _MEMBER),
        RecordType(15, "ShareGroupStatePartitionMetadata", "share_group", _GROUP),
        RecordType(16, "ConsumerGroupRegularExpression", "consumer_group", ("group_id", "regular_expression")),
        RecordType(17, "StreamsGroupMetadata", "streams_group", _GROUP),
        RecordType(19, "StreamsGroupMemberMetadata", "streams_group", _MEMBER),
        RecordType(20, "StreamsGroupTargetAssignmentMetadata", "streams_group", _GROUP),
        RecordType(21, "StreamsGroupTargetAssignmentMember", "streams_group_target", _MEMBER),
        RecordType(22, "StreamsGroupCurrentMemberAssignment", "streams_group", _MEMBER),
        RecordType(23, "StreamsGroupTopology", "streams_group", _GROUP),
    )
}
"""By number, the version of the key."""


SHARE_STATE_TYPES: dict[int, RecordType] = {
    0: RecordType(0, "ShareSnapshot", "share_state"),
    1: RecordType(1, "ShareUpdate", "share_state"),
}
"""Those of `__share_group_state`. A tombstone has the key of a snapshot."""


def parse_typed_key(data: bytes, types: Mapping[int, RecordType] = RECORD_TYPES) -> tuple[int, Struct | None]:
    """(type, key); the key is None when the type is none of `types`. Raises ProtocolError."""
    number = version_of(data, "key")
    type_ = types.get(number)
    return number, None if type_ is None else parse_rest(type_.key_class(), 0, data)


def parse_versioned_value(type_: RecordType, data: bytes) -> tuple[int, Struct]:
    """(version, value) of a record of this type. Raises ProtocolError, of it UnknownValueVersion."""
    return parse_versioned(type_.value_class(), data)


def build_key_of_texts(type_: RecordType, *texts: str) -> bytes:
    """The key of a type whose rows are all texts: the group's id, then the member's id or the regular expression.

    Raises BuildError when a text does not fit.
    """
    if len(texts) != len(type_.key_rows):
        raise ValueError(f"{type_.name}Key has {len(type_.key_rows)} texts, not {len(texts)}")
    try:
        return INT16.pack(type_.number) + _texts(texts)
    except (struct.error, UnicodeEncodeError) as error:
        raise BuildError(f"{type_.name}Key of {texts}: {error}") from None


@lru_cache(maxsize=4096)
def _texts(texts: tuple[str, ...]) -> bytes:
    """What the keys of one member have in common, whatever their type: they are built again and again."""
    encoded = [text.encode() for text in texts]
    return b"".join([INT16.pack(len(data)) + data for data in encoded])


def build_versioned_value(value: Struct) -> bytes:
    """A value in the newest version of its table, with the version in front. Raises BuildError."""
    cls = type(value)
    newest = _newest.get(cls)
    if newest is None:
        versions = cls.info.versions
        assert versions is not None
        newest = _newest[cls] = INT16.pack(versions[1]), codec(cls, versions[1])
    return newest[0] + newest[1].build(value)


_newest: dict[type[Struct], tuple[bytes, Codec[Any]]] = {}
"""The newest version of each table, as its values have it in front, and its codec."""
