"""Which source partitions can be asked for where, for interactive queries: one entry for each member with an endpoint.

Source: Kafka's EndpointToPartitionsManager and StreamsGroup.buildEndpointToPartitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.groups.streams.configured_topology import ConfiguredSubtopology, ConfiguredTopology
from kshim.coordinator.groups.streams.group import StreamsGroup, StreamsMember
from kshim.coordinator.groups.streams.task_assignor import Task
from kshim.coordinator.groups.streams.tasks import by_subtopology
from kshim.coordinator.hash_order import hash_map_order
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(
    group: StreamsGroup, member: StreamsMember, configured: ConfiguredTopology, topics: TopicCatalog
) -> tuple[EndpointToPartitions, ...]:
    """Of all members with an endpoint; `member`, the one that asks, stands last, as it is after its heartbeat.

    Raises KafkaError: UNKNOWN_SERVER_ERROR, as in Kafka, where a member has an endpoint and its source topics are missing.
    """
    others = [name for name in group.member_ids() if name != member.member_id]
    return tuple(
        _entry(each, configured, topics)
        for each in (*(group.members[name] for name in others), member)
        if each.metadata.user_endpoint is not None
    )


def _entry(member: StreamsMember, configured: ConfiguredTopology, topics: TopicCatalog) -> EndpointToPartitions:
    endpoint, assigned = member.metadata.user_endpoint, member.current.assigned
    assert endpoint is not None, member.member_id
    if configured.subtopologies is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=endpoint.host, port=endpoint.port),
        active_partitions=tuple(_partitions(assigned.active, configured.subtopologies, topics)),
        standby_partitions=tuple(_partitions(assigned.standby | assigned.warmup, configured.subtopologies, topics)),
    )


def _partitions(
    tasks: Iterable[Task], subtopologies: Mapping[str, ConfiguredSubtopology], topics: TopicCatalog
) -> Iterator[TopicPartition]:
    by_id = by_subtopology(tasks)
    for subtopology_id in hash_map_order(by_id):
        subtopology = subtopologies[subtopology_id]
        names = [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]
        for name in hash_map_order(names):
            count = topics.partition_count(name) or 0
            partitions = tuple(index for index in by_id[subtopology_id] if index < count)
            if partitions:
                yield TopicPartition(topic=name, partitions=partitions)
