"""Groups and their offsets."""

from __future__ import annotations

from typing import Any

from kshim.broker.authorized_operations import NOT_ASKED
from kshim.broker.guards.guard import WORDS, Call, changed, guards
from kshim.coordinator.step import Step
from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.offset_delete import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
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


def may_group(call: Call, operation: Operation, group_id: str) -> bool:
    """Whether the caller may do that with a group."""
    return call.caller.may(operation, ResourceType.GROUP, group_id)


@guards("Heartbeat", "LeaveGroup")
def membership(call: Call) -> Step:
    """READ on the group."""
    return call.proceed() if may_group(call, Operation.READ, call.request.group_id) else call.refuse(NO_GROUP)


@guards("JoinGroup")
def join_group(call: Call) -> Step:
    """READ on the group; a refusal names no member."""
    if may_group(call, Operation.READ, call.request.group_id):
        return call.proceed()
    return call.answer(changed(call.request, member_id="").error_response(NO_GROUP, call.version))


@guards("SyncGroup")
def sync_group(call: Call) -> Step:
    """READ on the group; as in Kafka what the request lacks is refused before."""
    request = call.request
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return call.answer(request.error_response(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, call.version))
    return membership(call)


@guards("DescribeGroups")
def describe_groups(call: Call) -> Step:
    """DESCRIBE on each group; adds the authorized operations."""
    request = call.request
    allowed = tuple(name for name in request.groups if may_group(call, Operation.DESCRIBE, name))
    refused = tuple(name for name in request.groups if name not in allowed)
    refusal = changed(request, groups=refused).error_response(NO_GROUP, call.version, WORDS[NO_GROUP])
    if not allowed and refused:
        return call.answer(refusal)

    def merge(response: Any) -> Any:
        return changed(response, groups=(*(visible(group) for group in response.groups), *refusal.groups))

    def visible(group: Any) -> Any:
        if group.authorized_operations == NOT_ASKED:
            return group
        return changed(group, authorized_operations=call.caller.operations(ResourceType.GROUP, group.group_id))

    return call.proceed(changed(request, groups=allowed), merge)


@guards("ListGroups")
def list_groups(call: Call) -> Step:
    """All groups for clients that may DESCRIBE the cluster; otherwise those that they may DESCRIBE."""
    if call.caller.may(Operation.DESCRIBE, ResourceType.CLUSTER):
        return call.proceed()

    def merge(response: Any) -> Any:
        return changed(
            response,
            groups=tuple(group for group in response.groups if may_group(call, Operation.DESCRIBE, group.group_id)),
        )

    return call.proceed(merge=merge)


@guards("DeleteGroups")
def delete_groups(call: Call) -> Step:
    """DELETE on each group."""
    names = call.request.groups_names
    allowed = tuple(name for name in names if may_group(call, Operation.DELETE, name))
    refused = tuple(name for name in names if name not in allowed)
    return call.split("groups_names", "results", allowed, refused, NO_GROUP)


@guards("OffsetCommit")
def offset_commit(call: Call) -> Step:
    """READ on the group and on the topics."""
    if not may_group(call, Operation.READ, call.request.group_id):
        return call.refuse(NO_GROUP)
    return call.split("topics", "topics", *call.split_topics(call.request.topics, Operation.READ), NO_TOPIC)


@guards("TxnOffsetCommit")
def txn_offset_commit(call: Call) -> Step:
    """WRITE on the transactional id, READ on the group and on the topics."""
    if not call.caller.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, call.request.transactional_id):
        return call.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return offset_commit(call)


@guards("OffsetDelete")
def offset_delete(call: Call) -> Step:
    """DELETE on the group, READ on the topics."""
    request = call.request
    if not may_group(call, Operation.DELETE, request.group_id):
        return call.refuse(NO_GROUP)
    allowed, refused = call.split_topics(request.topics, Operation.READ)
    if not refused:
        return call.proceed()
    rows = tuple(
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=NO_TOPIC)
                for partition in topic.partitions
            ),
        )
        for topic in refused
    )
    return call.proceed(
        changed(request, topics=allowed),
        lambda response: response if response.error_code else changed(response, topics=(*response.topics, *rows)),
    )


@guards("OffsetFetch")
def offset_fetch(call: Call) -> Step:
    """DESCRIBE on the group and on the topics; where all are asked for, the others are left out."""
    if call.version >= 8:
        return _fetch_groups(call)
    request = call.request
    if not may_group(call, Operation.DESCRIBE, request.group_id):
        return call.refuse(NO_GROUP)
    if request.topics is None:
        return call.proceed(
            merge=lambda response: changed(response, topics=call.split_topics(response.topics, Operation.DESCRIBE)[0])
        )
    allowed, refused = call.split_topics(request.topics, Operation.DESCRIBE)
    if not refused:
        return call.proceed()
    rows = tuple(
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, metadata="", error_code=NO_TOPIC
                )
                for index in topic.partition_indexes
            ),
        )
        for topic in refused
    )
    return call.proceed(
        changed(request, topics=allowed),
        lambda response: response if response.error_code else changed(response, topics=(*response.topics, *rows)),
    )


def _fetch_groups(call: Call) -> Step:
    asked: list[OffsetFetchRequestGroup] = []
    refused: list[OffsetFetchResponseGroup] = []
    hidden: dict[str, tuple[OffsetFetchResponseTopics, ...]] = {}
    for group in call.request.groups:
        if not may_group(call, Operation.DESCRIBE, group.group_id):
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
