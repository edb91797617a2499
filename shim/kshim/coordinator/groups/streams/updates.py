"""What one record of a streams group means, to and from its bytes. A group changes by updates only, live and in replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kshim.coordinator.groups.kinds import Pair
from kshim.coordinator.groups.streams.reconciliation import Current
from kshim.coordinator.groups.streams.state import MemberState
from kshim.coordinator.groups.streams.task_assignor import Task
from kshim.coordinator.groups.streams.tasks import HeldTasks, Tasks, by_subtopology
from kshim.coordinator.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from kshim.coordinator.groups.update_records import build_record, parse_record
from kshim_protocol.internal import streams_group as records
from kshim_protocol.internal import streams_group_target as target_records
from kshim_protocol.internal.streams_group import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
    TaskIds,
)
from kshim_protocol.internal.streams_group_target import StreamsGroupTargetAssignmentMemberValue
from kshim_protocol.messages import streams_group_heartbeat as messages
from kshim_protocol.schema import Struct


class GroupEpoch(NamedTuple):
    """Type 17. None: the group is gone."""

    value: StreamsGroupMetadataValue | None


class MemberMetadata(NamedTuple):
    """Type 19: what a member is. None: it is gone."""

    member_id: str
    value: StreamsGroupMemberMetadataValue | None


class TargetEpoch(NamedTuple):
    """Type 20: the target is that of this epoch. None: there is no target any more."""

    value: StreamsGroupTargetAssignmentMetadataValue | None


class MemberTarget(NamedTuple):
    """Type 21: what a member is to run."""

    member_id: str
    tasks: Tasks | None


class MemberCurrent(NamedTuple):
    """Type 22: what a member runs, and how far it is."""

    member_id: str
    current: Current | None


class GroupTopology(NamedTuple):
    """Type 23: what the application is made of. None: nobody knows any more."""

    topology: Topology | None


StreamsUpdate = GroupEpoch | MemberMetadata | TargetEpoch | MemberTarget | MemberCurrent | GroupTopology

_NUMBERS: dict[type[StreamsUpdate], int] = {
    GroupEpoch: 17,
    MemberMetadata: 19,
    TargetEpoch: 20,
    MemberTarget: 21,
    MemberCurrent: 22,
    GroupTopology: 23,
}

STREAMS_UPDATE_TYPES: Final = frozenset(_NUMBERS.values())
"""The types of these records."""

_STATES = {int(state): state for state in MemberState}


def is_tombstone(update: StreamsUpdate) -> bool:
    """Whether its record has no value."""
    return update[-1] is None


def build_streams_update(group_id: str, update: StreamsUpdate) -> Pair:
    """Key and value of its record. Raises BuildError."""
    number = _NUMBERS[type(update)]
    match update:  # the most frequent first
        case MemberCurrent(member_id, current):
            return build_record(number, group_id, member_id, value=_current_value(current))
        case MemberTarget(member_id, tasks):
            return build_record(number, group_id, member_id, value=_target_value(tasks))
        case GroupEpoch(group_value) | TargetEpoch(group_value):
            return build_record(number, group_id, value=group_value)
        case MemberMetadata(member_id, metadata):
            return build_record(number, group_id, member_id, value=metadata)
        case GroupTopology(topology):
            return build_record(number, group_id, value=_topology_value(topology))


def parse_streams_update(key: bytes, value: bytes | None) -> tuple[str, StreamsUpdate] | None:
    """(group id, update) of a record; None for any other type of record. Raises ProtocolError."""
    found = parse_record(key, value, STREAMS_UPDATE_TYPES)
    if found is None:
        return None
    number, texts, parsed = found
    return texts[0], _update(number, texts[-1], parsed)


def _update(number: int, member_id: str, value: Struct | None) -> StreamsUpdate:
    match number:
        case 17:
            assert value is None or isinstance(value, StreamsGroupMetadataValue)
            return GroupEpoch(value)
        case 19:
            assert value is None or isinstance(value, StreamsGroupMemberMetadataValue)
            return MemberMetadata(member_id, value)
        case 20:
            assert value is None or isinstance(value, StreamsGroupTargetAssignmentMetadataValue)
            return TargetEpoch(value)
        case 21:
            assert value is None or isinstance(value, StreamsGroupTargetAssignmentMemberValue)
            return MemberTarget(member_id, _target(value))
        case 22:
            assert value is None or isinstance(value, StreamsGroupCurrentMemberAssignmentValue)
            return MemberCurrent(member_id, _current(value))
        case _:
            assert value is None or isinstance(value, StreamsGroupTopologyValue)
            return GroupTopology(None if value is None else topology_of(value))


# Tasks


def _tasks(entries: Iterable[TaskIds | target_records.TaskIds]) -> frozenset[Task]:
    return frozenset((entry.subtopology_id, index) for entry in entries for index in entry.partitions)


def _target(value: StreamsGroupTargetAssignmentMemberValue | None) -> Tasks | None:
    if value is None:
        return None
    return Tasks(_tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks))


def _target_value(tasks: Tasks | None) -> StreamsGroupTargetAssignmentMemberValue | None:
    if tasks is None:
        return None
    active, standby, warmup = (
        tuple(
            target_records.TaskIds(subtopology_id=subtopology_id, partitions=indexes)
            for subtopology_id, indexes in by_subtopology(each).items()
        )
        for each in tasks
    )
    return StreamsGroupTargetAssignmentMemberValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def _current(value: StreamsGroupCurrentMemberAssignmentValue | None) -> Current | None:
    if value is None:
        return None
    return Current(
        value.member_epoch,
        value.previous_member_epoch,
        _STATES.get(value.state, MemberState.UNKNOWN),
        HeldTasks(
            _since(value.active_tasks, value.member_epoch), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)
        ),
        HeldTasks(
            _since(value.active_tasks_pending_revocation, value.member_epoch),
            _tasks(value.standby_tasks_pending_revocation),
            _tasks(value.warmup_tasks_pending_revocation),
        ),
    )


def _since(entries: Iterable[TaskIds], member_epoch: int) -> dict[Task, int]:
    """Active tasks with their epochs; without as many of these, they are taken for assigned in the member's."""
    found: dict[Task, int] = {}
    for entry in entries:
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            epochs = (member_epoch,) * len(entry.partitions)
        found.update(
            ((entry.subtopology_id, index), epoch) for index, epoch in zip(entry.partitions, epochs, strict=True)
        )
    return found


def _current_value(current: Current | None) -> StreamsGroupCurrentMemberAssignmentValue | None:
    if current is None:
        return None
    assigned, pending = current.assigned, current.pending_revocation
    return StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        active_tasks=_active_entries(assigned.active),
        standby_tasks=_entries(assigned.standby),
        warmup_tasks=_entries(assigned.warmup),
        active_tasks_pending_revocation=_active_entries(pending.active),
        standby_tasks_pending_revocation=_entries(pending.standby),
        warmup_tasks_pending_revocation=_entries(pending.warmup),
    )


def _active_entries(tasks: Mapping[Task, int]) -> tuple[TaskIds, ...]:
    return tuple(
        TaskIds(
            subtopology_id=subtopology_id,
            partitions=indexes,
            assignment_epochs=tuple(tasks[subtopology_id, index] for index in indexes),
        )
        for subtopology_id, indexes in by_subtopology(tasks).items()
    )


def _entries(tasks: Iterable[Task]) -> tuple[TaskIds, ...]:
    """Replicas, which have no epochs."""
    return tuple(
        TaskIds(subtopology_id=subtopology_id, partitions=indexes)
        for subtopology_id, indexes in by_subtopology(tasks).items()
    )


# The topology


def topology_of(value: StreamsGroupTopologyValue | messages.Topology) -> Topology:
    """What a record or a member says the application is made of."""
    return Topology(
        value.epoch,
        tuple(
            Subtopology(
                each.subtopology_id,
                each.source_topics,
                each.source_topic_regex,
                tuple(map(_topic, each.state_changelog_topics)),
                each.repartition_sink_topics,
                tuple(map(_topic, each.repartition_source_topics)),
                tuple(
                    CopartitionGroup(group.source_topics, group.source_topic_regex, group.repartition_source_topics)
                    for group in each.copartition_groups
                ),
            )
            for each in value.subtopologies
        ),
    )


def _topic(value: records.TopicInfo | messages.TopicInfo) -> TopicInfo:
    return TopicInfo(
        value.name,
        value.partitions,
        value.replication_factor,
        tuple((config.key, config.value) for config in value.topic_configs),
    )


def _topology_value(topology: Topology | None) -> StreamsGroupTopologyValue | None:
    if topology is None:
        return None
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=tuple(
            records.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                state_changelog_topics=tuple(map(_topic_value, each.state_changelog_topics)),
                repartition_sink_topics=each.repartition_sink_topics,
                repartition_source_topics=tuple(map(_topic_value, each.repartition_source_topics)),
                copartition_groups=tuple(
                    records.CopartitionGroup(
                        source_topics=group.source_topics,
                        source_topic_regex=group.source_topic_regex,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in each.copartition_groups
                ),
            )
            for each in topology.subtopologies
        ),
    )


def _topic_value(topic: TopicInfo) -> records.TopicInfo:
    return records.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=tuple(records.TopicConfig(key=key, value=value) for key, value in topic.topic_configs),
    )
