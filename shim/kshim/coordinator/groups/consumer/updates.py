"""What one record of a group means, to and from its bytes. A group changes by updates only, live and in replay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.reconciliation import Current
from kshim.coordinator.groups.consumer.state import MemberState
from kshim.coordinator.groups.kinds import Pair
from kshim.coordinator.groups.update_records import build_record, parse_record
from kshim_protocol.internal.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)
from kshim_protocol.internal.consumer_group import TopicPartition as TargetPartitions
from kshim_protocol.internal.current_assignment import build_current_assignment
from kshim_protocol.schema import Struct


class GroupEpoch(NamedTuple):
    """Type 3. None: the group is gone."""

    value: ConsumerGroupMetadataValue | None


class MemberMetadata(NamedTuple):
    """Type 5: what a member is and wants. None: it is gone."""

    member_id: str
    value: ConsumerGroupMemberMetadataValue | None


class TargetEpoch(NamedTuple):
    """Type 6: the target is that of this epoch. None: there is no target any more."""

    value: ConsumerGroupTargetAssignmentMetadataValue | None


class MemberTarget(NamedTuple):
    """Type 7: what a member is to own."""

    member_id: str
    partitions: frozenset[TopicPartition] | None


class MemberCurrent(NamedTuple):
    """Type 8: what a member owns, and how far it is."""

    member_id: str
    current: Current | None


class Resolved(NamedTuple):
    """The topics that an expression stood for, in one version of the topics of the cluster, and when (Unix time)."""

    topics: frozenset[str]
    version: int
    resolved_ms: int


class ExpressionTopics(NamedTuple):
    """Type 16: what an expression stands for. None: nobody uses it any more."""

    expression: str
    resolved: Resolved | None


Update = GroupEpoch | MemberMetadata | TargetEpoch | MemberTarget | MemberCurrent | ExpressionTopics


def is_tombstone(update: Update) -> bool:
    """Whether its record has no value. What a record is about stands first, what it says of that stands last."""
    return update[-1] is None


_NUMBERS: dict[type[Update], int] = {
    GroupEpoch: 3,
    MemberMetadata: 5,
    TargetEpoch: 6,
    MemberTarget: 7,
    MemberCurrent: 8,
    ExpressionTopics: 16,
}

UPDATE_TYPES: Final = frozenset(_NUMBERS.values())
"""The types of these records."""

_STATES = {int(state): state for state in MemberState}


def build_update(group_id: str, update: Update) -> Pair:
    """Key and value of its record. Raises BuildError."""
    number = _NUMBERS[type(update)]
    match update:  # the most frequent first
        case MemberCurrent(member_id, current):
            value = None if current is None else build_current_assignment(*current)
            return build_record(number, group_id, member_id, value=value)
        case MemberTarget(member_id, partitions):
            return build_record(number, group_id, member_id, value=_target_value(partitions))
        case GroupEpoch(group_value) | TargetEpoch(group_value):
            return build_record(number, group_id, value=group_value)
        case MemberMetadata(member_id, metadata):
            return build_record(number, group_id, member_id, value=metadata)
        case ExpressionTopics(expression, resolved):
            return build_record(number, group_id, expression, value=_expression_value(resolved))


def parse_update(key: bytes, value: bytes | None) -> tuple[str, Update] | None:
    """(group id, update) of a record; None for any other type of record. Raises ProtocolError."""
    found = parse_record(key, value, UPDATE_TYPES)
    if found is None:
        return None
    number, texts, parsed = found
    return texts[0], _update(number, texts[-1], parsed)


def _update(number: int, name: str, value: Struct | None) -> Update:
    """`name` is what the record is about within its group: a member id, an expression."""
    match number:
        case 3:
            assert value is None or isinstance(value, ConsumerGroupMetadataValue)
            return GroupEpoch(value)
        case 5:
            assert value is None or isinstance(value, ConsumerGroupMemberMetadataValue)
            return MemberMetadata(name, value)
        case 6:
            assert value is None or isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
            return TargetEpoch(value)
        case 7:
            assert value is None or isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
            return MemberTarget(name, _target_partitions(value))
        case 8:
            assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
            return MemberCurrent(name, _current(value))
        case _:
            assert value is None or isinstance(value, ConsumerGroupRegularExpressionValue)
            return ExpressionTopics(name, _resolved(value))


# Partitions, which travel by topic


def by_topic(partitions: Iterable[TopicPartition]) -> dict[bytes, tuple[int, ...]]:
    """Indexes of partitions by the id of their topic, both in order."""
    found: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        found.setdefault(topic_id, []).append(index)
    return {topic_id: tuple(indexes) for topic_id, indexes in found.items()}


def _target_value(partitions: frozenset[TopicPartition] | None) -> ConsumerGroupTargetAssignmentMemberValue | None:
    if partitions is None:
        return None
    return ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(
            TargetPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in by_topic(partitions).items()
        )
    )


def _target_partitions(value: ConsumerGroupTargetAssignmentMemberValue | None) -> frozenset[TopicPartition] | None:
    if value is None:
        return None
    return frozenset((topic.topic_id, index) for topic in value.topic_partitions for index in topic.partitions)


def _current(value: ConsumerGroupCurrentMemberAssignmentValue | None) -> Current | None:
    if value is None:
        return None
    return Current(
        value.member_epoch,
        value.previous_member_epoch,
        _STATES.get(value.state, MemberState.UNKNOWN),
        _epochs(value.assigned_partitions, value.member_epoch),
        _epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def _epochs(topics: tuple[TopicPartitions, ...], member_epoch: int) -> dict[TopicPartition, int]:
    """Before Kafka 4.3 there were no epochs of partitions: they are taken for assigned in the member's."""
    return {
        (topic.topic_id, index): epoch
        for topic in topics
        for index, epoch in zip(
            topic.partitions, topic.assignment_epochs or (member_epoch,) * len(topic.partitions), strict=True
        )
    }


def _expression_value(resolved: Resolved | None) -> ConsumerGroupRegularExpressionValue | None:
    if resolved is None:
        return None
    return ConsumerGroupRegularExpressionValue(
        topics=tuple(sorted(resolved.topics)), version=resolved.version, timestamp=resolved.resolved_ms
    )


def _resolved(value: ConsumerGroupRegularExpressionValue | None) -> Resolved | None:
    return None if value is None else Resolved(frozenset(value.topics), value.version, value.timestamp)
