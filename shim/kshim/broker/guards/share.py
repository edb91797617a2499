"""Share groups: their records and their offsets."""

from __future__ import annotations

from functools import partial
from typing import Any

from kshim.broker.guards.guard import WORDS, Call, Rows, changed, guards
from kshim.coordinator.step import RequestContext, Step
from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kshim_protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic
from kshim_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kshim_protocol.schema import ZERO_UUID

NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NOT_KNOWN = -1


class _ReadingContext(RequestContext):
    """The context of a request that goes on with a session, which has more topics than the request names."""

    def __init__(self, call: Call) -> None:
        context = call.context
        super().__init__(
            context.api_version, context.client_id, context.client_host, context.now, real_ms=context.real_ms
        )
        self.may_read = partial(call.may, Operation.READ, ResourceType.TOPIC)


@guards("ShareFetch", "ShareAcknowledge")
def share_records(call: Call) -> Step:
    """READ on the group, and on each topic of the session, whenever it is read."""
    group_id = call.request.group_id
    if group_id is not None and not call.may(Operation.READ, ResourceType.GROUP, group_id):
        return call.refuse(ResourceType.GROUP)
    return call._replace(context=_ReadingContext(call)).proceed()


@guards("AlterShareGroupOffsets")
def alter_share_group_offsets(call: Call) -> Step:
    """READ on the group and on the topics. A group that has an error says it, even where no topic is allowed."""
    if not call.may(Operation.READ, ResourceType.GROUP, call.request.group_id):
        return call.refuse(ResourceType.GROUP)
    return call.split(Rows("topics", "responses", Operation.READ, refused=_not_altered, always_asks=True))


def _not_altered(topic: Any) -> AlterShareGroupOffsetsResponseTopic:
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=ZERO_UUID,
        partitions=tuple(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=one.partition_index, error_code=NO_TOPIC, error_message=WORDS[NO_TOPIC]
            )
            for one in topic.partitions
        ),
    )


@guards("DeleteShareGroupOffsets")
def delete_share_group_offsets(call: Call) -> Step:
    """DELETE on the group, READ on the topics; an error of the group is said as above."""
    if not call.may(Operation.DELETE, ResourceType.GROUP, call.request.group_id):
        return call.refuse(ResourceType.GROUP)
    return call.split(Rows("topics", "responses", Operation.READ, refused=_not_deleted, always_asks=True))


def _not_deleted(topic: Any) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, topic_id=ZERO_UUID, error_code=NO_TOPIC, error_message=WORDS[NO_TOPIC]
    )


@guards("DescribeShareGroupOffsets")
def describe_share_group_offsets(call: Call) -> Step:
    """DESCRIBE on the groups and on the topics; where all topics are asked for, the others are left out."""
    asked: list[DescribeShareGroupOffsetsRequestGroup] = []
    refused: list[DescribeShareGroupOffsetsResponseGroup] = []
    hidden: dict[str, tuple[DescribeShareGroupOffsetsResponseTopic, ...]] = {}
    for group in call.request.groups:
        if not call.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            refused.append(
                DescribeShareGroupOffsetsResponseGroup(
                    group_id=group.group_id, topics=(), error_code=NO_GROUP, error_message=WORDS[NO_GROUP]
                )
            )
            continue
        if group.topics is not None:
            allowed, others = call.split_topics(group.topics, Operation.DESCRIBE)
            hidden[group.group_id] = tuple(_not_described(topic) for topic in others)
            group = changed(group, topics=allowed)
        asked.append(group)
    if not asked:
        return call.answer(DescribeShareGroupOffsetsResponse(groups=tuple(refused)))

    def visible(group: Any) -> Any:
        rows = hidden.get(group.group_id)
        if rows is None:  # all topics were asked for
            return changed(group, topics=call.split_topics(group.topics, Operation.DESCRIBE)[0])
        return group if group.error_code else changed(group, topics=(*group.topics, *rows))

    return call.proceed(
        changed(call.request, groups=tuple(asked)),
        lambda response: changed(response, groups=(*(visible(group) for group in response.groups), *refused)),
    )


def _not_described(topic: Any) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=ZERO_UUID,
        partitions=tuple(
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=_NOT_KNOWN,
                leader_epoch=0,
                error_code=NO_TOPIC,
                error_message=WORDS[NO_TOPIC],
            )
            for index in topic.partitions
        ),
    )
