"""WriteTxnMarkers: an admin ends a transaction in a partition. What is refused is a live Kafka 4.4's, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.support.broker import Deadline
from integration.support.kafka import RealKafka
from kshim.tools.client import Client as WireClient
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kshim_protocol.partitioner import partition_for
from tests.broker.both import Both
from tests.broker.harness import NodeUnderTest, a_node, files_in
from tests.broker.transactional import TransactionalProducer, committed_offset, committed_values

OFFSETS = "__consumer_offsets"
MARKERS = ((3, 5, True), (3, 5, False), (2, 5, True), (3, 4, True), (4, 5, True), (4, 6, True))
"""Producer epoch, coordinator epoch, whether it commits; in this order some are refused."""


def marker(
    topics: dict[str, tuple[int, ...]],
    *,
    producer_id: int,
    producer_epoch: int = 0,
    commit: bool = False,
    coordinator_epoch: int = 0,
) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=commit,
        topics=tuple(WritableTxnMarkerTopic(name=name, partition_indexes=each) for name, each in topics.items()),
        coordinator_epoch=coordinator_epoch,
    )


def errors(answer: WriteTxnMarkersResponse) -> list[int]:
    return [row.error_code for each in answer.markers for topic in each.topics for row in topic.partitions]


@pytest.fixture
def node(at_both_levels: int) -> NodeUnderTest:
    return a_node(topics={"orders": 2})


@pytest.mark.parametrize(("commit", "seen"), [(False, []), (True, [b"v"])])
@pytest.mark.parametrize("version", [1, 2])
def test_a_hanging_transaction_ends(node: NodeUnderTest, version: int, commit: bool, seen: list[bytes]) -> None:
    client = node.client()
    producer = TransactionalProducer(client)
    producer.write("orders", 0, b"v")
    request = WriteTxnMarkersRequest(
        markers=(
            marker(
                {"orders": (0,)},
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                commit=commit,
            ),
        )
    )
    assert errors(client.ask(request, version)) == [ErrorCode.NONE]
    partition = node.cluster.topics.partition("orders", 0)
    assert partition is not None
    assert partition.last_stable_offset == partition.high_watermark == 2
    assert committed_values(client, "orders", 0) == seen


@pytest.mark.parametrize(("commit", "offset"), [(False, -1), (True, 7)])
def test_what_is_pending_for_a_group_ends_too(node: NodeUnderTest, commit: bool, offset: int) -> None:
    client = node.client()
    producer = TransactionalProducer(client)
    producer.commit_offset("g", "orders", 7)
    shard = node.cluster.groups.coordinator.partition_for("g")
    row = marker({OFFSETS: (shard,)}, producer_id=producer.producer_id, commit=commit)
    assert errors(client.ask(WriteTxnMarkersRequest(markers=(row,)))) == [ErrorCode.NONE]
    assert committed_offset(client, "g", "orders") == (offset, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("producer_epoch", "coordinator_epoch", "error"),
    [(0, 5, ErrorCode.INVALID_PRODUCER_EPOCH), (1, 3, ErrorCode.TRANSACTION_COORDINATOR_FENCED)],
)
def test_an_outdated_marker_does_not_end_what_is_pending_for_a_group(
    node: NodeUnderTest, producer_epoch: int, coordinator_epoch: int, error: ErrorCode
) -> None:
    client = node.client()
    TransactionalProducer(client)
    producer = TransactionalProducer(client)  # epoch 1
    producer.commit_offset("g", "orders", 6)
    shard = node.cluster.groups.coordinator.partition_for("g")
    row = marker({OFFSETS: (shard,)}, producer_id=producer.producer_id, producer_epoch=1, coordinator_epoch=4)
    assert errors(client.ask(WriteTxnMarkersRequest(markers=(row,)))) == [ErrorCode.NONE]
    producer.commit_offset("g", "orders", 7)
    end_offset = node.log(OFFSETS, shard).end_offset
    row = marker(
        {OFFSETS: (shard,)},
        producer_id=producer.producer_id,
        producer_epoch=producer_epoch,
        commit=True,
        coordinator_epoch=coordinator_epoch,
    )
    assert errors(client.ask(WriteTxnMarkersRequest(markers=(row,)))) == [error]
    assert committed_offset(client, "g", "orders") == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert node.log(OFFSETS, shard).end_offset == end_offset


def test_the_answer_waits_until_the_marker_survives_power_loss(tmp_path: Path) -> None:
    node = a_node(topics={"orders": 1}, storage=files_in(tmp_path), fsync="always")
    client = node.client()
    client.send(WriteTxnMarkersRequest(markers=(marker({"orders": (0,)}, producer_id=5),)))
    assert client.is_waiting
    node.pass_ms(1000)
    node.run_background_tasks()
    assert errors(client.take(WriteTxnMarkersResponse)) == [ErrorCode.NONE]
    node.close()


def test_only_the_leader_writes_markers() -> None:
    node = a_node(node_count=2, topics={"orders": 2})
    other = {1: 2, 2: 1}[node.cluster.leader_of("orders", 0)]
    answer = node.client(node_id=other).ask(
        WriteTxnMarkersRequest(markers=(marker({"orders": (0, 1)}, producer_id=5),))
    )
    assert errors(answer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]


@pytest.fixture
def both(real_kafka: RealKafka) -> Iterator[Both]:
    host, _, port = real_kafka.bootstrap.rpartition(":")
    kafka = WireClient(host, int(port), client_id="markers-like-kafka", timeout_s=30)
    yield Both(kafka, a_node())
    kafka.close()


@pytest.mark.kafka
@pytest.mark.parametrize("version", [1, 2])
def test_markers_to_groups_are_taken_and_refused_alike(both: Both, version: int) -> None:
    asked = FindCoordinatorRequest(key="markers-like-kafka", key_type=0)
    deadline = Deadline(30)
    for side in (both.kafka, both.node):
        while side.ask(asked, 3).error_code != ErrorCode.NONE:
            deadline.check("the offsets topic appears")
    while both.kafka.ask(DescribeGroupsRequest(groups=("markers-like-kafka",)), 5).groups[0].error_code != (
        ErrorCode.NONE
    ):
        deadline.check("the shard is loaded")
    home = partition_for("markers-like-kafka", 50)
    for epoch, coordinator_epoch, commit in MARKERS:
        row = marker(
            {OFFSETS: (home, 99)},
            producer_id=987_000 + version,
            producer_epoch=epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
        )
        both.ask(WriteTxnMarkersRequest(markers=(row,)), version)


@pytest.mark.kafka
@pytest.mark.parametrize("version", [1, 2])
def test_markers_are_taken_and_refused_alike(both: Both, version: int) -> None:
    for epoch, coordinator_epoch, commit in MARKERS:
        row = marker(
            {both.topic: (0, 2, 9), f"{both.prefix}.nope": (0,)},
            producer_id=987_654,
            producer_epoch=epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
        )
        both.ask(WriteTxnMarkersRequest(markers=(row,)), version)
    both.ask(WriteTxnMarkersRequest(markers=()), version)
