"""Metadata describes the cluster and makes topics. What the tests say of errors was checked on a live Kafka 4.4."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from kshim.broker.connection import ANONYMOUS
from kshim.broker.request import PendingReply
from kshim.broker.request import errors_in as errors_within
from kshim.coordinator.step import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from kshim.partitions.partition import Topic
from kshim.security.authorizer.authorizer import STANDARD_AUTHORIZER
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
)
from kshim_protocol.schema import ZERO_UUID
from tests.broker.full_disk import FullDisk
from tests.broker.harness import CLUSTER_ID, NodeUnderTest, a_node

NOWHERE = b"\x09" * 16
NOT_ASKED = -2147483648


def ask(
    node: NodeUnderTest, *names: str | None, ids: tuple[bytes, ...] = (), makes: bool = False, version: int = 13
) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    topics += [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    if version < 4:
        assert makes, "before version 4 topics are always made"
        return node.client().ask(MetadataRequest(topics=tuple(topics)), version)
    return node.client().ask(MetadataRequest(topics=tuple(topics), allow_auto_topic_creation=makes), version)


def topic_id(node: NodeUnderTest, name: str) -> bytes:
    found = node.cluster.topics.topic_id(name)
    assert found is not None
    return found


def topic_of(node: NodeUnderTest, name: str) -> Topic:
    topic = node.cluster.topics.named(name)
    assert topic is not None
    return topic


def names_in(reply: MetadataResponse) -> list[str | None]:
    return [topic.name for topic in reply.topics]


def errors_in(reply: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in reply.topics}


def test_the_cluster_is_this_node_under_its_advertised_address() -> None:
    reply = ask(a_node(host="broker.example", port=12345))
    assert reply.brokers == (MetadataResponseBroker(node_id=1, host="broker.example", port=12345),)
    assert (reply.cluster_id, reply.controller_id) == (CLUSTER_ID, 1)


@pytest.mark.parametrize("version", range(14))
def test_a_topic_is_described_in_every_version(version: int) -> None:
    node = a_node(topics={"orders": 2})
    reply = ask(node, "orders", makes=version < 4, version=version)
    (topic,) = reply.topics
    assert (topic.error_code, topic.name) == (ErrorCode.NONE, "orders")
    assert topic.topic_id == (topic_id(node, "orders") if version >= 10 else ZERO_UUID)
    assert [(partition.partition_index, partition.leader_id) for partition in topic.partitions] == [(0, 1), (1, 1)]


def test_a_partition_is_led_by_this_node_which_holds_its_only_replica() -> None:
    (topic,) = ask(a_node(topics={"orders": 1}), "orders").topics
    assert topic.partitions == (
        MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=(1,), isr_nodes=(1,)
        ),
    )


def test_null_asks_for_all_topics_and_an_empty_list_for_none() -> None:
    node = a_node(topics={"orders": 1, "clicks": 1})
    everything = node.client().ask(MetadataRequest(topics=None), 1)
    assert sorted(map(str, names_in(everything))) == ["clicks", "orders"]
    assert names_in(node.client().ask(MetadataRequest(topics=()), 1)) == []


def test_version_0_asks_for_all_topics_with_an_empty_list() -> None:
    node = a_node(topics={"orders": 1, "clicks": 1})
    assert len(node.client().ask(MetadataRequest(topics=()), 0).topics) == 2


def test_topics_stand_in_the_order_asked_each_once() -> None:
    node = a_node(topics={"orders": 1, "clicks": 1})
    assert names_in(ask(node, "orders", "nope", "clicks", "orders")) == ["orders", "nope", "clicks"]


def test_an_unknown_topic_has_no_id_and_no_partitions() -> None:
    (topic,) = ask(a_node(), "nope").topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (topic.topic_id, topic.partitions) == (ZERO_UUID, ())


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ü", "x" * 250])
def test_a_name_that_no_topic_can_have_is_invalid_and_is_not_made(name: str) -> None:
    node = a_node()
    assert errors_in(ask(node, name, makes=True)) == {name: ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert len(node.cluster.topics) == 0


def test_topics_are_found_by_id_from_version_12() -> None:
    node = a_node(topics={"orders": 1})
    found, unknown = ask(node, ids=(topic_id(node, "orders"), NOWHERE), version=12).topics
    assert (found.error_code, found.name) == (ErrorCode.NONE, "orders")
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, NOWHERE)


def test_an_unknown_id_is_never_made_into_a_topic() -> None:
    node = a_node()
    ask(node, ids=(NOWHERE,), makes=True)
    assert len(node.cluster.topics) == 0


def test_names_do_not_count_once_ids_are_given() -> None:
    node = a_node(topics={"orders": 1, "clicks": 1})
    assert names_in(ask(node, "clicks", ids=(topic_id(node, "orders"),))) == ["orders"]


@pytest.mark.parametrize("version", [10, 11])
def test_an_id_before_version_12_refuses_the_whole_request(version: int) -> None:
    node = a_node(topics={"orders": 1, "clicks": 1})
    reply = ask(node, "clicks", ids=(topic_id(node, "orders"),), version=version)
    assert [topic.error_code for topic in reply.topics] == [ErrorCode.INVALID_REQUEST] * 2
    assert reply.brokers == ()


def test_a_topic_with_neither_name_nor_id_is_an_invalid_request() -> None:
    """Kafka 4.4 fails here with UNKNOWN_SERVER_ERROR."""
    assert ask(a_node(), None, version=13).error_code == ErrorCode.INVALID_REQUEST


def test_a_topic_is_made_before_the_answer_with_the_default_number_of_partitions() -> None:
    """Kafka makes it behind the answer and says UNKNOWN_TOPIC_OR_PARTITION first."""
    node = a_node({"num.partitions": "3"})
    (topic,) = ask(node, "orders", makes=True).topics
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.NONE, 3)
    assert topic.topic_id == topic_id(node, "orders")


def test_a_topic_is_made_only_when_the_client_and_the_broker_want_it() -> None:
    node = a_node()
    assert errors_in(ask(node, "orders", makes=False)) == {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    node = a_node({"auto.create.topics.enable": "false"})
    assert errors_in(ask(node, "orders", makes=True)) == {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", [0, 3])
def test_before_version_4_asking_makes_the_topic(version: int) -> None:
    assert errors_in(ask(a_node(), "orders", makes=True, version=version)) == {"orders": ErrorCode.NONE}


def test_a_name_that_differs_only_in_dots_and_underscores_is_not_made() -> None:
    node = a_node(topics={"a.b": 1})
    assert errors_in(ask(node, "a_b", makes=True)) == {"a_b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_the_clusters_own_metadata_is_no_topic() -> None:
    reply = ask(a_node(), "__cluster_metadata", makes=True)
    assert errors_in(reply) == {"__cluster_metadata": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize(
    ("name", "key", "cleanup_policy"),
    [
        (OFFSETS_TOPIC, "offsets.topic.num.partitions", "compact"),
        (TRANSACTIONS_TOPIC, "transaction.state.log.num.partitions", "compact"),
        (SHARE_STATE_TOPIC, "share.coordinator.state.topic.num.partitions", "delete"),
    ],
)
def test_the_topic_of_a_coordinator_is_internal_and_made_with_its_own_settings(
    name: str, key: str, cleanup_policy: str
) -> None:
    node = a_node({key: "5"})
    (described,) = ask(node, name, makes=True).topics
    assert (described.error_code, described.is_internal, len(described.partitions)) == (ErrorCode.NONE, True, 5)
    topic = node.cluster.topics.named(name)
    assert topic is not None
    assert topic.configs["cleanup.policy"] == cleanup_policy


def test_authorized_operations_are_told_only_when_asked_for() -> None:
    client = a_node(topics={"orders": 1}).client()
    quiet = client.ask(MetadataRequest(topics=None), 10)
    assert (quiet.cluster_authorized_operations, quiet.topics[0].topic_authorized_operations) == (NOT_ASKED, NOT_ASKED)
    asked = client.ask(
        MetadataRequest(
            topics=None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
        ),
        10,
    )
    assert (asked.cluster_authorized_operations, asked.topics[0].topic_authorized_operations) == (8096, 3576)


def test_a_topic_that_cannot_be_kept_is_a_storage_error_and_is_reported() -> None:
    node = a_node(storage=FullDisk(), tolerates_defects=True)
    assert errors_in(ask(node, "orders", makes=True)) == {"orders": ErrorCode.KAFKA_STORAGE_ERROR}
    assert [str(defect) for defect in node.defects] == ["no space left"]


@pytest.mark.parametrize("version", range(14))
def test_a_kept_answer_is_the_one_made_of_structs_and_made_anew_after_each_change(version: int) -> None:
    """What is asked twice is kept as bytes; a cluster with an authorizer keeps nothing, and everybody is `super.users`."""
    config = {"auto.create.topics.enable": "false"}
    kept = a_node(config, topics={"orders": 1, "clicks": 3}, node_count=3)
    made = a_node(
        {**config, "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": ANONYMOUS},
        topics={"orders": 1, "clicks": 3},
        node_count=3,
    )
    seen: list[MetadataResponse] = []

    def ask_both() -> None:
        operations = {"include_topic_authorized_operations": True} if version >= 8 else {}
        for request in (
            MetadataRequest(topics=(MetadataRequestTopic(name="clicks"), MetadataRequestTopic(name="orders"))),
            MetadataRequest(topics=(MetadataRequestTopic(name="orders"),), **operations),
            MetadataRequest(topics=None if version else ()),
        ):
            answers = [node.client().ask(request, version) for node in (kept, kept, made)]
            if operations:
                assert answers[0] == answers[1]
                continue
            assert answers[0] == answers[1] == answers[2]
        seen.append(answers[0])

    ask_both()
    changes: tuple[Callable[[NodeUnderTest], Any], ...] = (
        lambda node: node.cluster.topics.grow(topic_of(node, "orders"), 2),
        lambda node: node.cluster.leader_election.stop_node(2),
        lambda node: node.cluster.leader_election.start_node(2),
        lambda node: topic_of(node, "clicks").partitions[0].begin_epoch(3, preferred_id=3),
        lambda node: node.cluster.topics.delete_all([topic_of(node, "orders")]),
        lambda node: node.topic("orders", 5),
    )
    for change in changes:
        for node in (kept, made):
            change(node)
        ask_both()
    assert all(before != after for before, after in pairwise(seen))


def test_errors_of_topics_are_found_in_an_answer_also_where_others_are_kept() -> None:
    node = a_node(topics={"orders": 1})
    answers: list[MetadataResponse] = []

    class Heard(PendingReply):
        def complete(self, response: MetadataResponse) -> None:
            answers.append(response)
            super().complete(response)

    node.node.new_reply = Heard
    for names in (("orders",), ("orders", "nothing"), ("nothing",)):
        ask(node, *names)
    assert [list(found) for found in map(errors_within, answers)] == [
        [],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]
