"""Records of `__consumer_offsets`: the classic group's keys and values, each behind its int16 version.

The version of a key is the record's type: 0 and 1 committed offsets, 2 classic groups; other types (new consumer
groups, share groups, streams groups) are returned as `UnknownKey`, to be skipped with a warning, as Kafka does.
A null value is a tombstone and the caller's business.
Kafka: GroupCoordinatorRecordSerde, GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any, NamedTuple, overload

from kshim_protocol.codec import codec
from kshim_protocol.compiler_source import SIZES, text_size
from kshim_protocol.frame import BuildError, ProtocolError
from kshim_protocol.internal.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kshim_protocol.internal.offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kshim_protocol.internal.versioned import INT16, parse_rest, parse_versioned, version_of
from kshim_protocol.schema import ZERO_UUID, Struct

OFFSET_COMMIT_VERSION = 4
"""Version of offset values that Kafka 4.4 writes."""

OFFSET_COMMIT_VERSION_WITH_EXPIRY = 1
"""Version of offset values with an expire timestamp of their own; it has no leader epoch."""

GROUP_METADATA_VERSION = 3
"""Version of classic group values that Kafka 4.4 writes."""


class UnknownKey(NamedTuple):
    """A key of a type this module does not read."""

    type: int


OffsetsKey = OffsetCommitKey | GroupMetadataKey | LegacyOffsetCommitKey | UnknownKey

_KEYS: dict[int, type[OffsetCommitKey | GroupMetadataKey | LegacyOffsetCommitKey]] = {
    0: LegacyOffsetCommitKey,
    1: OffsetCommitKey,
    2: GroupMetadataKey,
}
_VALUES: dict[type[Struct], type[Struct]] = {
    LegacyOffsetCommitKey: LegacyOffsetCommitValue,
    OffsetCommitKey: OffsetCommitValue,
    GroupMetadataKey: GroupMetadataValue,
}

_INT64 = struct.Struct(">q")
_TYPE_AND_LENGTH = struct.Struct(">hh")
_PARTITION = struct.Struct(">i")
_VALUE_V1_START = struct.Struct(">hqh")
_VALUE_V1_END = struct.Struct(">qq")
POSITION_VALUE_START = INT16.pack(OFFSET_COMMIT_VERSION)
_POSITION_START = struct.Struct(">qi")
_POSITION_WITHOUT_METADATA = struct.Struct(">qiB")
_VALUE_V4_END = struct.Struct(">qx")
_VALUE_V4_END_WITH_TOPIC_ID = struct.Struct(">q3s16s")
_TOPIC_ID_TAG = b"\x01\x00\x10"  # one tagged field: tag 0, 16 bytes
_BARE_GROUP_BYTES = struct.calcsize(">hhihhqi")  # a value of a group without texts and members
_ANY_OFFSET_KEY = OffsetCommitKey(group="", topic="", partition=0)
_LONGEST_PLAIN = 126  # the longest compact string whose length takes one byte


def parse_key(data: bytes) -> OffsetsKey:
    """The key of a record, or UnknownKey. Raises ProtocolError."""
    type_ = version_of(data, "key")
    cls = _KEYS.get(type_)
    if cls is None:
        return UnknownKey(type_)
    return parse_rest(cls, 0, data)


@overload
def parse_value(key: OffsetCommitKey, data: bytes) -> OffsetCommitValue: ...
@overload
def parse_value(key: GroupMetadataKey, data: bytes) -> GroupMetadataValue: ...
@overload
def parse_value(key: LegacyOffsetCommitKey, data: bytes) -> LegacyOffsetCommitValue: ...
def parse_value(key: OffsetCommitKey | GroupMetadataKey | LegacyOffsetCommitKey, data: bytes) -> Any:
    """The value that belongs to `key`. Raises ProtocolError, also for a version this side does not know."""
    return parse_versioned(_VALUES[key.__class__], data)[1]


def build_offset_commit_key(group: str, topic: str, partition: int) -> bytes:
    """Key of type 1. Raises BuildError when a name does not fit."""
    group_bytes, topic_bytes = group.encode(), topic.encode()
    try:
        return b"".join(
            (
                _TYPE_AND_LENGTH.pack(1, len(group_bytes)),
                group_bytes,
                INT16.pack(len(topic_bytes)),
                topic_bytes,
                _PARTITION.pack(partition),
            )
        )
    except struct.error as error:
        raise BuildError(f"OffsetCommitKey of {group!r}, {topic!r}, {partition}: {error}") from None


def build_offset_commit_value(
    *,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int = -1,
    topic_id: bytes = ZERO_UUID,
) -> bytes:
    """Value to a key of type 1, times in ms since the epoch: v4, or v1 when there is an expire timestamp.

    v1 has room for neither leader epoch nor topic id: they are lost, as in Kafka. Raises BuildError.
    """
    if expire_timestamp_ms == -1:
        position = build_position(offset, leader_epoch, metadata)
        return POSITION_VALUE_START + position + position_value_end(commit_timestamp_ms, topic_id)
    metadata_bytes = metadata.encode()
    try:
        start = _VALUE_V1_START.pack(OFFSET_COMMIT_VERSION_WITH_EXPIRY, offset, len(metadata_bytes))
        return start + metadata_bytes + _VALUE_V1_END.pack(commit_timestamp_ms, expire_timestamp_ms)
    except struct.error as error:
        raise BuildError(f"OffsetCommitValue of offset {offset}: {error}") from None


def build_position(offset: int, leader_epoch: int, metadata: str) -> bytes:
    """A position: the bytes that say the same in an OffsetCommit from v8 on, a value of v4 and an OffsetFetch from v6 on.

    Raises BuildError.
    """
    try:
        if not metadata:
            return _POSITION_WITHOUT_METADATA.pack(offset, leader_epoch, 1)
        metadata_bytes = metadata.encode()
        size = len(metadata_bytes)
        start = _POSITION_START.pack(offset, leader_epoch) + (SIZES[size] if size < len(SIZES) else text_size(size))
        return start + metadata_bytes
    except (struct.error, ValueError) as error:
        raise BuildError(f"OffsetCommitValue of offset {offset}: {error}") from None


def split_position(position: bytes) -> tuple[int, int, str]:
    """Offset, leader epoch and metadata of a position."""
    offset, leader_epoch = _POSITION_START.unpack_from(position)
    at = _POSITION_START.size
    while position[at] > 0x7F:  # the length, which may take three bytes
        at += 1
    return offset, leader_epoch, position[at + 1 :].decode("utf-8", "replace")


def position_value_end(commit_timestamp_ms: int, topic_id: bytes) -> bytes:
    """What stands behind the position in a value of v4; before it stands `POSITION_VALUE_START`. Raises BuildError."""
    try:
        if topic_id == ZERO_UUID:
            return _VALUE_V4_END.pack(commit_timestamp_ms)
        return _VALUE_V4_END_WITH_TOPIC_ID.pack(commit_timestamp_ms, _TOPIC_ID_TAG, topic_id)
    except struct.error as error:
        raise BuildError(f"OffsetCommitValue at {commit_timestamp_ms}: {error}") from None


def build_group_metadata_key(group: str) -> bytes:
    """Key of type 2. Raises BuildError when the name does not fit."""
    group_bytes = group.encode()
    try:
        return _TYPE_AND_LENGTH.pack(2, len(group_bytes)) + group_bytes
    except struct.error as error:
        raise BuildError(f"GroupMetadataKey of {group!r}: {error}") from None


def build_group_metadata_value(value: GroupMetadataValue) -> bytes:
    """Value to a key of type 2, v3. Raises BuildError."""
    return INT16.pack(GROUP_METADATA_VERSION) + codec(GroupMetadataValue, GROUP_METADATA_VERSION).build(value)


def build_member_metadata(member: MemberMetadata) -> bytes:
    """A member as it stands in a value to a key of type 2, v3, which has its members at its end. Raises BuildError."""
    group = GroupMetadataValue(
        protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=0, members=(member,)
    )
    return build_group_metadata_value(group)[_BARE_GROUP_BYTES:]


def join_group_metadata_value(value: bytes, members: Collection[bytes]) -> bytes:
    """A value to a key of type 2 without members, and members of `build_member_metadata`, put together."""
    return b"".join((value[: -_PARTITION.size], _PARTITION.pack(len(members)), *members))


def split_offset_commit_key(data: bytes) -> tuple[bytes, bytes, int]:
    """(group, topic, partition) of a key of type 1, quickly; the names as UTF-8. Raises ProtocolError."""
    try:
        type_, length = _TYPE_AND_LENGTH.unpack_from(data)
        group_end = 4 + length
        topic_at = group_end + 2
        topic_end = topic_at + INT16.unpack_from(data, group_end)[0]
        if type_ == 1 and length >= 0 and topic_end >= topic_at and topic_end + 4 == len(data):
            return data[4:group_end], data[topic_at:topic_end], _PARTITION.unpack_from(data, topic_end)[0]
    except struct.error:
        pass
    key = parse_key(data)  # says what is wrong
    raise ProtocolError(f"{key} is no key of type 1", message="OffsetCommitKey", field="version", offset=0)


def split_offset_commit_value(data: bytes) -> tuple[bytes, int, int, bytes]:
    """(position, commit timestamp, expire timestamp, topic id) of a value, quickly.

    Raises ProtocolError as `parse_value` does.
    """
    try:
        if data[1] == OFFSET_COMMIT_VERSION and not data[0]:
            length = data[14]
            end = 14 + length  # 15 bytes before the metadata, and the length counts itself
            tail = len(data) - end
            if 0 < length <= _LONGEST_PLAIN + 1 and (
                (tail == 9 and not data[-1]) or (tail == 28 and data[end + 8 : end + 11] == _TOPIC_ID_TAG)
            ):
                if length > 1:
                    data[15:end].decode()
                topic_id = ZERO_UUID if tail == 9 else data[-16:]
                return data[2:end], _INT64.unpack_from(data, end)[0], -1, topic_id
    except (IndexError, ValueError, struct.error):
        pass
    value = parse_value(_ANY_OFFSET_KEY, data)
    position = build_position(value.offset, value.leader_epoch, value.metadata)
    return position, value.commit_timestamp, value.expire_timestamp, value.topic_id
