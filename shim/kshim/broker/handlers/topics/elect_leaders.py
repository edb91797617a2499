"""ElectLeaders: give partitions back to their preferred leaders (KIP-183, KIP-460)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kshim.broker.node import Node
    from kshim.partitions.partition import Partition


PREFERRED, UNCLEAN = 0, 1


@handles(ElectLeadersRequest)
def elect_leaders(node: Node, request: ElectLeadersRequest, context: RequestContext, ticket: Ticket) -> Step:
    """Elect, and answer for each partition named; when all are meant, for each topic with those that need an election.

    An unclean election is never needed: every live node has all records. Kafka: ReplicationControlManager.electLeaders.
    Raises KafkaError INVALID_REQUEST for an election type there is not.
    """
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown election type {request.election_type}")
    names_all = request.topic_partitions is None
    results: dict[str, dict[int, PartitionResult]] = {}
    elected: dict[Partition, PartitionResult] = {}
    for topic, index in _wanted(node, request):
        error, message = _refusal(node, topic, index, request.election_type)
        result = PartitionResult(partition_id=index, error_code=error, error_message=message)
        of_topic = results.setdefault(topic, {})
        if error != ErrorCode.ELECTION_NOT_NEEDED or not names_all:
            of_topic[index] = result
        partition = node.cluster.topics.partition(topic, index)
        if error == ErrorCode.NONE and partition is not None:
            elected[partition] = result
    if elected:
        _elect(node, request, elected)
    return answered(
        ticket,
        ElectLeadersResponse(
            error_code=ErrorCode.NONE,
            replica_election_results=tuple(
                ReplicaElectionResult(topic=topic, partition_result=tuple(found.values()))
                for topic, found in results.items()
            ),
        ),
    )


def _wanted(node: Node, request: ElectLeadersRequest) -> Iterable[tuple[str, int]]:
    if request.topic_partitions is None:
        return [(topic.name, partition.index) for topic in node.cluster.topics for partition in topic.partitions]
    return [(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions]


def _refusal(node: Node, topic: str, index: int, election_type: int) -> tuple[ErrorCode, str | None]:
    """Why no leader is elected, or NONE when one is to be."""
    if topic not in node.cluster.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist"
    partition = node.cluster.topics.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {topic}-{index} does not exist"
    leader = partition.leader
    if election_type == UNCLEAN or leader.leader_id == leader.preferred_id:
        return ErrorCode.ELECTION_NOT_NEEDED, None
    if leader.preferred_id not in node.cluster.leadership.live_ids:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, None
    return ErrorCode.NONE, None


def _elect(node: Node, request: ElectLeadersRequest, elected: dict[Partition, PartitionResult]) -> None:
    try:
        node.cluster.leader_election.elect(elected)
    except LogError as error:
        node.cluster.report(error, request)
        for result in elected.values():
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR  # type: ignore[misc]
            result.error_message = str(error)  # type: ignore[misc]
