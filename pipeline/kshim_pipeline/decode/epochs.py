"""Records of groups that have epochs, key types from 3 on, one at a time: of the new protocol (KIP-848), share groups, streams groups.

A group writes a few of them when its epoch rises, and none while it is stable, so they need not be decoded by columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kshim_pipeline.records import FIRST_EPOCH_KIND, MEMBER_STATES, STREAMS_MEMBER_STATES, UNKNOWN_STATE, WISH
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
from kshim_protocol.internal.share_group import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
    TopicPartitionsInfo,
)
from kshim_protocol.internal.share_group import TopicPartitions as SharePartitions
from kshim_protocol.internal.streams_group import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
    Subtopology,
    TaskIds,
)
from kshim_protocol.internal.streams_group_target import StreamsGroupTargetAssignmentMemberValue
from kshim_protocol.internal.streams_group_target import TaskIds as TargetTaskIds
from kshim_protocol.schema import Struct

EPOCH_KINDS: Final = frozenset(number for number in RECORD_TYPES if number >= FIRST_EPOCH_KIND)
"""Key types of these records."""

_NO_WISH: Final[dict[str, Any]] = dict.fromkeys(WISH.names)
_ROLES: Final = ("active", "standby", "warmup")
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
        case ConsumerGroupMetadataValue() | ShareGroupMetadataValue():
            return {"epoch": value.epoch, "metadata_hash": value.metadata_hash}
        case ConsumerGroupPartitionMetadataValue():
            return {"topics": [topic.topic_name for topic in value.topics]}
        case ConsumerGroupMemberMetadataValue():
            return {"wish": _wish(value)}
        case (
            ConsumerGroupTargetAssignmentMetadataValue()
            | ShareGroupTargetAssignmentMetadataValue()
            | StreamsGroupTargetAssignmentMetadataValue()
        ):
            return {"epoch": value.assignment_epoch, "computed_ms": value.assignment_timestamp}
        case ConsumerGroupTargetAssignmentMemberValue() | ShareGroupTargetAssignmentMemberValue():
            return {"owned": _partitions(value.topic_partitions)}
        case ConsumerGroupCurrentMemberAssignmentValue():
            return {
                "epoch": value.member_epoch,
                "previous_epoch": value.previous_member_epoch,
                "member_state": MEMBER_STATES.get(value.state, UNKNOWN_STATE),
                "owned": _partitions(value.assigned_partitions),
                "to_revoke": _partitions(value.partitions_pending_revocation),
            }
        case ConsumerGroupRegularExpressionValue():
            return {
                "topics": list(value.topics),
                "metadata_version": value.version,
                "resolved_ms": value.timestamp,
            }
        case (
            ShareGroupMemberMetadataValue()
            | ShareGroupCurrentMemberAssignmentValue()
            | ShareGroupStatePartitionMetadataValue()
        ):
            return _of_share_group(value)
        case _:
            return _of_streams_group(value)


def _of_share_group(
    value: ShareGroupMemberMetadataValue
    | ShareGroupCurrentMemberAssignmentValue
    | ShareGroupStatePartitionMetadataValue,
) -> dict[str, Any]:
    """What only share groups have."""
    match value:
        case ShareGroupMemberMetadataValue():
            return {
                "wish": _NO_WISH
                | {
                    "rack_id": value.rack_id,
                    "client_id": value.client_id,
                    "client_host": value.client_host,
                    "topics": list(value.subscribed_topic_names),
                }
            }
        case ShareGroupCurrentMemberAssignmentValue():
            return {
                "epoch": value.member_epoch,
                "previous_epoch": value.previous_member_epoch,
                "member_state": MEMBER_STATES.get(value.state, UNKNOWN_STATE),
                "owned": _partitions(value.assigned_partitions),
            }
        case ShareGroupStatePartitionMetadataValue():
            known = (
                *(_share_partitions("initializing", topic) for topic in value.initializing_topics),
                *(_share_partitions("initialized", topic) for topic in value.initialized_topics),
            )
            deleting = (
                {"state": "deleting", "topic_id": topic.topic_id.hex(), "topic": topic.topic_name, "partitions": []}
                for topic in value.deleting_topics
            )
            return {"share_partitions": [*known, *deleting]}


def _of_streams_group(value: Struct) -> dict[str, Any]:
    """What only streams groups have."""
    match value:
        case StreamsGroupMetadataValue():
            return {
                "epoch": value.epoch,
                "metadata_hash": value.metadata_hash,
                "topology_epoch": value.validated_topology_epoch,
            }
        case StreamsGroupMemberMetadataValue():
            return {"topology_epoch": value.topology_epoch, "wish": _wish_of_streams(value)}
        case StreamsGroupTargetAssignmentMemberValue():
            return {"tasks": _tasks(value.active_tasks, value.standby_tasks, value.warmup_tasks)}
        case StreamsGroupCurrentMemberAssignmentValue():
            return {
                "epoch": value.member_epoch,
                "previous_epoch": value.previous_member_epoch,
                "member_state": STREAMS_MEMBER_STATES.get(value.state, UNKNOWN_STATE),
                "tasks": _tasks(value.active_tasks, value.standby_tasks, value.warmup_tasks),
                "tasks_to_revoke": _tasks(
                    value.active_tasks_pending_revocation,
                    value.standby_tasks_pending_revocation,
                    value.warmup_tasks_pending_revocation,
                ),
            }
        case StreamsGroupTopologyValue():
            return {
                "topology_epoch": value.epoch,
                "subtopologies": [_subtopology(each) for each in value.subtopologies],
            }
        case _:
            raise AssertionError(value)


def _wish(value: ConsumerGroupMemberMetadataValue) -> dict[str, Any]:
    classic = value.classic_member_metadata
    return _NO_WISH | {
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


def _wish_of_streams(value: StreamsGroupMemberMetadataValue) -> dict[str, Any]:
    endpoint = value.user_endpoint
    return _NO_WISH | {
        "group_instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "process_id": value.process_id,
        "endpoint": None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
    }


def _partitions(topics: Iterable[TopicPartition | TopicPartitions | SharePartitions]) -> list[dict[str, Any]]:
    return [
        {
            "topic_id": topic.topic_id.hex(),
            "partitions": list(topic.partitions),
            "epochs": list(topic.assignment_epochs or ()) if isinstance(topic, TopicPartitions) else [],
        }
        for topic in topics
    ]


def _share_partitions(state: str, topic: TopicPartitionsInfo) -> dict[str, Any]:
    return {
        "state": state,
        "topic_id": topic.topic_id.hex(),
        "topic": topic.topic_name,
        "partitions": list(topic.partitions),
    }


def _tasks(*of_roles: Iterable[TaskIds | TargetTaskIds]) -> list[dict[str, Any]]:
    return [task for role, tasks in zip(_ROLES, of_roles, strict=True) for task in _tasks_of(role, tasks)]


def _tasks_of(role: str, tasks: Iterable[TaskIds | TargetTaskIds]) -> Iterator[dict[str, Any]]:
    for each in tasks:
        yield {
            "role": role,
            "subtopology_id": each.subtopology_id,
            "partitions": list(each.partitions),
            "epochs": list(each.assignment_epochs or ()) if isinstance(each, TaskIds) else [],
        }


def _subtopology(each: Subtopology) -> dict[str, Any]:
    return {
        "subtopology_id": each.subtopology_id,
        "source_topics": list(each.source_topics),
        "source_topic_regex": list(each.source_topic_regex),
        "repartition_source_topics": [topic.name for topic in each.repartition_source_topics],
        "repartition_sink_topics": list(each.repartition_sink_topics),
        "state_changelog_topics": [topic.name for topic in each.state_changelog_topics],
    }
