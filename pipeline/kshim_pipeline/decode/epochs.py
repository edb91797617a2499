"""Records of groups of the new protocol (KIP-848), key types 3 to 8 and 16, one at a time.

A group writes a few of them when its epoch rises, and none while it is stable, so they need not be decoded by columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kshim_pipeline.records import MEMBER_STATES
from kshim_protocol.internal.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from kshim_protocol.internal.record_types import RECORD_TYPES, parse_typed_key, parse_versioned_value
from kshim_protocol.schema import Struct

EPOCH_KINDS: Final = frozenset({3, 4, 5, 6, 7, 8, 16})
"""Key types of these records."""

_OF_THE_KEY: Final = {"member_id": "member_id", "regular_expression": "topic_regex"}


def read_epoch_record(named: dict[str, Any], key_bytes: bytes, value_bytes: bytes | None) -> dict[str, Any]:
    """`named`, which has kind and group, with the other columns of DECODED. Raises ProtocolError."""
    number, key = parse_typed_key(key_bytes)
    assert key is not None, number
    for row, column in _OF_THE_KEY.items():
        if hasattr(key, row):
            named[column] = getattr(key, row)
    if value_bytes is not None:
        named["raw_value"] = value_bytes
        named |= _columns(parse_versioned_value(RECORD_TYPES[number], value_bytes)[1])
    return named


def _columns(value: Struct) -> dict[str, Any]:
    match value:
        case ConsumerGroupMetadataValue():
            return {"epoch": value.epoch, "metadata_hash": value.metadata_hash}
        case ConsumerGroupPartitionMetadataValue():
            return {"topics": [topic.topic_name for topic in value.topics]}
        case ConsumerGroupMemberMetadataValue():
            return {"wish": _wish(value)}
        case ConsumerGroupTargetAssignmentMetadataValue():
            return {"epoch": value.assignment_epoch, "computed_ms": value.assignment_timestamp}
        case ConsumerGroupTargetAssignmentMemberValue():
            return {"owned": _partitions(value.topic_partitions)}
        case ConsumerGroupCurrentMemberAssignmentValue():
            return {
                "epoch": value.member_epoch,
                "previous_epoch": value.previous_member_epoch,
                "member_state": MEMBER_STATES.get(value.state, "Unknown"),
                "owned": _partitions(value.assigned_partitions),
                "to_revoke": _partitions(value.partitions_pending_revocation),
            }
        case ConsumerGroupRegularExpressionValue():
            return {
                "topics": list(value.topics),
                "metadata_version": value.version,
                "resolved_ms": value.timestamp,
            }
        case _:
            raise AssertionError(value)


def _wish(value: ConsumerGroupMemberMetadataValue) -> dict[str, Any]:
    classic = value.classic_member_metadata
    return {
        "group_instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topics": list(value.subscribed_topic_names),
        "topic_regex": value.subscribed_topic_regex,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "server_assignor": value.server_assignor,
        "session_timeout_ms": None if classic is None else classic.session_timeout_ms,
    }


def _partitions(topics: Iterable[TopicPartition | TopicPartitions]) -> list[dict[str, Any]]:
    return [
        {
            "topic_id": topic.topic_id.hex(),
            "partitions": list(topic.partitions),
            "epochs": list(topic.assignment_epochs or ()) if isinstance(topic, TopicPartitions) else [],
        }
        for topic in topics
    ]
