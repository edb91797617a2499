"""Groups and their offsets."""

from __future__ import annotations

from functools import partial
from typing import Any

from kshim.broker.guards.guard import Call, Rows, changed, guards
from kshim.coordinator.step import RequestContext, Step
from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@guards("JoinGroup")
def join_group(call: Call) -> Step:
    """READ on the group; a refusal names no member."""
    if call.may(Operation.READ, ResourceType.GROUP, call.request.group_id):
        return call.proceed()
    return call.answer(changed(call.request, member_id="").error_response(NO_GROUP, call.version))


class _DescribingContext(RequestContext):
    """The context of a request that may ask for topics later, of which only those count that its client may know of."""

    def __init__(self, call: Call) -> None:
        context = call.context
        super().__init__(
            context.api_version, context.client_id, context.client_host, context.now, real_ms=context.real_ms
        )
        self.leads_shard = context.leads_shard
        self.may_describe = partial(call.may, Operation.DESCRIBE, ResourceType.TOPIC)


@guards("ConsumerGroupHeartbeat", "ShareGroupHeartbeat")
def consumer_group_heartbeat(call: Call) -> Step:
    """READ on the group and DESCRIBE on each topic that it names; topics behind its expression are left out instead."""
    request = call.request
    if not call.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return call.refuse(ResourceType.GROUP)
    if not all(call.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in request.subscribed_topic_names or ()):
        return call.refuse(ResourceType.TOPIC)
    return call._replace(context=_DescribingContext(call)).proceed()


@guards("SyncGroup")
def sync_group(call: Call) -> Step:
    """READ on the group; as in Kafka what the request lacks is refused before."""
    request = call.request
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return call.answer(request.error_response(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, call.version))
    return call.proceed_if(Operation.READ, ResourceType.GROUP, request.group_id)


@guards("ListGroups")
def list_groups(call: Call) -> Step:
    """All groups for clients that may DESCRIBE the cluster; otherwise those that they may DESCRIBE."""
    if call.may(Operation.DESCRIBE, ResourceType.CLUSTER):
        return call.proceed()

    def merge(response: Any) -> Any:
        return changed(
            response,
            groups=tuple(
                group for group in response.groups if call.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
            ),
        )

    return call.proceed(merge=merge)


@guards("OffsetFetch")
def offset_fetch(call: Call) -> Step:
    """DESCRIBE on the group and on the topics; where all are asked for, the others are left out."""
    if call.version >= 8:
        return _fetch_groups(call)
    request = call.request
    if not call.may(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        return call.refuse(ResourceType.GROUP)
    if request.topics is None:
        return call.proceed(
            merge=lambda response: changed(response, topics=call.split_topics(response.topics, Operation.DESCRIBE)[0])
        )
    return call.split(Rows("topics", "topics", Operation.DESCRIBE, refused=_refused_before_v8, always_asks=True))


def _refused_before_v8(topic: Any) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=NO_TOPIC)
            for index in topic.partition_indexes
        ),
    )


def _fetch_groups(call: Call) -> Step:
    asked: list[OffsetFetchRequestGroup] = []
    refused: list[OffsetFetchResponseGroup] = []
    hidden: dict[str, tuple[OffsetFetchResponseTopics, ...]] = {}
    for group in call.request.groups:
        if not call.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            refused.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=NO_GROUP))
            continue
        if group.topics is not None:
            allowed, others = call.split_topics(group.topics, Operation.DESCRIBE)
            hidden[group.group_id] = tuple(_refused(topic) for topic in others)
            group = changed(group, topics=allowed)
        asked.append(group)
    if not asked:
        return call.answer(OffsetFetchResponse(groups=tuple(refused)))

    def visible(group: Any) -> Any:
        rows = hidden.get(group.group_id)
        if rows is None:  # all topics were asked for
            return changed(group, topics=call.split_topics(group.topics, Operation.DESCRIBE)[0])
        return group if group.error_code else changed(group, topics=(*group.topics, *rows))

    return call.proceed(
        changed(call.request, groups=tuple(asked)),
        lambda response: changed(response, groups=(*(visible(group) for group in response.groups), *refused)),
    )


def _refused(topic: Any) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=NO_TOPIC)
            for index in topic.partition_indexes
        ),
    )
