"""Metadata and admin requests beside a real Kafka 4.4: the same requests, the same answers.

Texts, addresses and the order of results are left out of the comparison. What differs on purpose is tested and named
in the test module of each API.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.support.kafka import RealKafka
from kshim.tools.client import Client as WireClient
from kshim.tools.kafka_apis import KAFKA_APIS
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kshim_protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
)
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kshim_protocol.messages.describe_cluster import DescribeClusterRequest
from kshim_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kshim_protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.schema import ZERO_UUID
from tests.broker.both import NOWHERE, Both, a_topic
from tests.broker.harness import a_node

pytestmark = pytest.mark.kafka

SHARE_KEY = "group:AAAAAAAAAAAAAAAAAAAAAA:0"


@pytest.fixture
def both(real_kafka: RealKafka) -> Iterator[Both]:
    host, _, port = real_kafka.bootstrap.rpartition(":")
    kafka = WireClient(host, int(port), client_id="admin-like-kafka", timeout_s=30)
    yield Both(kafka, a_node())
    kafka.close()


@pytest.mark.parametrize(
    ("name", "software_version", "cluster_id", "node_id"),
    [
        ("", "1", None, -1),
        ("a", "", None, -1),
        ("a b", "1", None, -1),
        ("-a", "1", None, -1),
        ("a-", "1", None, -1),
        ("a_b", "1", None, -1),
        ("a", "1", "elsewhere", -1),
        ("a", "1", "elsewhere", 1),
        ("a", "1", None, 1),
        ("a", "1", "", -1),
    ],
)
def test_clients_that_came_to_the_wrong_place_are_refused_alike(
    both: Both, name: str, software_version: str, cluster_id: str | None, node_id: int
) -> None:
    request = ApiVersionsRequest(
        client_software_name=name, client_software_version=software_version, cluster_id=cluster_id, node_id=node_id
    )
    assert both.ask(request, 5)["error_code"] != ErrorCode.NONE


def test_what_is_known_of_kafkas_apis_is_what_it_offers(both: Both) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    offered = {each.api_key: (each.min_version, each.max_version) for each in both.kafka.ask(request, 4).api_keys}
    known = {key: versions for key, (_, versions) in KAFKA_APIS.items()}
    assert offered == {**known, 0: (0, known[0][1])}  # Produce is told from 0, for old clients


@pytest.mark.parametrize("version", range(14))
def test_topics_are_described_alike_in_every_version(both: Both, version: int) -> None:
    asked = tuple(MetadataRequestTopic(name=name) for name in (both.topic, both.other, both.topic))
    if version < 4:
        both.ask(MetadataRequest(topics=asked), version)
    else:
        both.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False), version)


@pytest.mark.parametrize("version", range(4, 14))
def test_topics_that_are_not_there_are_described_alike(both: Both, version: int) -> None:
    names = ("", ".", "a b", "ü", "x" * 250, f"{both.prefix}.nope", "__cluster_metadata")
    asked = tuple(MetadataRequestTopic(name=name) for name in names)
    both.ask(
        MetadataRequest(
            topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=version >= 8
        ),
        version,
    )


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_topics_are_found_by_id_alike(both: Both, version: int) -> None:
    def request(topic_id: bytes) -> MetadataRequest:
        asked = [MetadataRequestTopic(topic_id=id_, name=None) for id_ in (topic_id, NOWHERE)]
        asked.append(MetadataRequestTopic(name=both.other))
        return MetadataRequest(topics=tuple(asked), allow_auto_topic_creation=False)

    theirs, ours = both.id_of(both.topic)
    both.compare(request(theirs), request(ours), version)


@pytest.mark.parametrize("version", range(8, 11))
def test_operations_are_told_alike(both: Both, version: int) -> None:
    both.ask(
        MetadataRequest(
            topics=(MetadataRequestTopic(name=both.topic),),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
        version,
    )


@pytest.mark.parametrize("version", range(4))
def test_the_coordinator_of_one_group_is_found_alike(both: Both, version: int) -> None:
    both.ask(FindCoordinatorRequest(key="g"), version)
    if version >= 1:
        both.ask(FindCoordinatorRequest(key="g", key_type=9), version)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_the_coordinators_of_many_groups_are_found_alike(both: Both, version: int) -> None:
    both.ask(FindCoordinatorRequest(coordinator_keys=("b", "", "a", "b")), version)
    both.ask(FindCoordinatorRequest(coordinator_keys=()), version)
    both.ask(FindCoordinatorRequest(coordinator_keys=("a", "b"), key_type=-1), version)


def test_share_keys_are_refused_alike(both: Both) -> None:
    both.ask(FindCoordinatorRequest(coordinator_keys=(SHARE_KEY,), key_type=2), 5)
    both.ask(FindCoordinatorRequest(coordinator_keys=("g",), key_type=2), 6)


REFUSED_TOPICS = {
    "no-partitions": a_topic("n", 0),
    "minus-two-partitions": a_topic("n", -2),
    "no-replicas": a_topic("n", 1, 0),
    "two-replicas": a_topic("n", 1, 2),
    "nothing": a_topic("n", 0, 0),
    "no-partitions-five-replicas": a_topic("n", 0, 5),
    "empty-name": a_topic(""),
    "dot": a_topic("."),
    "blank": a_topic("a b"),
    "long": a_topic("x" * 250),
    "metadata": a_topic("__cluster_metadata"),
    "assigned-with-replicas": a_topic("n", -1, 1, ((0, (1,)),)),
    "assigned-with-partitions": a_topic("n", 1, -1, ((0, (1,)),)),
    "assigned-with-a-hole": a_topic("n", -1, -1, ((0, (1,)), (2, (1,)))),
    "assigned-twice": a_topic("n", -1, -1, ((0, (1,)), (0, (1,)))),
    "assigned-to-nobody": a_topic("n", -1, -1, ((0, ()),)),
    "assigned-to-a-stranger": a_topic("n", -1, -1, ((0, (5,)),)),
    "assigned-to-one-broker-twice": a_topic("n", -1, -1, ((0, (1, 1)),)),
    "unknown-key": a_topic("n", configs={"foo": "1"}),
    "null-value": a_topic("n", configs={"retention.ms": None}),
    "no-number": a_topic("n", configs={"retention.ms": "x"}),
    "too-small": a_topic("n", configs={"retention.ms": "-5"}),
    "underscore": a_topic("n", configs={"retention.ms": "1_000"}),
    "no-boolean": a_topic("n", configs={"preallocate": "yes"}),
    "list-with-a-hole": a_topic("n", configs={"cleanup.policy": "delete,"}),
    "wrong-case": a_topic("n", configs={"message.timestamp.type": "createtime"}),
    "ratio": a_topic("n", configs={"min.cleanable.dirty.ratio": "2"}),
    "lags": a_topic("n", configs={"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}),
    "no-replica": a_topic("n", configs={"leader.replication.throttled.replicas": "x"}),
    "tiered": a_topic("n", configs={"remote.storage.enable": "true"}),
    "bad-value-and-count": a_topic("n", 0, configs={"retention.ms": "x"}),
    "too-many": a_topic("n", 10_001),
}


@pytest.mark.parametrize("version", [2, 5, 7])
@pytest.mark.parametrize("topic", REFUSED_TOPICS.values(), ids=REFUSED_TOPICS.keys())
def test_topics_that_cannot_be_are_refused_alike(both: Both, topic: CreatableTopic, version: int) -> None:
    answer = both.ask(CreateTopicsRequest(topics=(topic,), validate_only=True), version)
    assert answer["topics"][0]["error_code"] != ErrorCode.NONE


@pytest.mark.parametrize("version", [2, 5, 6])
def test_topics_that_can_be_are_accepted_alike(both: Both, version: int) -> None:
    names = [f"{both.prefix}-new-{number}" for number in range(6)]
    topics = (
        a_topic(names[0], -1, -1, ((1, (1,)), (0, (1,)))),
        a_topic(names[1], configs={"cleanup.policy": "", "preallocate": "TRUE", "retention.ms": " +5 "}),
        a_topic(names[2], 4, configs={"leader.replication.throttled.replicas": "0:1,1:2"}),
        a_topic(names[3]),
        a_topic(names[3]),
        a_topic(both.topic),
        a_topic(both.topic.replace(".", "_")),
        a_topic(names[4].replace("-", ".")),
        a_topic(names[4].replace("-", "_")),
    )
    answer = both.ask(CreateTopicsRequest(topics=topics, validate_only=True), version)
    assert len(answer["topics"]) == 8


@pytest.mark.parametrize("version", [1, 3, 5, 6])
def test_topics_are_deleted_alike(both: Both, version: int) -> None:
    names = (both.other, f"{both.prefix}.nope", "a b", f"{both.prefix}.nope")
    if version < 6:
        both.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), version)
        return
    both.ask(
        DeleteTopicsRequest(topics=tuple(DeleteTopicState(name=name) for name in names), timeout_ms=10_000), version
    )
    theirs, ours = (
        DeleteTopicsRequest(
            topics=tuple(DeleteTopicState(topic_id=id_) for id_ in (topic_id, NOWHERE, ZERO_UUID)), timeout_ms=10_000
        )
        for topic_id in both.id_of(both.topic)
    )
    both.compare(theirs, ours, version)


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize(
    ("grown_to", "assigned"),
    [
        (4, None),
        (3, None),
        (2, None),
        (0, None),
        (-1, None),
        (20_000, None),
        (4, ((1,),)),
        (5, ((1,),)),
        (4, ((1,), (1,))),
        (4, ()),
        (4, ((7,),)),
        (4, ((1, 1),)),
        (4, ((),)),
    ],
)
def test_topics_grow_alike(
    both: Both, grown_to: int, assigned: tuple[tuple[int, ...], ...] | None, version: int
) -> None:
    assignments = None if assigned is None else tuple(CreatePartitionsAssignment(broker_ids=ids) for ids in assigned)
    topics = (
        CreatePartitionsTopic(name=both.topic, count=grown_to, assignments=assignments),
        CreatePartitionsTopic(name=f"{both.prefix}.nope", count=3, assignments=None),
        CreatePartitionsTopic(name=both.other, count=3, assignments=None),
        CreatePartitionsTopic(name=both.other, count=3, assignments=None),
    )
    both.ask(CreatePartitionsRequest(topics=topics, timeout_ms=10_000, validate_only=True), version)


@pytest.mark.parametrize("version", range(1, 5))
def test_the_configuration_of_a_topic_is_described_alike(both: Both, version: int) -> None:
    # Not retention.ms, whose synonyms Kafka lists only in part.
    keys = ("cleanup.policy", "compression.type", "flush.ms", "max.message.bytes", "retention.bytes", "segment.bytes")
    resource = DescribeConfigsResource(resource_type=2, resource_name=both.topic, configuration_keys=keys)
    answer = both.ask(DescribeConfigsRequest(resources=(resource,), include_synonyms=version >= 3), version)
    assert len(answer["results"][0]["configs"]) == len(keys)


def test_the_entries_of_a_topic_are_kafkas(both: Both) -> None:
    resource = DescribeConfigsResource(resource_type=2, resource_name=both.topic, configuration_keys=None)
    request = DescribeConfigsRequest(resources=(resource,))
    theirs, ours = (
        {
            entry.name: (entry.value, entry.config_type, entry.is_sensitive, entry.read_only)
            for entry in peer.ask(request, 4).results[0].configs
        }
        for peer in (both.kafka, both.node)
    )
    assert ours == theirs


def test_the_entries_of_the_broker_are_kafkas(both: Both) -> None:
    resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=(resource,))
    theirs, ours = (
        {entry.name: (entry.config_type, entry.is_sensitive) for entry in peer.ask(request, 4).results[0].configs}
        for peer in (both.kafka, both.node)
    )
    assert ours == theirs


@pytest.mark.parametrize(("kind", "name"), [(2, "nope"), (2, "a b"), (2, ""), (4, "2"), (4, "x"), (1, "x"), (99, "x")])
def test_resources_that_are_not_there_are_described_alike(both: Both, kind: int, name: str) -> None:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    both.ask(DescribeConfigsRequest(resources=(resource,)), 4)


@pytest.mark.parametrize(("version", "endpoint_type"), [(0, 1), (1, 1), (2, 1), (1, 2), (1, 3), (2, 0)])
def test_the_cluster_is_described_alike(both: Both, version: int, endpoint_type: int) -> None:
    both.ask(DescribeClusterRequest(include_cluster_authorized_operations=True, endpoint_type=endpoint_type), version)


@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 3, 4, 2000])
@pytest.mark.parametrize("start", [None, 0, 2, 99, -1])
def test_pages_of_topics_are_cut_alike(both: Both, limit: int, start: int | None) -> None:
    names = (both.topic, both.other, f"{both.prefix}.nope", f"{both.prefix}.zero", "a b", both.topic)
    cursor = None if start is None else Cursor(topic_name=both.topic, partition_index=start)
    request = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names), response_partition_limit=limit, cursor=cursor
    )
    both.ask(request, 0)


@pytest.mark.parametrize("name", ["zzz", "aaa", "a b"])
def test_a_cursor_elsewhere_is_refused_alike(both: Both, name: str) -> None:
    request = DescribeTopicPartitionsRequest(
        topics=(TopicRequest(name=both.topic), TopicRequest(name=both.other)),
        cursor=Cursor(topic_name=name, partition_index=0),
    )
    both.ask(request, 0)
