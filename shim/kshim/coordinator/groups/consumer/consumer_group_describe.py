"""ConsumerGroupDescribe: epochs, members and assignments of groups of the new protocol.

Source: Kafka's GroupMetadataManager.consumerGroupDescribe and GroupCoordinatorService.consumerGroupDescribe.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.group import ConsumerGroup, Member
from kshim.coordinator.groups.consumer.plan import preferred_assignor
from kshim.coordinator.groups.consumer.updates import by_topic
from kshim.coordinator.groups.describe_groups import ALL_OPERATIONS, NOT_ASKED
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.runtime import FindShard
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    TopicPartitions,
)
from kshim_protocol.messages.consumer_group_describe import Member as DescribedMember

_CLASSIC, _CONSUMER = 0, 1


def consumer_group_describe(
    find_shard: FindShard[Shard],
    request: ConsumerGroupDescribeRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """One entry a group, each with its own error: INVALID_GROUP_ID (those first), GROUP_ID_NOT_FOUND."""
    group_ids = sorted(request.group_ids, key=lambda group_id: group_id != "")
    groups = tuple(_describe(find_shard, group_id, request) for group_id in group_ids)
    step.reply(ticket, ConsumerGroupDescribeResponse(groups=groups))


def _describe(find_shard: FindShard[Shard], group_id: str, request: ConsumerGroupDescribeRequest) -> DescribedGroup:
    try:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        shard = find_shard(group_id)
        shard.require_loaded()
        group = shard.consumer_group(group_id)
    except KafkaError as error:
        return DescribedGroup(
            error_code=error.code,
            error_message=error.message,
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=(),
        )
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group, shard.config.default_assignor),
        members=tuple(_member(group, member, shard.topics) for member in group.members.values()),
        authorized_operations=ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED,
    )


def _member(group: ConsumerGroup, member: Member, topics: TopicCatalog) -> DescribedMember:
    """Its assignment is all that is in its hands, what it has still to give up included."""
    metadata, current = member.metadata, member.current
    return DescribedMember(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=current.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        subscribed_topic_regex=metadata.subscribed_topic_regex,
        assignment=_assignment((*current.assigned, *current.pending_revocation), topics),
        target_assignment=_assignment(group.targets.get(member.member_id, ()), topics),
        member_type=_CLASSIC if member.is_classic else _CONSUMER,
    )


def _assignment(partitions: Iterable[TopicPartition], topics: TopicCatalog) -> Assignment:
    """Without topics that are deleted."""
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
            for topic_id, indexes in by_topic(partitions).items()
            if (name := topics.topic_name(topic_id)) is not None
        )
    )
