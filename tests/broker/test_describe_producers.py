"""DescribeProducers: who writes to a partition (KIP-664). Outcomes as seen on Kafka 4.4."""

from __future__ import annotations

from kshim.partitions.transaction_markers import append_marker
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from tests.broker.data_plane import a_batch
from tests.broker.harness import START_WALL_MS, NodeUnderTest


def describe(node: NodeUnderTest, topic: str, index: int = 0) -> PartitionResponse:
    request = DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=(index,)),))
    (answered,) = node.client().ask(request).topics
    (partition,) = answered.partitions
    return partition


def test_a_producer_is_described_from_its_first_batch_to_its_marker(node: NodeUnderTest) -> None:
    partition = node.cluster.topics.partition("orders", 0)
    assert partition is not None
    batch = a_batch(b"a", b"b", producer_id=7, producer_epoch=3, base_sequence=5, is_transactional=True)
    partition.append(a_batch())
    partition.append(batch)
    assert describe(node, "orders").active_producers == (
        ProducerState(
            producer_id=7,
            producer_epoch=3,
            last_sequence=6,
            last_timestamp=START_WALL_MS + 1,
            coordinator_epoch=-1,
            current_txn_start_offset=1,
        ),
    )
    append_marker(
        partition,
        producer_id=7,
        producer_epoch=4,
        is_commit=False,
        coordinator_epoch=2,
        now_ms=START_WALL_MS + 9,
    )
    assert describe(node, "orders").active_producers == (
        ProducerState(
            producer_id=7,
            producer_epoch=4,
            last_sequence=-1,
            last_timestamp=START_WALL_MS + 9,
            coordinator_epoch=2,
            current_txn_start_offset=-1,
        ),
    )


def test_a_partition_without_producers_has_none(node: NodeUnderTest) -> None:
    answer = describe(node, "clicks")
    assert (answer.error_code, answer.active_producers) == (ErrorCode.NONE, ())


def test_what_is_not_there_is_refused(node: NodeUnderTest) -> None:
    assert describe(node, "orders", 9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(node, "nothing").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(node, "a b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
