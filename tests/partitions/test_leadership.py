"""Who leads which partition: of new topics, after a restart, after a node has stopped or a partition has moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kshim_protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.describe_cluster import DescribeClusterRequest
from kshim_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from kshim_protocol.records.batch import parse_batch_header
from tests.broker.data_plane import a_batch, produce
from tests.broker.full_disk import FullDisk
from tests.broker.harness import NodeUnderTest, a_node, files_in


def leaders(node: NodeUnderTest, topic: str) -> list[int]:
    found = node.cluster.topics.named(topic)
    assert found is not None
    return [partition.leader.leader_id for partition in found.partitions]


def epochs(node: NodeUnderTest, topic: str) -> list[int]:
    found = node.cluster.topics.named(topic)
    assert found is not None
    return [partition.leader.leader_epoch for partition in found.partitions]


def metadata(node: NodeUnderTest, topic: str, *, node_id: int = 1) -> MetadataResponse:
    return node.client(node_id=node_id).ask(
        MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
    )


def described(node: NodeUnderTest, topic: str, *, node_id: int = 1) -> tuple[MetadataResponsePartition, ...]:
    return metadata(node, topic, node_id=node_id).topics[0].partitions


def test_nodes_get_partitions_in_turn_from_topic_to_topic() -> None:
    node = a_node(topics={"a": 2, "b": 5, "c": 1}, node_count=3)
    assert (leaders(node, "a"), leaders(node, "b"), leaders(node, "c")) == ([1, 2], [3, 1, 2, 3, 1], [2])


def test_a_node_that_is_alone_leads_all_and_stores_nothing_of_it() -> None:
    node = a_node(topics={"a": 3})
    assert leaders(node, "a") == [1, 1, 1]
    assert [partition.leader for partition in node.cluster.topics.named("a").partitions] == [(1, 1, 0, ())] * 3  # type: ignore[union-attr]


def test_every_node_tells_of_all_live_nodes_and_of_every_leader() -> None:
    node = a_node(topics={"a": 3}, node_count=3)
    told = [metadata(node, "a", node_id=node_id) for node_id in (1, 2, 3)]
    assert told[0] == told[1] == told[2]
    assert [(broker.node_id, broker.port) for broker in told[0].brokers] == [(1, 9092), (2, 9093), (3, 9094)]
    assert told[0].controller_id == 1
    assert [(each.leader_id, each.leader_epoch, each.isr_nodes) for each in told[0].topics[0].partitions] == [
        (1, 0, (1,)),
        (2, 0, (2,)),
        (3, 0, (3,)),
    ]


def test_the_partitions_of_a_node_that_stops_go_to_the_live_ones() -> None:
    node = a_node(topics={"a": 6}, node_count=3)
    node.cluster.leader_election.stop_node(1)
    assert leaders(node, "a") == [2, 2, 3, 3, 2, 3]
    assert epochs(node, "a") == [1, 0, 0, 1, 0, 0]
    told = metadata(node, "a", node_id=2)
    assert [broker.node_id for broker in told.brokers] == [2, 3]
    assert told.controller_id == 2
    first = told.topics[0].partitions[0]
    assert (first.leader_id, first.replica_nodes, first.isr_nodes, first.offline_replicas) == (2, (1, 2), (2,), (1,))
    cluster = node.client(node_id=3).ask(DescribeClusterRequest(include_cluster_authorized_operations=False))
    assert ([broker.broker_id for broker in cluster.brokers], cluster.controller_id) == ([2, 3], 2)


def test_a_node_that_is_back_leads_new_partitions_and_is_in_sync_for_its_own() -> None:
    node = a_node(topics={"a": 3}, node_count=3)
    node.cluster.leader_election.stop_node(3)
    node.topic("while", 2)
    node.cluster.leader_election.start_node(3)
    node.topic("after", 3)
    assert 3 not in leaders(node, "while")
    assert sorted(leaders(node, "after")) == [1, 2, 3]
    third = described(node, "a")[2]
    assert (third.leader_id, third.replica_nodes, third.isr_nodes, third.offline_replicas) == (2, (3, 2), (3, 2), ())


def test_stopping_and_starting_twice_is_once() -> None:
    node = a_node(topics={"a": 3}, node_count=3)
    node.cluster.leader_election.stop_node(2)
    before = leaders(node, "a"), epochs(node, "a")
    node.cluster.leader_election.stop_node(2)
    node.cluster.leader_election.start_node(1)
    assert (leaders(node, "a"), epochs(node, "a")) == before


def test_when_all_have_stopped_the_first_that_is_back_leads_all() -> None:
    node = a_node(topics={"a": 3}, node_count=3)
    for node_id in (1, 3, 2):
        node.cluster.leader_election.stop_node(node_id)
    assert (node.cluster.nodes, leaders(node, "a")) == ([], [2, 2, 2])
    node.cluster.leader_election.start_node(3)
    assert leaders(node, "a") == [3, 3, 3]
    assert [each.isr_nodes for each in described(node, "a", node_id=3)] == [(3,), (3,), (3,)]


def test_a_node_there_never_was_cannot_be_stopped_started_or_moved_to() -> None:
    node = a_node(topics={"a": 1}, node_count=2)
    with pytest.raises(LookupError):
        node.cluster.leader_election.stop_node(9)
    with pytest.raises(LookupError):
        node.cluster.leader_election.start_node(9)
    with pytest.raises(LookupError):
        node.cluster.leader_election.move("a", 0, 9)
    with pytest.raises(LookupError):
        node.cluster.leader_election.move("a", 1, 2)
    node.cluster.leader_election.stop_node(2)
    with pytest.raises(ValueError, match="node 2 is stopped"):
        node.cluster.leader_election.move("a", 0, 2)
    assert (leaders(node, "a"), epochs(node, "a")) == ([1], [0])


def test_a_partition_that_moves_belongs_to_its_new_node() -> None:
    node = a_node(topics={"a": 2}, node_count=3)
    node.cluster.leader_election.move("a", 0, 3)
    node.cluster.leader_election.move("a", 0, 3)
    first = described(node, "a")[0]
    assert (first.leader_id, first.leader_epoch, first.replica_nodes, first.isr_nodes) == (3, 1, (3,), (3,))


def test_leaders_and_epochs_outlive_a_restart(tmp_path: Path) -> None:
    node = a_node(topics={"a": 3}, storage=files_in(tmp_path), node_count=3)
    produce(node.client(), "a", a_batch(b"1", b"2"))
    node.cluster.leader_election.move("a", 0, 2)
    node.cluster.leader_election.stop_node(3)
    kept = [partition.leader for partition in node.cluster.topics.named("a").partitions]  # type: ignore[union-attr]
    node.close()
    again = a_node(storage=files_in(tmp_path), node_count=3)
    found = [partition.leader for partition in again.cluster.topics.named("a").partitions]  # type: ignore[union-attr]
    assert found == kept
    assert found == [(2, 2, 1, ((0, 0), (1, 2))), (2, 2, 0, ()), (3, 2, 1, ((1, 0),))]
    again.close()


def test_partitions_of_nodes_that_are_no_more_get_another_leader_and_epoch(tmp_path: Path) -> None:
    node = a_node(topics={"a": 3}, storage=files_in(tmp_path), node_count=3)
    produce(node.client(node_id=3), "a", a_batch(b"1", b"2"), first_partition=2)
    node.close()
    again = a_node(storage=files_in(tmp_path))
    assert (leaders(again, "a"), epochs(again, "a")) == ([1, 1, 1], [0, 1, 1])
    produce(again.client(), "a", a_batch(b"3"), first_partition=2)
    moved = again.cluster.topics.partition("a", 2)
    assert moved is not None
    assert moved.leader == (1, 1, 1, ((0, 0), (1, 2)))
    again.close()


def test_more_nodes_than_before_share_what_one_had(tmp_path: Path) -> None:
    node = a_node(topics={"a": 3}, storage=files_in(tmp_path))
    node.close()
    storage = files_in(tmp_path)
    assert [spec.leaders for spec in storage.load_topics()] == [()]
    again = a_node(storage=storage, node_count=3)
    assert leaders(again, "a") == [1, 2, 3]
    again.close()
    storage = files_in(tmp_path)
    assert [len(spec.leaders) for spec in storage.load_topics()] == [3]
    storage.close()


def test_clients_may_choose_the_leaders_of_new_partitions() -> None:
    node = a_node(node_count=3)
    chosen = ((1, (2,)), (0, (3, 1)))
    created = node.client(node_id=2).ask(
        CreateTopicsRequest(
            topics=(
                CreatableTopic(
                    name="a",
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=tuple(
                        CreatableReplicaAssignment(partition_index=index, broker_ids=(ids[0],)) for index, ids in chosen
                    ),
                    configs=(),
                ),
            ),
            timeout_ms=1_000,
        )
    )
    assert created.topics[0].error_code == ErrorCode.NONE
    grown = node.client(node_id=3).ask(
        CreatePartitionsRequest(
            topics=(
                CreatePartitionsTopic(name="a", count=3, assignments=(CreatePartitionsAssignment(broker_ids=(3,)),)),
            ),
            timeout_ms=1_000,
            validate_only=False,
        )
    )
    assert grown.results[0].error_code == ErrorCode.NONE
    assert leaders(node, "a") == [3, 2, 3]


def test_a_move_that_cannot_be_stored_changes_nothing() -> None:
    disk = FullDisk(is_full=False)
    node = a_node(topics={"a": 2}, storage=disk, node_count=2)
    produce(node.client(), "a", a_batch(b"1"))
    disk.is_full = True
    with pytest.raises(LogError):
        node.cluster.leader_election.move("a", 0, 2)
    assert (leaders(node, "a"), epochs(node, "a")) == ([1, 2], [0, 0])
    produce(node.client(), "a", a_batch(b"2"))
    assert [parse_batch_header(batch).partition_leader_epoch for batch in node.log("a").batches()] == [0, 0]


def test_an_epoch_that_began_in_what_was_lost_begins_where_the_log_ends_now() -> None:
    node = a_node(topics={"a": 1}, node_count=2)
    produce(node.client(), "a", a_batch(b"1"))
    produce(node.client(), "a", a_batch(b"2"))
    node.cluster.leader_election.move("a", 0, 2)
    partition = node.cluster.topics.partition("a", 0)
    assert partition is not None
    assert partition.leader.epochs == ((0, 0), (1, 2))
    log = partition.take_log(LogError("a sync has failed"))
    assert log is not None
    log.truncate_to(1)
    assert partition.give_back(log)
    assert partition.leader.epochs == ((0, 0), (1, 1))


def test_a_node_that_stops_is_replaced_even_if_that_cannot_be_stored() -> None:
    disk = FullDisk(is_full=False)
    node = a_node(topics={"a": 2}, storage=disk, node_count=2, tolerates_defects=True)
    disk.is_full = True
    node.cluster.leader_election.stop_node(1)
    assert leaders(node, "a") == [2, 2]
    assert [type(defect) for defect in node.defects] == [LogError]


def test_the_offsets_topic_is_spread_too() -> None:
    node = a_node({"offsets.topic.num.partitions": "6"}, node_count=3)
    node.cluster.groups.topic()
    assert leaders(node, OFFSETS_TOPIC) == [1, 2, 3, 1, 2, 3]
