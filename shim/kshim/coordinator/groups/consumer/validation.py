"""What a ConsumerGroupHeartbeat must say before its group is looked at; the sentences are Kafka's.

Source: Kafka's GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.
"""

from __future__ import annotations

from collections.abc import Collection

from kshim.coordinator.groups.consumer.group import JOIN_EPOCH, LEFT_EPOCH, LEFT_FOR_NOW_EPOCH
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_OWN_MEMBER_ID_SINCE = 1
_UNCHANGED = -1


def require_valid(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Collection[str]) -> None:
    """Raises KafkaError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR (not among these `assignors`)."""
    epoch = request.member_epoch
    if api_version >= _OWN_MEMBER_ID_SINCE or epoch > JOIN_EPOCH or epoch == LEFT_EPOCH:
        _require_text(request.member_id, "MemberId")
    _require_text(request.group_id, "GroupId")
    if request.instance_id is not None:
        _require_text(request.instance_id, "InstanceId")
    if request.rack_id is not None:
        _require_text(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        _require_all_of_a_join(request)
    elif epoch == LEFT_FOR_NOW_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEFT_FOR_NOW_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        known = ", ".join(assignors)
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {known}.",
        )


def _require_all_of_a_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _UNCHANGED:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _require_text(text: str, name: str) -> None:
    if not text.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)
