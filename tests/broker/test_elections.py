"""ElectLeaders and the partition reassignments. Outcomes as seen on three nodes of Kafka 4.4."""

from __future__ import annotations

from typing import Any

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kshim_protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kshim_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.broker.full_disk import FullDisk
from tests.broker.harness import NodeUnderTest, a_node
from tests.partitions.test_leadership import leaders


def after_a_stop() -> NodeUnderTest:
    """Node 3 is back, but what it led is led by node 2."""
    node = a_node(topics={"orders": 3}, node_count=3)
    node.cluster.leader_election.stop_node(3)
    node.cluster.leader_election.start_node(3)
    assert leaders(node, "orders") == [1, 2, 2]
    return node


def elect(
    node: NodeUnderTest, *places: tuple[str, int], election_type: int = 0, version: int = 2
) -> dict[tuple[str, int], int]:
    wanted = tuple(TopicPartitions(topic=topic, partitions=(index,)) for topic, index in places)
    reply = node.client().ask(
        ElectLeadersRequest(election_type=election_type, topic_partitions=wanted or None), version
    )
    assert reply.error_code == ErrorCode.NONE
    return results(reply)


def results(reply: ElectLeadersResponse) -> dict[tuple[str, int], int]:
    return {
        (topic.topic, each.partition_id): each.error_code
        for topic in reply.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_partition_goes_back_to_its_preferred_leader_in_a_new_epoch(version: int) -> None:
    node = after_a_stop()
    assert elect(node, ("orders", 2), version=version) == {("orders", 2): ErrorCode.NONE}
    assert leaders(node, "orders") == [1, 2, 3]
    third = node.cluster.topics.partition("orders", 2)
    assert third is not None
    assert third.leader.leader_epoch == 2


def test_of_all_partitions_only_those_with_a_new_leader_are_told() -> None:
    node = after_a_stop()
    assert elect(node) == {("orders", 2): ErrorCode.NONE}
    assert elect(node) == {}


def test_what_cannot_or_need_not_be_elected_is_told_for_each() -> None:
    node = after_a_stop()
    node.cluster.leader_election.stop_node(3)
    assert elect(node, ("orders", 0), ("orders", 2), ("orders", 3), ("nothing", 0)) == {
        ("orders", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("orders", 2): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ("orders", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_an_unclean_election_is_never_needed() -> None:
    node = after_a_stop()
    assert elect(node, ("orders", 2), election_type=1) == {("orders", 2): ErrorCode.ELECTION_NOT_NEEDED}
    assert leaders(node, "orders") == [1, 2, 2]


def test_there_are_two_election_types() -> None:
    node = after_a_stop()
    reply = node.client().ask(ElectLeadersRequest(election_type=2, topic_partitions=None))
    assert reply.error_code == ErrorCode.INVALID_REQUEST


def test_an_election_that_cannot_be_stored_changes_nothing() -> None:
    disk = FullDisk(is_full=False)
    node = a_node(topics={"orders": 3}, storage=disk, node_count=3, tolerates_defects=True)
    node.cluster.leader_election.stop_node(3)
    node.cluster.leader_election.start_node(3)
    disk.is_full = True
    assert elect(node) == {("orders", 2): ErrorCode.KAFKA_STORAGE_ERROR}
    assert leaders(node, "orders") == [1, 2, 2]


def reassign(
    node: NodeUnderTest, index: int, replicas: tuple[int, ...] | None, *, topic: str = "orders", **options: Any
) -> tuple[int, str | None]:
    reply: AlterPartitionReassignmentsResponse = node.client().ask(
        AlterPartitionReassignmentsRequest(
            topics=(
                ReassignableTopic(
                    name=topic, partitions=(ReassignablePartition(partition_index=index, replicas=replicas),)
                ),
            ),
            **options,
        )
    )
    assert reply.error_code == ErrorCode.NONE
    result = reply.responses[0].partitions[0]
    assert (reply.responses[0].name, result.partition_index) == (topic, index)
    return result.error_code, result.error_message


def test_a_reassigned_partition_has_moved_when_the_answer_comes() -> None:
    node = a_node(topics={"orders": 3}, node_count=3)
    assert reassign(node, 0, (3,)) == (ErrorCode.NONE, None)
    assert reassign(node, 1, (2,)) == (ErrorCode.NONE, None)
    assert leaders(node, "orders") == [3, 2, 3]
    for topics in (None, (ListPartitionReassignmentsTopics(name="orders", partition_indexes=(0,)),)):
        reply = node.client().ask(ListPartitionReassignmentsRequest(topics=topics))
        assert (reply.error_code, reply.topics) == (ErrorCode.NONE, ())


@pytest.mark.parametrize(
    ("index", "replicas", "error"),
    [
        (0, (), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, (2, 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, (9,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, (-1,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, (2, 3), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (3, (1,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_reassignment_that_cannot_be_changes_nothing(
    index: int, replicas: tuple[int, ...] | None, error: ErrorCode
) -> None:
    node = a_node(topics={"orders": 3}, node_count=3)
    assert reassign(node, index, replicas)[0] == error
    assert leaders(node, "orders") == [1, 2, 3]


def test_another_replication_factor_is_refused_as_such_if_the_client_asks_so() -> None:
    node = a_node(topics={"orders": 3}, node_count=3)
    error, message = reassign(node, 0, (2, 3), allow_replication_factor_change=False)
    assert (error, message) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "the replication factor cannot be changed from 1 to 2",
    )


def test_a_partition_cannot_go_to_a_node_that_is_stopped() -> None:
    node = a_node(topics={"orders": 3}, node_count=3)
    node.cluster.leader_election.stop_node(3)
    assert reassign(node, 0, (3,)) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 3 is stopped")


def test_a_reassignment_that_cannot_be_stored_is_a_storage_error() -> None:
    disk = FullDisk(is_full=False)
    node = a_node(topics={"orders": 3}, storage=disk, node_count=3, tolerates_defects=True)
    disk.is_full = True
    assert reassign(node, 0, (3,))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert leaders(node, "orders") == [1, 2, 3]
