"""What one record of a share group means, to and from its bytes. A group changes by updates only, live and in replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.updates import by_topic
from kshim.coordinator.groups.kinds import Pair
from kshim.coordinator.groups.share.state import MEMBER_STABLE
from kshim.coordinator.groups.update_records import build_record, parse_record
from kshim_protocol.internal.consumer_group import TopicPartition as TargetPartitions
from kshim_protocol.internal.share_group import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartitions,
    TopicPartitionsInfo,
)
from kshim_protocol.schema import Struct


class Current(NamedTuple):
    """Where a member is: its epoch, the one before, and what it reads."""

    epoch: int
    previous_epoch: int
    assigned: frozenset[TopicPartition]


class TopicState(NamedTuple):
    """Partitions of one topic that have share state, or for which it is being made."""

    name: str
    partitions: frozenset[int]


class StatePartitions(NamedTuple):
    """For which partitions the share coordinator keeps state: being made, made, and topics whose state is being deleted.

    All by the id of the topic; `deleting` has names.
    """

    initializing: Mapping[bytes, TopicState] = {}
    initialized: Mapping[bytes, TopicState] = {}
    deleting: Mapping[bytes, str] = {}

    def are_initialized(self) -> frozenset[TopicPartition]:
        """The partitions whose state is there."""
        return frozenset(
            (topic_id, index) for topic_id, topic in self.initialized.items() for index in topic.partitions
        )


class MemberMetadata(NamedTuple):
    """Type 10: what a member is and subscribes to. None: it is gone."""

    member_id: str
    value: ShareGroupMemberMetadataValue | None


class GroupEpoch(NamedTuple):
    """Type 11. None: the group is gone."""

    value: ShareGroupMetadataValue | None


class TargetEpoch(NamedTuple):
    """Type 12: the target is that of this epoch. None: there is no target any more."""

    value: ShareGroupTargetAssignmentMetadataValue | None


class MemberTarget(NamedTuple):
    """Type 13: what a member is to read."""

    member_id: str
    partitions: frozenset[TopicPartition] | None


class MemberCurrent(NamedTuple):
    """Type 14: where a member is."""

    member_id: str
    current: Current | None


class PartitionStates(NamedTuple):
    """Type 15: for which partitions there is share state. None: for none."""

    states: StatePartitions | None


ShareUpdate = MemberMetadata | GroupEpoch | TargetEpoch | MemberTarget | MemberCurrent | PartitionStates

_NUMBERS: dict[type[ShareUpdate], int] = {
    MemberMetadata: 10,
    GroupEpoch: 11,
    TargetEpoch: 12,
    MemberTarget: 13,
    MemberCurrent: 14,
    PartitionStates: 15,
}

SHARE_UPDATE_TYPES: Final = frozenset(_NUMBERS.values())
"""The types of these records."""


def is_tombstone(update: ShareUpdate) -> bool:
    """Whether its record has no value."""
    return update[-1] is None


def build_share_update(group_id: str, update: ShareUpdate) -> Pair:
    """Key and value of its record. Raises BuildError."""
    number = _NUMBERS[type(update)]
    match update:
        case MemberMetadata(member_id, value):
            return build_record(number, group_id, member_id, value=value)
        case GroupEpoch(group_value) | TargetEpoch(group_value):
            return build_record(number, group_id, value=group_value)
        case MemberTarget(member_id, partitions):
            return build_record(number, group_id, member_id, value=_target_value(partitions))
        case MemberCurrent(member_id, current):
            return build_record(number, group_id, member_id, value=_current_value(current))
        case PartitionStates(states):
            return build_record(number, group_id, value=_states_value(states))


def parse_share_update(key: bytes, value: bytes | None) -> tuple[str, ShareUpdate] | None:
    """(group id, update) of a record; None for any other type of record. Raises ProtocolError."""
    found = parse_record(key, value, SHARE_UPDATE_TYPES)
    if found is None:
        return None
    number, texts, parsed = found
    return texts[0], _update(number, texts[-1], parsed)


def _update(number: int, member_id: str, value: Struct | None) -> ShareUpdate:
    match number:
        case 10:
            assert value is None or isinstance(value, ShareGroupMemberMetadataValue)
            return MemberMetadata(member_id, value)
        case 11:
            assert value is None or isinstance(value, ShareGroupMetadataValue)
            return GroupEpoch(value)
        case 12:
            assert value is None or isinstance(value, ShareGroupTargetAssignmentMetadataValue)
            return TargetEpoch(value)
        case 13:
            assert value is None or isinstance(value, ShareGroupTargetAssignmentMemberValue)
            return MemberTarget(member_id, None if value is None else _partitions(value.topic_partitions))
        case 14:
            assert value is None or isinstance(value, ShareGroupCurrentMemberAssignmentValue)
            return MemberCurrent(member_id, _current(value))
        case _:
            assert value is None or isinstance(value, ShareGroupStatePartitionMetadataValue)
            return PartitionStates(_states(value))


def _partitions(topics: Iterable[TopicPartitions | TargetPartitions]) -> frozenset[TopicPartition]:
    return frozenset((topic.topic_id, index) for topic in topics for index in topic.partitions)


def _target_value(partitions: frozenset[TopicPartition] | None) -> ShareGroupTargetAssignmentMemberValue | None:
    if partitions is None:
        return None
    return ShareGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(
            TargetPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in by_topic(partitions).items()
        )
    )


def _current_value(current: Current | None) -> ShareGroupCurrentMemberAssignmentValue | None:
    if current is None:
        return None
    return ShareGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=MEMBER_STABLE,
        assigned_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in by_topic(current.assigned).items()
        ),
    )


def _current(value: ShareGroupCurrentMemberAssignmentValue | None) -> Current | None:
    if value is None:
        return None
    return Current(value.member_epoch, value.previous_member_epoch, _partitions(value.assigned_partitions))


def _states_value(states: StatePartitions | None) -> ShareGroupStatePartitionMetadataValue | None:
    if states is None:
        return None
    return ShareGroupStatePartitionMetadataValue(
        initializing_topics=_topic_states(states.initializing),
        initialized_topics=_topic_states(states.initialized),
        deleting_topics=tuple(
            TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in sorted(states.deleting.items())
        ),
    )


def _topic_states(topics: Mapping[bytes, TopicState]) -> tuple[TopicPartitionsInfo, ...]:
    return tuple(
        TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=tuple(sorted(topic.partitions)))
        for topic_id, topic in sorted(topics.items())
    )


def _states(value: ShareGroupStatePartitionMetadataValue | None) -> StatePartitions | None:
    if value is None:
        return None
    return StatePartitions(
        _by_id(value.initializing_topics),
        _by_id(value.initialized_topics),
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _by_id(topics: Iterable[TopicPartitionsInfo]) -> dict[bytes, TopicState]:
    return {topic.topic_id: TopicState(topic.topic_name, frozenset(topic.partitions)) for topic in topics}
