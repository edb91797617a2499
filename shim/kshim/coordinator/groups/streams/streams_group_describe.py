"""StreamsGroupDescribe: epochs, topology, members and tasks of streams groups.

Source: Kafka's GroupMetadataManager.streamsGroupDescribe, StreamsGroup.asDescribedGroup and GroupCoordinatorService.streamsGroupDescribe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kshim.coordinator.groups.describe_groups import ALL_OPERATIONS, NOT_ASKED
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.streams.configured_topology import ConfiguredSubtopology
from kshim.coordinator.groups.streams.group import StreamsGroup, StreamsMember, TaskOffsets
from kshim.coordinator.groups.streams.task_assignor import STICKY, Task
from kshim.coordinator.groups.streams.tasks import HeldTasks, Tasks, by_subtopology
from kshim.coordinator.groups.streams.topology import Subtopology as GroupSubtopology
from kshim.coordinator.groups.streams.topology import TopicInfo as InternalTopic
from kshim.coordinator.runtime import FindShard
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

_NOT_STORED: Final = 1
"""The status of a description that was asked for: without a plugin of the broker none is kept."""


def streams_group_describe(
    find_shard: FindShard[Shard],
    request: StreamsGroupDescribeRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """One entry a group, each with its own error: INVALID_GROUP_ID (those first), GROUP_ID_NOT_FOUND."""
    group_ids = sorted(request.group_ids, key=lambda group_id: group_id != "")
    groups = tuple(_describe(find_shard, group_id, request) for group_id in group_ids)
    step.reply(ticket, StreamsGroupDescribeResponse(groups=groups))


def _describe(find_shard: FindShard[Shard], group_id: str, request: StreamsGroupDescribeRequest) -> DescribedGroup:
    try:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        shard = find_shard(group_id)
        shard.require_loaded()
        group = shard.streams_group(group_id)
    except KafkaError as error:
        return DescribedGroup(
            error_code=error.code,
            error_message=error.message,
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            members=(),
        )
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=tuple(_member(group, group.members[name]) for name in group.member_ids()),
        authorized_operations=ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED,
        topology_description_status=_NOT_STORED if request.include_topology_description else 0,
        assignor_name=STICKY,
    )


def _topology(group: StreamsGroup) -> Topology | None:
    """With the partitions that were decided once it is ready, before as the first member said it."""
    topology, configured = group.topology, group.memory.configured
    if topology is None:
        return None
    parts: Iterable[ConfiguredSubtopology | GroupSubtopology] = topology.subtopologies
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        parts = configured.subtopologies.values()
    return Topology(
        epoch=topology.epoch,
        subtopologies=tuple(
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=tuple(sorted(each.source_topics)),
                repartition_sink_topics=tuple(sorted(each.repartition_sink_topics)),
                state_changelog_topics=_topics(each.state_changelog_topics),
                repartition_source_topics=_topics(each.repartition_source_topics),
            )
            for each in sorted(parts, key=lambda each: each.subtopology_id)
        ),
    )


def _topics(topics: Iterable[InternalTopic]) -> tuple[TopicInfo, ...]:
    return tuple(
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=tuple(KeyValue(key=key, value=value) for key, value in topic.topic_configs),
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    )


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    metadata, current = member.metadata, member.current
    offsets = group.memory.task_offsets.get(member.member_id, TaskOffsets())
    endpoint = metadata.user_endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=current.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=tuple(KeyValue(key=tag.key, value=tag.value) for tag in metadata.client_tags),
        task_offsets=_offsets(offsets.offsets),
        task_end_offsets=_offsets(offsets.end_offsets),
        assignment=_assignment(current.assigned),
        target_assignment=_assignment(group.target(member.member_id)),
        is_classic=False,
    )


def _assignment(tasks: HeldTasks | Tasks) -> Assignment:
    active, standby, warmup = (
        tuple(TaskIds(subtopology_id=name, partitions=partitions) for name, partitions in by_subtopology(each).items())
        for each in tasks
    )
    return Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def _offsets(offsets: Mapping[Task, int]) -> tuple[TaskOffset, ...]:
    return tuple(
        TaskOffset(subtopology_id=name, partition=index, offset=offsets[name, index]) for name, index in sorted(offsets)
    )
