"""ShareGroupDescribe: epochs, members and assignments of share groups.

Source: Kafka's GroupMetadataManager.shareGroupDescribe and GroupCoordinatorService.shareGroupDescribe.
"""

from __future__ import annotations

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.consumer.updates import by_topic
from kshim.coordinator.groups.describe_groups import ALL_OPERATIONS, NOT_ASKED
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.share.group import ShareMember
from kshim.coordinator.groups.share.simple_assignor import SIMPLE
from kshim.coordinator.runtime import FindShard
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)


def share_group_describe(
    find_shard: FindShard[Shard],
    request: ShareGroupDescribeRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """One entry a group, each with its own error: INVALID_GROUP_ID (those first), GROUP_ID_NOT_FOUND."""
    group_ids = sorted(request.group_ids, key=lambda group_id: group_id != "")
    groups = tuple(_describe(find_shard, group_id, request) for group_id in group_ids)
    step.reply(ticket, ShareGroupDescribeResponse(groups=groups))


def _describe(find_shard: FindShard[Shard], group_id: str, request: ShareGroupDescribeRequest) -> DescribedGroup:
    try:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        shard = find_shard(group_id)
        shard.require_loaded()
        group = shard.share_group(group_id)
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
        assignor_name=SIMPLE,
        members=tuple(_member(member, shard.topics) for member in group.members.values()),
        authorized_operations=ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED,
    )


def _member(member: ShareMember, topics: TopicCatalog) -> Member:
    """With the partitions of topics that still exist."""
    metadata, current = member.metadata, member.current
    return Member(
        member_id=member.member_id,
        rack_id=metadata.rack_id,
        member_epoch=current.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        assignment=Assignment(
            topic_partitions=tuple(
                TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
                for topic_id, indexes in by_topic(current.assigned).items()
                if (name := topics.topic_name(topic_id)) is not None
            )
        ),
    )
