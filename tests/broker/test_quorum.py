"""DescribeQuorum: the nodes as the controllers of a Kafka."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from tests.broker.harness import NodeUnderTest, a_node


def described(
    node: NodeUnderTest, name: str = "__cluster_metadata", index: int = 0, version: int = 2
) -> DescribeQuorumResponse:
    topic = TopicData(topic_name=name, partitions=(PartitionData(partition_index=index),))
    answer: DescribeQuorumResponse = node.client().ask(DescribeQuorumRequest(topics=(topic,)), version)
    assert answer.error_code == ErrorCode.NONE
    return answer


def test_all_nodes_are_voters_and_none_is_behind() -> None:
    node = a_node(node_count=3)
    answer = described(node)
    ((partition,),) = [topic.partitions for topic in answer.topics]
    assert partition.error_code == ErrorCode.NONE
    assert partition.leader_id == node.cluster.leadership.controller_id
    assert [voter.replica_id for voter in partition.current_voters] == [1, 2, 3]
    assert {voter.log_end_offset for voter in partition.current_voters} == {partition.high_watermark}
    assert {voter.last_caught_up_timestamp for voter in partition.current_voters} == {node.wall_ms}
    assert [one.node_id for one in answer.nodes] == [1, 2, 3]
    assert all(listener.port for one in answer.nodes for listener in one.listeners)


def test_its_offset_grows_with_time() -> None:
    node = a_node()
    before = described(node).topics[0].partitions[0].high_watermark
    node.pass_ms(2_000)
    assert described(node).topics[0].partitions[0].high_watermark == before + 4


def test_the_first_version_has_neither_times_nor_addresses() -> None:
    answer = described(a_node(), version=0)
    assert answer.nodes == ()
    assert answer.topics[0].partitions[0].current_voters[0].last_fetch_timestamp == -1


def test_nothing_else_has_a_quorum() -> None:
    node = a_node(topics={"orders": 1})
    for name, index in (("orders", 0), ("__cluster_metadata", 1)):
        ((partition,),) = [topic.partitions for topic in described(node, name, index).topics]
        assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
