"""What topics there are: seeing, making, growing and deleting them."""

from __future__ import annotations

from typing import Any

from kshim.broker.authorized_operations import NOT_ASKED
from kshim.broker.guards.guard import WORDS, Call, changed, guards
from kshim.coordinator.step import Step
from kshim.security.authorizer.model import Operation, ResourceType
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from kshim_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kshim_protocol.messages.metadata import MetadataResponseTopic
from kshim_protocol.schema import ZERO_UUID

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def may_topic(call: Call, operation: Operation, name: str) -> bool:
    """Whether the caller may do that with a topic."""
    return call.caller.may(operation, ResourceType.TOPIC, name)


@guards("Metadata")
def metadata(call: Call) -> Step:
    """DESCRIBE on the topics: the others are left out where all are asked for, else refused as if unknown to exist.

    A topic that would be made needs CREATE on itself or on the cluster. Operations are those of the caller.
    """
    request = call.request
    asks_all = request.topics is None or (call.version == 0 and not request.topics)
    allowed, refused = ((), ()) if asks_all else _named(call)

    def merge(response: Any) -> Any:
        rows = response.topics
        if asks_all:
            rows = tuple(row for row in rows if may_topic(call, Operation.DESCRIBE, row.name))
        elif not allowed:  # v0 has no way to ask for no topic at all
            rows = ()
        operations = response.cluster_authorized_operations
        if operations != NOT_ASKED:
            operations = cluster_operations(call)
        return changed(
            response,
            topics=(*(_told(call, row) for row in rows), *refused),
            cluster_authorized_operations=operations,
        )

    return call.proceed(request if asks_all else changed(request, topics=allowed), merge)


def cluster_operations(call: Call) -> int:
    """The bit field of the cluster: 0 for clients that may not DESCRIBE it."""
    if call.caller.may(Operation.DESCRIBE, ResourceType.CLUSTER):
        return call.caller.operations(ResourceType.CLUSTER)
    return 0


def _named(call: Call) -> tuple[tuple[Any, ...], tuple[MetadataResponseTopic, ...]]:
    """The rows of a Metadata request that may be asked, and the answers to the others."""
    request, topics = call.request, call.node.cluster.topics
    has_ids = any(row.topic_id != ZERO_UUID for row in request.topics)
    makes_topics = request.allow_auto_topic_creation and call.node.cluster.config.auto_create_topics_enable
    may_create_all = call.caller.may(Operation.CREATE, ResourceType.CLUSTER)
    allowed = []
    refused = []
    for row in request.topics:
        name = call.topic_name(row)
        if name is None or (has_ids and row.topic_id == ZERO_UUID):
            allowed.append(row)  # an unknown id, or a name that does not count beside ids
        elif not may_topic(call, Operation.DESCRIBE, name):
            # The answer names a topic as the request did, by name or by id, and does not show the other.
            shown = (None, row.topic_id) if has_ids else (name, ZERO_UUID)
            refused.append(_metadata_refusal(*shown))
        elif (
            makes_topics
            and topics.named(name) is None
            and not may_create_all
            and not may_topic(call, Operation.CREATE, name)
        ):
            refused.append(_metadata_refusal(name, ZERO_UUID))
        else:
            allowed.append(row)
    return tuple(allowed), tuple(refused)


def _metadata_refusal(name: str | None, topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=REFUSED, name=name, topic_id=topic_id, partitions=())


def _told(call: Call, row: Any) -> Any:
    """A topic with what the caller may do with it, where that was asked for."""
    if row.topic_authorized_operations == NOT_ASKED or row.name is None:
        return row
    return changed(row, topic_authorized_operations=call.caller.operations(ResourceType.TOPIC, row.name))


@guards("DescribeTopicPartitions")
def describe_topic_partitions(call: Call) -> Step:
    """DESCRIBE on the topics; none named asks for those that may be described."""
    request = call.request
    names = [row.name for row in request.topics]
    refused: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    if names:
        refused = tuple(
            DescribeTopicPartitionsResponseTopic(error_code=REFUSED, name=name, topic_id=ZERO_UUID, partitions=())
            for name in dict.fromkeys(names)
            if not may_topic(call, Operation.DESCRIBE, name)
        )
    else:
        names = [topic.name for topic in call.node.cluster.topics]
    allowed = [name for name in names if may_topic(call, Operation.DESCRIBE, name)]
    cursor = request.cursor
    if not request.topics and cursor is not None:  # it may stand on a topic that is gone, or hidden by now
        allowed = sorted(name for name in allowed if name >= cursor.topic_name)
        if allowed and cursor.topic_name != allowed[0]:
            cursor = None
    if not allowed:
        return call.answer(DescribeTopicPartitionsResponse(topics=refused))
    rows = tuple(TopicRequest(name=name) for name in allowed)
    return call.proceed(
        changed(request, topics=rows, cursor=cursor),
        lambda response: changed(response, topics=(*(_told(call, row) for row in response.topics), *refused)),
    )


@guards("DeleteTopics")
def delete_topics(call: Call) -> Step:
    """DELETE on the cluster or on the topics; what may not be described is refused whether it exists or not."""
    request = call.request
    if call.caller.may(Operation.DELETE, ResourceType.CLUSTER):
        return call.proceed()
    if call.version < 6:
        allowed_names = []
        refused = []
        for name in request.topic_names:
            if may_topic(call, Operation.DELETE, name) or _is_missing(call, name):
                allowed_names.append(name)
            else:
                refused.append(_delete_refusal(name, ZERO_UUID))
        part = changed(request, topic_names=tuple(allowed_names))
        is_empty = not allowed_names
    else:
        allowed = []
        refused = []
        for row in request.topics:
            by_id = row.topic_id != ZERO_UUID
            topic = call.node.cluster.topics.with_id(row.topic_id) if by_id else None
            name = (None if topic is None else topic.name) if by_id else row.name
            if name is None or may_topic(call, Operation.DELETE, name) or (not by_id and _is_missing(call, name)):
                allowed.append(row)
            elif by_id:
                shown = name if may_topic(call, Operation.DESCRIBE, name) else None
                refused.append(_delete_refusal(shown, row.topic_id))
            else:
                refused.append(_delete_refusal(name, ZERO_UUID))
        part = changed(request, topics=tuple(allowed))
        is_empty = not allowed
    if not refused:
        return call.proceed()
    if is_empty:
        return call.answer(DeleteTopicsResponse(responses=tuple(refused)))
    return call.proceed(part, lambda response: changed(response, responses=(*response.responses, *refused)))


def _is_missing(call: Call, name: str) -> bool:
    """Whether the handler may say that there is no such topic."""
    return call.node.cluster.topics.named(name) is None and may_topic(call, Operation.DESCRIBE, name)


def _delete_refusal(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=REFUSED, error_message=WORDS[REFUSED])
