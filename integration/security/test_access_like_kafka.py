"""The same user under the same access rules asks both brokers the same: who may see and do what is the same."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from integration.security.facts import facts_of
from integration.security.questions import GROUPS, TOPICS, TRANSACTIONAL_IDS, questions
from integration.security.sasl_client import connected
from integration.security.secured import ADMIN, ADMIN_PASSWORD, USERS, SecureKafka, SecureKshim
from kshim.tools.client import Client
from kshim_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest
from kshim_protocol.messages.describe_acls import DescribeAclsRequest
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.read_share_group_state_summary import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)

pytestmark = pytest.mark.kafka

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 2, 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
LOADING = (14, 15, 16)
"""Errors of a coordinator that is not ready."""


def rule(
    resource_type: int,
    name: str,
    operation: int,
    *,
    pattern: int = LITERAL,
    permission: int = ALLOW,
    host: str = "*",
    principal: str = "User:alice",
) -> AclCreation:
    return AclCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


RULES: dict[str, tuple[AclCreation, ...]] = {
    "nothing": (),
    "read a topic": (rule(TOPIC, "orders", READ),),
    "write a topic": (rule(TOPIC, "orders", WRITE),),
    "describe a topic": (rule(TOPIC, "orders", DESCRIBE),),
    "everything with topics of a prefix": (rule(TOPIC, "ord", ALL, pattern=PREFIXED),),
    "everything with topics but read one": (
        rule(TOPIC, "*", ALL),
        rule(TOPIC, "orders", READ, permission=DENY, principal="User:*"),
    ),
    "all topics but none of a prefix": (
        rule(TOPIC, "*", ALL, principal="User:*"),
        rule(TOPIC, "pay", ALL, pattern=PREFIXED, permission=DENY),
    ),
    "create, delete and alter topics": tuple(
        rule(TOPIC, "ord", operation, pattern=PREFIXED) for operation in (CREATE, DELETE, ALTER)
    ),
    "create topics only": (rule(TOPIC, "*", CREATE),),
    "configurations of topics": (rule(TOPIC, "orders", DESCRIBE_CONFIGS), rule(TOPIC, "payments", ALTER_CONFIGS)),
    "read a group": (rule(GROUP, GROUPS[0], READ),),
    "read groups": (rule(GROUP, "group", READ, pattern=PREFIXED),),
    "read a group and a topic": (rule(GROUP, "group", READ, pattern=PREFIXED), rule(TOPIC, "orders", READ)),
    "describe a group and a topic": (rule(GROUP, GROUPS[0], DESCRIBE), rule(TOPIC, "payments", DESCRIBE)),
    "delete a group": (rule(GROUP, "*", DELETE), rule(TOPIC, "orders", READ)),
    "delete groups without topics": (rule(GROUP, "*", DELETE),),
    "a group from elsewhere": (rule(GROUP, GROUPS[0], READ, host="10.9.9.9"),),
    "a group from here": (rule(GROUP, GROUPS[0], READ, host="127.0.0.1"),),
    "a transaction": (
        rule(TRANSACTIONAL_ID, "txn-a", WRITE),
        rule(TOPIC, "orders", WRITE),
        rule(GROUP, GROUPS[0], READ),
    ),
    "a transaction without topics": (rule(TRANSACTIONAL_ID, "txn-a", WRITE), rule(TOPIC, "orders", READ)),
    "describe transactions": (rule(TRANSACTIONAL_ID, "*", DESCRIBE),),
    **{
        f"cluster operation {operation}": (rule(CLUSTER, "kafka-cluster", operation),)
        for operation in (
            ALL,
            CREATE,
            ALTER,
            DESCRIBE,
            CLUSTER_ACTION,
            DESCRIBE_CONFIGS,
            ALTER_CONFIGS,
            IDEMPOTENT_WRITE,
        )
    },
    "denied the cluster": (
        rule(CLUSTER, "kafka-cluster", ALL),
        rule(CLUSTER, "kafka-cluster", DESCRIBE, permission=DENY),
    ),
}


class Place(NamedTuple):
    """A broker: its admin's connection, a user's, and its topics' ids."""

    name: str
    admin: Client
    alice: Client
    ids: dict[str, bytes]

    @property
    def names(self) -> dict[bytes, str]:
        return {topic_id: name for name, topic_id in self.ids.items()}


@pytest.fixture(scope="module")
def places(secure_kshim: SecureKshim, secure_kafka: SecureKafka) -> Iterator[list[Place]]:
    places = [furnished(broker.name, broker.secure) for broker in (secure_kshim, secure_kafka)]
    yield places
    for place in places:
        set_rules(place, ())
        place.admin.close()
        place.alice.close()


def furnished(name: str, address: tuple[str, int]) -> Place:
    """The topics, and a group that has committed offsets of both; what other tests have left is removed."""
    admin = connected(address, ADMIN, ADMIN_PASSWORD)
    left = [topic for topic in admin.ask(MetadataRequest(topics=None), 12).topics if not topic.is_internal]
    if left:
        names = tuple(topic.name for topic in left)
        deleted = admin.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=30_000), 5)
        assert {topic.error_code for topic in deleted.responses} == {0}
        wait_until(lambda: all(topic.is_internal for topic in admin.ask(MetadataRequest(topics=None), 12).topics))
    topics = tuple(
        CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=(), configs=())
        for topic in TOPICS
    )
    made = admin.ask(CreateTopicsRequest(topics=topics), 7)
    assert [topic.error_code for topic in made.topics] == [0, 0]
    asked = MetadataRequest(topics=tuple(MetadataRequestTopic(name=topic) for topic in TOPICS))
    wait_until(lambda: all(topic.error_code == 0 for topic in admin.ask(asked, 12).topics))
    commit = OffsetCommitRequest(
        group_id=GROUPS[0],
        member_id="",
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata=""),
                ),
            )
            for topic in TOPICS
        ),
    )
    wait_until(lambda: [topic.partitions[0].error_code for topic in admin.ask(commit, 9).topics] == [0, 0])
    producer = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    wait_until(lambda: admin.ask(producer, 4).error_code == 0)
    coordinators = FindCoordinatorRequest(key_type=1, coordinator_keys=TRANSACTIONAL_IDS)
    wait_until(lambda: all(row.error_code == 0 for row in admin.ask(coordinators, 4).coordinators))
    end = EndTxnRequest(transactional_id="txn-a", producer_id=1, producer_epoch=0, committed=True)
    wait_until(lambda: admin.ask(end, 3).error_code not in LOADING)
    wait_until(lambda: keeps_share_states(admin, [topic.topic_id for topic in made.topics]))
    alice = connected(address, "alice", USERS["alice"])
    return Place(name, admin, alice, {topic.name: topic.topic_id for topic in made.topics})


def keeps_share_states(admin: Client, topic_ids: list[bytes]) -> bool:
    """Whether the share coordinator answers for what is asked of it later; where it does not, Kafka's broker waits."""
    keys = tuple(
        f"{group_id}:{urlsafe_b64encode(topic_id).decode().rstrip('=')}:0"
        for group_id in GROUPS
        for topic_id in topic_ids
    )
    coordinators = admin.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), 6).coordinators
    if any(row.error_code for row in coordinators):
        return False
    first = (PartitionData(partition=0, leader_epoch=0),)
    topics = tuple(ReadStateSummaryData(topic_id=topic_id, partitions=first) for topic_id in topic_ids)
    answers = [admin.ask(ReadShareGroupStateSummaryRequest(group_id=one, topics=topics), 1) for one in GROUPS]
    return not any(topic.partitions[0].error_code in LOADING for answer in answers for topic in answer.results)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def set_rules(place: Place, rules: tuple[AclCreation, ...]) -> None:
    """Replace all rules, and wait until the broker decides by them: Kafka's controller answers a moment earlier."""
    everything: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    deleted = place.admin.ask(DeleteAclsRequest(filters=(DeleteAclsFilter(**everything),)), 3)
    assert deleted.filter_results[0].error_code == 0
    if rules:
        created = place.admin.ask(CreateAclsRequest(creations=rules), 3)
        assert [result.error_code for result in created.results] == [0] * len(rules), created

    def count() -> int:
        resources = place.admin.ask(DescribeAclsRequest(**everything), 3).resources
        return sum(len(resource.acls) for resource in resources)

    wait_until(lambda: count() == len(rules))


def asked(place: Place) -> dict[str, Any]:
    return {
        question.name: facts_of(place.alice.ask(question.request, question.version), place.names)
        for question in questions(place.ids)
    }


@pytest.mark.parametrize("name", RULES)
def test_the_same_rules_let_the_same_through(name: str, places: list[Place]) -> None:
    answers = []
    for place in places:
        set_rules(place, RULES[name])
        answers.append(asked(place))
    ours, theirs = answers
    assert ours.keys() == theirs.keys()
    differing = [f"{key}\n  ours   {ours[key]}\n  theirs {theirs[key]}" for key in ours if ours[key] != theirs[key]]
    assert not differing, "\n".join(differing)
