"""Records decoded one at a time by kshim_protocol: unusual ones, and the reference for decoding by columns."""

from __future__ import annotations

import struct
from typing import Any

from kshim_pipeline.decode.epochs import EPOCH_KINDS, read_epoch_record
from kshim_pipeline.records import KIND_UNKNOWN, KIND_UNREADABLE, KINDS
from kshim_protocol.codec import codec
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from kshim_protocol.internal.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kshim_protocol.internal.offset_commit import LegacyOffsetCommitValue, OffsetCommitKey, OffsetCommitValue
from kshim_protocol.internal.records import UnknownKey, parse_key, parse_value
from kshim_protocol.schema import ZERO_UUID, Struct

_INT16 = struct.Struct(">h")
_NEWEST_CONSUMER_VERSION = 3


def decode_row(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """The columns of DECODED in a record; columns that are missing are null."""
    found: dict[str, Any] = {"is_tombstone": value is None}
    if key is not None and len(key) >= 2:
        found["key_type"] = _INT16.unpack_from(key)[0]
    if value is not None and len(value) >= 2:
        found["value_version"] = _INT16.unpack_from(value)[0]
    try:
        if key is None:
            raise ProtocolError("a record without a key", message="OffsetsKey", field="version", offset=0)
        return _read(found, key, value)
    except ProtocolError as error:
        return found | {"kind": KIND_UNREADABLE, "problem": str(error)}


def _read(found: dict[str, Any], key_bytes: bytes, value_bytes: bytes | None) -> dict[str, Any]:
    """`found` with all columns; what was found before a ProtocolError stays in it."""
    key = parse_key(key_bytes)
    if isinstance(key, UnknownKey):
        named = _named(found, key.type, key_bytes)
        return read_epoch_record(named, key_bytes, value_bytes) if key.type in EPOCH_KINDS else named
    found |= {"kind": KINDS[found["key_type"]], "group_id": key.group}
    if not isinstance(key, GroupMetadataKey):
        found |= {"committed_topic": key.topic, "committed_partition": key.partition}
    if value_bytes is None:
        return found
    if isinstance(key, GroupMetadataKey):
        return found | _group(parse_value(key, value_bytes))
    if isinstance(key, OffsetCommitKey):
        return found | _commit(parse_value(key, value_bytes))
    return found | _commit(parse_value(key, value_bytes))


def _commit(value: OffsetCommitValue | LegacyOffsetCommitValue) -> dict[str, Any]:
    columns = {
        "committed_offset": value.offset,
        "leader_epoch": -1,
        "metadata": value.metadata,
        "commit_timestamp_ms": value.commit_timestamp,
        "expire_timestamp_ms": -1,
    }
    if isinstance(value, OffsetCommitValue):
        columns |= {"leader_epoch": value.leader_epoch, "expire_timestamp_ms": value.expire_timestamp}
        columns["committed_topic_id"] = None if value.topic_id == ZERO_UUID else value.topic_id
    return columns


def _named(found: dict[str, Any], key_type: int, key: bytes) -> dict[str, Any]:
    """The kind and the group, which keys of all known types begin with: they are told even if the rest cannot be read."""
    found["kind"] = KINDS.get(key_type, KIND_UNKNOWN)
    if key_type in KINDS:
        size = _INT16.unpack_from(key, 2)[0] if len(key) >= 4 else -1
        if not 0 <= size <= len(key) - 4:
            raise ProtocolError("the key ends inside the group", message=found["kind"], field="group", offset=2)
        try:
            found["group_id"] = key[4 : 4 + size].decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(str(error), message=found["kind"], field="group", offset=4) from None
    return found


def _group(value: GroupMetadataValue) -> dict[str, Any]:
    is_consumer = value.protocol_type == "consumer"
    return {
        "protocol_type": value.protocol_type,
        "generation_id": value.generation,
        "protocol_name": value.protocol,
        "leader_id": value.leader,
        "state_timestamp_ms": value.current_state_timestamp,
        "members": [_member(member, is_consumer) for member in value.members],
    }


def _member(member: MemberMetadata, is_consumer: bool) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout,
        "session_timeout_ms": member.session_timeout,
        "subscription": _subscription(member.subscription) if is_consumer else None,
        "assignment": _assignment(member.assignment) if is_consumer else None,
    }


def _subscription(data: bytes) -> dict[str, Any] | None:
    found = _consumer_struct(ConsumerProtocolSubscription, data)
    if found is None:
        return None
    return {
        "topics": list(found.topics),
        "owned": _topic_partitions(found.owned_partitions),
        "generation_id": found.generation_id,
        "rack_id": found.rack_id,
    }


def _assignment(data: bytes) -> list[dict[str, Any]] | None:
    found = _consumer_struct(ConsumerProtocolAssignment, data)
    return None if found is None else _topic_partitions(found.assigned_partitions)


def _consumer_struct(cls: type[Any], data: bytes) -> Any:
    """The struct, or None if it is malformed: an assignor's bytes must not make a group unreadable."""
    if len(data) < 2:
        return None
    version = _INT16.unpack_from(data)[0]
    if version < 0:
        return None
    try:
        found: Struct = codec(cls, min(version, _NEWEST_CONSUMER_VERSION)).parse(data, 2)[0]
    except ProtocolError:
        return None
    return found


def _topic_partitions(pairs: tuple[TopicPartition, ...]) -> list[dict[str, Any]]:
    return [{"topic": pair.topic, "partitions": list(pair.partitions)} for pair in pairs]
