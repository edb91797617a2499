"""CreatePartitions grows topics. Errors are those of a live Kafka 4.4 where not said otherwise."""

from __future__ import annotations

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.full_disk import FullDisk
from tests.broker.harness import NodeUnderTest, a_node


@pytest.fixture
def node() -> NodeUnderTest:
    return a_node(topics={"a": 2, "b": 1})


def to(name: str, count: int, *assigned: tuple[int, ...], is_assigned: bool = False) -> CreatePartitionsTopic:
    assignments = tuple(CreatePartitionsAssignment(broker_ids=ids) for ids in assigned)
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments if assigned or is_assigned else None)


def grow(
    node: NodeUnderTest, *topics: CreatePartitionsTopic, version: int = 3, only_validate: bool = False
) -> list[CreatePartitionsTopicResult]:
    request = CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=only_validate)
    return list(node.client().ask(request, version).results)


def errors_in(results: list[CreatePartitionsTopicResult]) -> list[tuple[str, int]]:
    return [(result.name, result.error_code) for result in results]


def count_of(node: NodeUnderTest, name: str) -> int | None:
    return node.cluster.topics.partition_count(name)


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_in_every_version_and_clients_see_it(node: NodeUnderTest, version: int) -> None:
    assert errors_in(grow(node, to("a", 5), version=version)) == [("a", ErrorCode.NONE)]
    asked = MetadataRequest(topics=(MetadataRequestTopic(name="a"),))
    (topic,) = node.client().ask(asked).topics
    assert [partition.partition_index for partition in topic.partitions] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_a_topic_never_shrinks_or_stays(node: NodeUnderTest, count: int) -> None:
    (result,) = grow(node, to("a", count))
    assert result.error_code == ErrorCode.INVALID_PARTITIONS
    assert result.error_message
    assert count_of(node, "a") == 2


def test_validating_changes_nothing(node: NodeUnderTest) -> None:
    assert errors_in(grow(node, to("a", 5), to("b", 0), only_validate=True)) == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.INVALID_PARTITIONS),
    ]
    assert count_of(node, "a") == 2


@pytest.mark.parametrize("name", ["nope", "bad name", ""])
def test_a_topic_that_does_not_exist_is_unknown(node: NodeUnderTest, name: str) -> None:
    (result,) = grow(node, to(name, 5))
    assert (result.error_code, result.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


def test_a_topic_given_twice_stays_as_it_is_and_the_others_grow(node: NodeUnderTest) -> None:
    assert errors_in(grow(node, to("a", 3), to("b", 2), to("a", 3))) == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.NONE),
    ]
    assert (count_of(node, "a"), count_of(node, "b")) == (2, 2)


def test_a_request_adds_at_most_10000_partitions(node: NodeUnderTest) -> None:
    assert errors_in(grow(node, to("a", 6_002), to("b", 6_001), to("nope", 1), only_validate=True)) == [
        ("a", ErrorCode.POLICY_VIOLATION),
        ("b", ErrorCode.POLICY_VIOLATION),
        ("nope", ErrorCode.POLICY_VIOLATION),
    ]
    assert errors_in(grow(node, to("a", 10_003), only_validate=True)) == [("a", ErrorCode.POLICY_VIOLATION)]
    assert errors_in(grow(node, to("a", 10_002), only_validate=True)) == [("a", ErrorCode.NONE)]


def test_topics_that_cannot_grow_do_not_count(node: NodeUnderTest) -> None:
    assert errors_in(grow(node, to("nope", 20_000), to("b", 20_000), to("b", 20_000), to("a", 3))) == [
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", ErrorCode.INVALID_REQUEST),
        ("a", ErrorCode.NONE),
    ]


def test_new_partitions_can_be_assigned_to_brokers_by_the_client(node: NodeUnderTest) -> None:
    assert errors_in(grow(node, to("a", 4, (1,), (1,)))) == [("a", ErrorCode.NONE)]
    assert count_of(node, "a") == 4


@pytest.mark.parametrize(
    "assigned", [[], [(1,)], [(1,), (1,), (1,)], [(1,), (7,)], [(1,), (1, 1)], [(1,), ()], [(1,), (1, 2)]]
)
def test_an_assignment_is_one_existing_broker_for_every_new_partition(
    node: NodeUnderTest, assigned: list[tuple[int, ...]]
) -> None:
    (result,) = grow(node, to("a", 4, *assigned, is_assigned=True))
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert count_of(node, "a") == 2


def test_the_offsets_topic_keeps_its_partitions(node: NodeUnderTest) -> None:
    """Kafka lets it grow, which moves groups to partitions where their offsets are not."""
    count = len(node.cluster.groups.topic().partitions)
    results = grow(node, to("__consumer_offsets", count + 1))
    assert errors_in(results) == [("__consumer_offsets", ErrorCode.INVALID_PARTITIONS)]


def test_a_topic_that_cannot_be_kept_larger_stays_as_it_was() -> None:
    disk = FullDisk(is_full=False)
    node = a_node(topics={"a": 2}, storage=disk, tolerates_defects=True)
    disk.is_full = True
    assert errors_in(grow(node, to("a", 5))) == [("a", ErrorCode.KAFKA_STORAGE_ERROR)]
    assert [str(defect) for defect in node.defects] == ["no space left"]
    assert count_of(node, "a") == 2
