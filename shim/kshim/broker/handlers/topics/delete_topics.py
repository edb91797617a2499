"""DeleteTopics: remove topics by name or id, with their records and the offsets committed for them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.partitions.partition import INTERNAL_TOPICS, Topic
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kshim_protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kshim.broker.node import Node


FIRST_VERSION_BY_ID = 6
FIRST_VERSION_DELETION_DISABLED = 3

Wanted = tuple[str | None, bytes]
"""Name and id of a topic as the client gave them; one of them is null or zero."""


@handles(DeleteTopicsRequest)
def delete_topics(node: Node, request: DeleteTopicsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """Delete the topics and answer in the order of the request; a topic given twice is kept and has one result.

    Differs from Kafka on purpose: `__consumer_offsets` is kept (INVALID_REQUEST). Kafka deletes it, and the groups of
    running clients with it.
    """
    version = context.api_version
    if not node.cluster.config.delete_topic_enable:
        is_known = version >= FIRST_VERSION_DELETION_DISABLED
        error = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        raise KafkaError(error, "delete.topic.enable is false")
    if version >= FIRST_VERSION_BY_ID:
        wanted: list[Wanted] = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        wanted = [(name, ZERO_UUID) for name in request.topic_names]
    topics = node.cluster.topics
    found = {want: topics.named(want[0]) if want[0] is not None else topics.with_id(want[1]) for want in wanted}
    times = Counter(found[want] for want in wanted)
    repeated = Counter(wanted)
    results: list[DeletableTopicResult] = []
    allowed: list[Topic] = []
    for (name, topic_id), topic in found.items():
        try:
            _check(
                name,
                topic_id,
                topic,
                is_repeated=repeated[name, topic_id] > 1 or (topic is not None and times[topic] > 1),
            )
            assert topic is not None
            allowed.append(topic)
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.NONE))
        except KafkaError as error:
            results.append(_refused(name, topic_id, error))
    try:
        if allowed:
            node.cluster.delete_topics(allowed, context.now)
    except LogError as error:
        node.cluster.report(error, request)
        failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        results = [
            _refused(result.name, result.topic_id, failure) if result.error_code == ErrorCode.NONE else result
            for result in results
        ]
    return answered(ticket, DeleteTopicsResponse(responses=tuple(results)))


def _check(name: str | None, topic_id: bytes, topic: Topic | None, *, is_repeated: bool) -> None:
    """Raises KafkaError."""
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if is_repeated:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if topic is None:
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
    if topic.name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic.name} is an internal topic and cannot be deleted")


def _refused(name: str | None, topic_id: bytes, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
