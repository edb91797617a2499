"""DescribeTopicPartitions: topics sorted by name, in pages of a limited number of partitions (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.authorized_operations import TOPIC_OPERATIONS
from kshim.broker.handlers.topics.metadata import tell_history
from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.partitions.internal_topics import EVENTS_TOPIC
from kshim.partitions.partition import INTERNAL_TOPICS
from kshim.partitions.topic_validator import name_problem
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kshim_protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.partitions.partition import Partition, Topic


@handles(DescribeTopicPartitionsRequest)
def describe_topic_partitions(
    node: Node, request: DescribeTopicPartitionsRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """Describe the topics asked for, or all, from the cursor on.

    A page holds at least one partition and at most max.request.partition.size.limit; unknown topics cost nothing. A
    cursor must stand on one of the topics named, checked live on 4.4. An empty name is answered
    INVALID_TOPIC_EXCEPTION as other bad names are; Kafka fails on it with UNKNOWN_SERVER_ERROR.
    """
    cluster = node.cluster
    named = {topic.name for topic in request.topics}
    if EVENTS_TOPIC in named:
        tell_history(node, request)
    names = sorted(named or {topic.name for topic in cluster.topics.listed()})
    first_index = 0
    cursor = request.cursor
    if cursor is not None:
        if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the topic of the cursor is not among the requested topics")
        names = [name for name in names if name >= cursor.topic_name]
        if names and names[0] == cursor.topic_name:
            first_index = cursor.partition_index
    left = max(1, min(request.response_partition_limit, cluster.config.max_request_partition_size_limit))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Cursor | None = None
    for name in names:
        if left == 0:
            next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = cluster.topics.named(name)
        start, first_index = first_index, 0
        if topic is None:
            topics.append(_unknown(name))
            continue
        end = min(len(topic.partitions), start + left)
        topics.append(_described(node, topic, range(start, end)))
        left -= max(0, end - start)
        if end < len(topic.partitions):
            next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return answered(ticket, DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=next_cursor))


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_possible = name_problem(name) is None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_possible else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _described(node: Node, topic: Topic, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    live_ids = node.cluster.leadership.live_ids
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(_partition(topic.partitions[index], live_ids) for index in indexes),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(partition: Partition, live_ids: list[int]) -> DescribeTopicPartitionsResponsePartition:
    leader = partition.leader
    replicas, in_sync, offline = leader.replicas(live_ids)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=in_sync,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=offline,
    )
