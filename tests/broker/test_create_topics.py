"""CreateTopics checks and makes topics. Errors and their order are those of a live Kafka 4.4 where not said otherwise."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kshim_protocol.schema import ZERO_UUID
from tests.broker.full_disk import FullDisk
from tests.broker.harness import NodeUnderTest, a_node


def a_topic(
    name: str = "orders",
    partitions: int = 1,
    replicas: int = 1,
    *,
    assigned: dict[int, tuple[int, ...]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in (assigned or {}).items()
        ),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()),
    )


def create(
    node: NodeUnderTest, *topics: CreatableTopic, version: int = 7, only_validate: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=only_validate)
    return list(node.client().ask(request, version).topics)


def errors_in(results: list[CreatableTopicResult]) -> list[tuple[str, int]]:
    return [(result.name, result.error_code) for result in results]


def error_of(topic: CreatableTopic, *, existing: dict[str, int] | None = None) -> int:
    """The error for one topic on a fresh node; it always comes with a text and makes nothing."""
    node = a_node(topics=existing)
    (result,) = create(node, topic)
    assert result.error_message
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, ())
    assert len(node.cluster.topics) == len(existing or ())
    return result.error_code


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_made_in_every_version(version: int) -> None:
    node = a_node()
    (result,) = create(node, a_topic("orders", 3), version=version)
    assert (result.name, result.error_code, result.error_message) == ("orders", ErrorCode.NONE, None)
    assert node.cluster.topics.partition_count("orders") == 3
    assert result.topic_id == (node.cluster.topics.topic_id("orders") if version >= 7 else ZERO_UUID)
    assert (result.num_partitions, result.replication_factor) == ((3, 1) if version >= 5 else (-1, -1))


def test_minus_one_asks_for_the_defaults() -> None:
    node = a_node({"num.partitions": "4"})
    (result,) = create(node, a_topic("orders", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (4, 1)
    assert node.cluster.topics.partition_count("orders") == 4


def test_results_stand_in_the_order_of_the_request() -> None:
    node = a_node(topics={"old": 1})
    assert errors_in(create(node, a_topic("z"), a_topic("old"), a_topic("a"), a_topic("a b"), a_topic("m"))) == [
        ("z", ErrorCode.NONE),
        ("old", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("a", ErrorCode.NONE),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("m", ErrorCode.NONE),
    ]


def test_a_name_given_twice_is_refused_once_after_the_others() -> None:
    node = a_node()
    assert errors_in(create(node, a_topic("twice"), a_topic("twice"), a_topic("once"))) == [
        ("once", ErrorCode.NONE),
        ("twice", ErrorCode.INVALID_REQUEST),
    ]
    assert "twice" not in node.cluster.topics


def test_an_empty_request_is_answered_with_nothing() -> None:
    assert create(a_node()) == []


def test_validating_makes_nothing_and_finds_the_same_errors() -> None:
    """Kafka invents a topic id for the answer."""
    node = a_node(topics={"old": 1})
    good, bad = create(node, a_topic("orders", 3), a_topic("old"), only_validate=True)
    assert (good.error_code, good.num_partitions, good.topic_id) == (ErrorCode.NONE, 3, ZERO_UUID)
    assert bad.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert "orders" not in node.cluster.topics


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ü", "a/b", "n\0", "x" * 250])
def test_a_name_that_no_topic_can_have_is_invalid(name: str) -> None:
    assert error_of(a_topic(name)) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_longest_name_has_249_characters() -> None:
    assert errors_in(create(a_node(), a_topic("x" * 249))) == [("x" * 249, ErrorCode.NONE)]


@pytest.mark.parametrize(("existing", "name"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")])
def test_a_name_that_differs_only_in_dots_and_underscores_collides(existing: str, name: str) -> None:
    assert error_of(a_topic(name), existing={existing: 1}) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_of_one_request_do_not_collide_with_each_other() -> None:
    assert errors_in(create(a_node(), a_topic("c.d"), a_topic("c_d"))) == [("c.d", 0), ("c_d", 0)]


@pytest.mark.parametrize("name", ["__cluster_metadata", "__consumer_offsets"])
def test_topics_of_the_broker_itself_are_not_made_for_clients(name: str) -> None:
    """Kafka would make `__consumer_offsets` with any number of partitions."""
    assert error_of(a_topic(name)) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("count", [0, -2])
def test_the_number_of_partitions_is_positive(count: int) -> None:
    assert error_of(a_topic(partitions=count)) == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 2, 3])
def test_there_are_no_more_replicas_than_brokers(factor: int) -> None:
    assert error_of(a_topic(replicas=factor)) == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_request_makes_at_most_10000_topics_and_partitions() -> None:
    node = a_node()
    assert errors_in(create(node, a_topic("a", 6_000), a_topic("b", 6_000), only_validate=True)) == [
        ("a", ErrorCode.POLICY_VIOLATION),
        ("b", ErrorCode.POLICY_VIOLATION),
    ]
    assert errors_in(create(node, a_topic("a", 10_000), only_validate=True)) == [("a", ErrorCode.POLICY_VIOLATION)]
    assert errors_in(create(node, a_topic("a", 9_999), only_validate=True)) == [("a", ErrorCode.NONE)]


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (a_topic("old", 0, 0), ErrorCode.TOPIC_ALREADY_EXISTS),
        (a_topic("a b", 0, 0), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (a_topic(partitions=0, configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (
            a_topic(partitions=-1, replicas=-1, assigned={0: (5,)}, configs={"retention.ms": "x"}),
            ErrorCode.INVALID_CONFIG,
        ),
        (a_topic(partitions=0, replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (a_topic(partitions=0, replicas=5), ErrorCode.INVALID_PARTITIONS),
        (a_topic(partitions=3, replicas=-1, assigned={0: (5,)}), ErrorCode.INVALID_REQUEST),
    ],
)
def test_of_several_mistakes_the_first_in_kafkas_order_is_told(topic: CreatableTopic, error: ErrorCode) -> None:
    assert error_of(topic, existing={"old": 1}) == error


def test_partitions_can_be_assigned_to_brokers_by_the_client() -> None:
    node = a_node()
    (result,) = create(node, a_topic(partitions=-1, replicas=-1, assigned={1: (1,), 0: (1,)}))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (ErrorCode.NONE, 2, 1)
    assert node.cluster.topics.partition_count("orders") == 2


@pytest.mark.parametrize(("partitions", "replicas"), [(2, 1), (-1, 1), (2, -1)])
def test_an_assignment_goes_without_counts(partitions: int, replicas: int) -> None:
    topic = a_topic(partitions=partitions, replicas=replicas, assigned={0: (1,), 1: (1,)})
    assert error_of(topic) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "assigned", [{0: (1,), 2: (1,)}, {1: (1,)}, {0: (5,)}, {0: (1, 1)}, {0: ()}, {0: (1,), 1: (1, 2)}]
)
def test_an_assignment_counts_from_zero_and_names_brokers_that_exist(assigned: dict[int, tuple[int, ...]]) -> None:
    topic = a_topic(partitions=-1, replicas=-1, assigned=assigned)
    assert error_of(topic) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_partition_assigned_twice_is_refused() -> None:
    topic = a_topic(partitions=-1, replicas=-1)
    topic.assignments = (CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),) * 2  # type: ignore[misc]
    assert error_of(topic) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("foo", "1"),
        ("retention.ms", None),
        ("retention.ms", ""),
        ("retention.ms", "x"),
        ("retention.ms", "-5"),
        ("retention.ms", "1_000"),
        ("retention.ms", "0x5"),
        ("preallocate", "yes"),
        ("cleanup.policy", "forget"),
        ("cleanup.policy", "delete,"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "2"),
        ("leader.replication.throttled.replicas", "x"),
        ("leader.replication.throttled.replicas", "*,0:1"),
        ("remote.storage.enable", "true"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(key: str, value: str | None) -> None:
    assert error_of(a_topic(configs={key: value})) == ErrorCode.INVALID_CONFIG


def test_lags_that_contradict_each_other_are_refused() -> None:
    assert (
        error_of(a_topic(configs={"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}))
        == ErrorCode.INVALID_CONFIG
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("retention.ms", " +5 "),
        ("preallocate", "TRUE"),
        ("cleanup.policy", ""),
        ("cleanup.policy", " compact, delete"),
        ("cleanup.policy", "delete,delete"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("leader.replication.throttled.replicas", ""),
        ("min.insync.replicas", "3"),
    ],
)
def test_a_configuration_is_kept_as_it_was_sent(key: str, value: str) -> None:
    node = a_node()
    assert errors_in(create(node, a_topic("orders", configs={key: value}))) == [("orders", ErrorCode.NONE)]
    topic = node.cluster.topics.named("orders")
    assert topic is not None
    assert topic.configs == {key: value}


def test_of_equal_keys_the_last_counts() -> None:
    node = a_node()
    twice = a_topic("orders", configs={"retention.ms": "1"})
    twice.configs = (*twice.configs, CreatableTopicConfig(name="retention.ms", value="2"))  # type: ignore[misc]
    create(node, twice)
    topic = node.cluster.topics.named("orders")
    assert topic is not None
    assert topic.configs == {"retention.ms": "2"}


def test_the_answer_names_every_configuration_with_its_source() -> None:
    node = a_node({"message.max.bytes": "500", "log.retention.hours": "2"})
    (result,) = create(node, a_topic("orders", configs={"cleanup.policy": " compact, delete"}))
    assert result.configs is not None
    assert len(result.configs) == 37
    shown = {config.name: (config.value, config.config_source) for config in result.configs}
    assert shown["cleanup.policy"] == (" compact, delete", 1)
    assert shown["max.message.bytes"] == ("500", 4)
    assert shown["retention.ms"] == ("7200000", 4)
    assert shown["segment.bytes"] == ("1073741824", 5)


def test_a_topic_that_cannot_be_kept_is_a_storage_error_and_is_reported() -> None:
    node = a_node(storage=FullDisk(), tolerates_defects=True)
    assert errors_in(create(node, a_topic("orders"))) == [("orders", ErrorCode.KAFKA_STORAGE_ERROR)]
    assert [str(defect) for defect in node.defects] == ["no space left"]
    assert "orders" not in node.cluster.topics
