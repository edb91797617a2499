"""Metadata: the brokers, and the topics with their partitions; makes topics that are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kshim.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from kshim.broker.request import PendingReply, answered, handles
from kshim.coordinator.step import RequestContext, Step
from kshim.partitions.internal_topics import EVENTS_TOPIC
from kshim.partitions.partition import INTERNAL_TOPICS, Partition, Topic
from kshim.partitions.topic_validator import MAX_PARTITIONS_PER_REQUEST, METADATA_TOPIC, name_problem
from kshim.partitions.topics import NewTopic
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kshim_protocol.rows import Layout, Rows, layout_of
from kshim_protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kshim.broker.leader_election import ClusterNode
    from kshim.broker.node import Node


FIRST_FLEXIBLE_VERSION: Final = 9
FIRST_VERSION_BY_ID = 12
_leader = attrgetter("leader")


@handles(MetadataRequest)
def metadata(node: Node, request: MetadataRequest, context: RequestContext, ticket: PendingReply) -> Step:
    """Describe the cluster and the topics asked for, in the order asked, each once; all topics come in no order.

    Differs from Kafka on purpose: a topic that may be made is made before the answer, which Kafka gives too early (3,
    UNKNOWN_TOPIC_OR_PARTITION) and the client repeats. As in Kafka, names do not count once ids are given, and
    v10 and v11 carry ids that cannot be used.
    """
    version, listener_name = context.api_version, ticket.connection.listener_name
    found = found_topics(node, request, version)
    operations = _topic_operations(request)
    topics = _all_described(node, found, operations, version)
    if len(topics) < len(found):
        asked = request.topics or ()
        if ids := _ids(asked):
            topics = tuple(_with_id(node, topic_id, operations) for topic_id in ids)
        else:
            names = [name or "" for name in _names(asked)]
            failed = _make_missing(node, names, request)
            topics = tuple(_named(node, name, operations, failed) for name in names)
    return answered(ticket, _response(node, request, listener_name, topics))


def found_topics(node: Node, request: MetadataRequest, version: int) -> list[Topic | None]:
    """The topics asked for, None in place of each that there is not. Raises KafkaError INVALID_REQUEST."""
    topics, asked = node.cluster.topics, request.topics
    if (
        asked is not None
        and version < FIRST_VERSION_BY_ID
        and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in asked)
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "topic ids require version 12")
    if asked is None or (version == 0 and not asked):
        return list[Topic | None](topics.listed())
    if ids := _ids(asked):
        return [topics.with_id(topic_id) for topic_id in ids]
    names = _names(asked)
    if None in names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "neither topic name nor id were specified")
    if EVENTS_TOPIC in names:
        tell_history(node, request)
    return [topics.named(name or "") for name in names]


def tell_history(node: Node, request: object) -> None:
    """The topic of the history is there for those who know its name, with all that is known up to now."""
    try:
        node.cluster.tell_history()
    except LogError as problem:
        node.cluster.report(problem, request)


def described(
    node: Node, request: MetadataRequest, version: int, listener_name: str, topics: Sequence[Topic]
) -> MetadataResponse:
    """The answer to a request of these topics."""
    return _response(node, request, listener_name, _all_described(node, topics, _topic_operations(request), version))


def _ids(asked: Iterable[MetadataRequestTopic]) -> dict[bytes, None]:
    return {topic.topic_id: None for topic in asked if topic.topic_id != ZERO_UUID}


def _names(asked: Iterable[MetadataRequestTopic]) -> dict[str | None, None]:
    return {topic.name: None for topic in asked}


def _topic_operations(request: MetadataRequest) -> int:
    return TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED


def _response(
    node: Node, request: MetadataRequest, listener_name: str, topics: Sequence[MetadataResponseTopic]
) -> MetadataResponse:
    return MetadataResponse(
        brokers=tuple(_broker(other, listener_name) for other in node.cluster.nodes),
        cluster_id=node.cluster.cluster_id,
        controller_id=node.cluster.leadership.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _broker(node: ClusterNode, listener_name: str) -> MetadataResponseBroker:
    host, port = node.address(listener_name)
    return MetadataResponseBroker(node_id=node.node_id, host=host, port=port, rack=node.rack)


def _with_id(node: Node, topic_id: bytes, operations: int) -> MetadataResponseTopic:
    topic = node.cluster.topics.with_id(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=())
    return _described(node, topic, operations)


def _named(node: Node, name: str, operations: int, failed: set[str]) -> MetadataResponseTopic:
    topic = node.cluster.topics.named(name)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_problem(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif name in failed:
        error = ErrorCode.KAFKA_STORAGE_ERROR
    if topic is not None:
        return _described(node, topic, operations)
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=operations,
    )


def _make_missing(node: Node, names: list[str], request: MetadataRequest) -> set[str]:
    """Make those topics that are not there and may be made, with the defaults. Returns the names that could not be stored.

    What cannot be made is answered as if it were unknown, as in Kafka; so is what one request has too much of.
    """
    cluster = node.cluster
    if not (request.allow_auto_topic_creation and cluster.config.auto_create_topics_enable):
        return set()
    partition_count = cluster.config.num_partitions
    most = max(MAX_PARTITIONS_PER_REQUEST // (1 + partition_count), 1)
    new: dict[str, NewTopic] = {}
    try:
        for name in names:
            if name in cluster.topics or name_problem(name) is not None or name == METADATA_TOPIC:
                continue
            if name in cluster.coordinators:
                cluster.coordinators[name].topic()
            elif not any(cluster.topics.alike(name)) and len(new) < most:
                new.setdefault(name.replace(".", "_"), NewTopic(name, partition_count, {}))
        cluster.topics.create_all(list(new.values()))
    except LogError as problem:
        cluster.report(problem, request)
        return {name for name in names if name not in cluster.topics}
    return set()


def _all_described(
    node: Node, topics: Sequence[Topic | None], operations: int, version: int
) -> Sequence[MetadataResponseTopic]:
    """These topics, as bytes that are kept; empty when one of them is missing.

    With an authorizer each client sees other ones, so that structs are needed.
    """
    if None in topics or not topics:
        return ()
    if node.cluster.authorizer is not None:
        return tuple(_described(node, topic, operations) for topic in topics if topic is not None)
    layout = _layout(version)
    live_ids = tuple(node.cluster.leadership.live_ids)
    parts = [_kept(node, topic, operations, layout, live_ids) for topic in topics if topic is not None]
    return Rows(layout, len(parts), b"".join(parts))


@cache
def _layout(version: int) -> Layout[MetadataResponseTopic]:
    return layout_of(MetadataResponseTopic, version, is_flexible=version >= FIRST_FLEXIBLE_VERSION)


def _kept(
    node: Node, topic: Topic, operations: int, layout: Layout[MetadataResponseTopic], live_ids: tuple[int, ...]
) -> bytes:
    """The bytes of a topic: as they were made last, unless a partition was added or a leader or live node changed."""
    facts = (live_ids, *map(_leader, topic.partitions))
    kept_facts, data = topic.kept_rows.get((layout, operations), (None, b""))
    if kept_facts != facts:
        data = layout.build(_described(node, topic, operations))
        topic.kept_rows[layout, operations] = facts, data
    return data


def _described(node: Node, topic: Topic, operations: int) -> MetadataResponseTopic:
    live_ids = node.cluster.leadership.live_ids
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(_partition(partition, live_ids) for partition in topic.partitions),
        topic_authorized_operations=operations,
    )


def _partition(partition: Partition, live_ids: list[int]) -> MetadataResponsePartition:
    leader = partition.leader
    replicas, in_sync, offline = leader.replicas(live_ids)
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=in_sync,
        offline_replicas=offline,
    )
