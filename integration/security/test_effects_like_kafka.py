"""What comes of requests that are allowed or not: topics made and deleted, connections closed. On both brokers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.security.sasl_client import Refused, connected
from integration.security.secured import ADMIN, ADMIN_PASSWORD, LISTENER, USERS, SecureKafka, SecureKshim
from integration.security.test_access_like_kafka import (
    CREATE,
    DELETE,
    DESCRIBE,
    READ,
    TOPIC,
    rule,
    wait_until,
)
from integration.security.test_sasl_like_kafka import is_closed
from kshim.tools.client import BrokerGone, Client
from kshim_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kshim_protocol.messages.describe_acls import DescribeAclsRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record
from kshim_protocol.schema import ZERO_UUID

Broker = SecureKshim | SecureKafka
REFUSED, UNKNOWN, INVALID_REQUEST = 29, 3, 42


class Scene:
    """An admin and alice at one broker, and a prefix for the names of topics."""

    def __init__(self, broker: Broker) -> None:
        self.admin = connected(broker.secure, ADMIN, ADMIN_PASSWORD)
        self.alice = connected(broker.secure, "alice", USERS["alice"])
        self.prefix = f"effects-{uuid.uuid4().hex[:8]}"

    def name(self, word: str) -> str:
        return f"{self.prefix}-{word}"

    def make(self, word: str) -> bytes:
        """A topic by the admin; its id once the broker knows it."""
        row = CreatableTopic(name=self.name(word), num_partitions=1, replication_factor=1, assignments=(), configs=())
        (made,) = self.admin.ask(CreateTopicsRequest(topics=(row,)), 7).topics
        assert made.error_code == 0
        wait_until(lambda: metadata(self.admin, self.name(word)) == [0])
        return bytes(made.topic_id)

    def allow(self, operation: int, word: str) -> None:
        """A rule for alice, once it counts."""
        wanted: AclCreation = rule(TOPIC, self.name(word), operation)
        (result,) = self.admin.ask(CreateAclsRequest(creations=(wanted,)), 3).results
        assert result.error_code == 0
        described = DescribeAclsRequest(
            resource_type_filter=TOPIC,
            resource_name_filter=self.name(word),
            pattern_type_filter=3,
            principal_filter=None,
            host_filter=None,
            operation=operation,
            permission_type=1,
        )
        wait_until(lambda: len(self.admin.ask(described, 3).resources) == 1)


@pytest.fixture
def scene(secure_broker: Broker) -> Iterator[Scene]:
    scene = Scene(secure_broker)
    yield scene
    if not is_gone(scene.admin):
        remove_topics(scene.admin, scene.prefix)
    scene.admin.close()
    scene.alice.close()


def is_gone(client: Client) -> bool:
    """Whether the test had the connection closed."""
    try:
        client.ask(MetadataRequest(topics=()), 12)
    except BrokerGone:
        return True
    return False


def remove_topics(admin: Client, prefix: str) -> None:
    """Leave nothing that a list would show to other suites."""

    def left() -> list[str]:
        return [
            topic.name for topic in admin.ask(MetadataRequest(topics=None), 12).topics if topic.name.startswith(prefix)
        ]

    rows = tuple(DeleteTopicState(name=name) for name in left())
    if rows:
        admin.ask(DeleteTopicsRequest(topics=rows, timeout_ms=5_000), 6)
        wait_until(lambda: not left())


def metadata(client: Client, *names: str, makes: bool = False) -> list[int]:
    """The error of each name."""
    rows = tuple(MetadataRequestTopic(name=name) for name in names)
    answer = client.ask(MetadataRequest(topics=rows, allow_auto_topic_creation=makes), 12)
    errors = {topic.name: topic.error_code for topic in answer.topics}
    return [errors[name] for name in names]


def test_a_topic_is_made_by_being_asked_for_only_with_the_right_to_create_it(scene: Scene) -> None:
    for word, operations in {"seen": (DESCRIBE,), "made": (DESCRIBE, CREATE), "blind": (CREATE,)}.items():
        for operation in operations:
            scene.allow(operation, word)
    names = [scene.name(word) for word in ("seen", "made", "blind")]
    seen, made, blind = metadata(scene.alice, *names, makes=True)
    assert (seen, blind) == (REFUSED, REFUSED)
    assert made in (0, UNKNOWN)  # Kafka makes it a moment later
    wait_until(lambda: metadata(scene.admin, names[1]) == [0])
    assert metadata(scene.admin, names[0], names[2]) == [UNKNOWN, UNKNOWN]
    assert metadata(scene.alice, *names) == [UNKNOWN, 0, REFUSED]


def test_topics_are_deleted_by_id_without_their_name_being_told(scene: Scene) -> None:
    hidden, seen, mine = (scene.make(word) for word in ("hidden", "seen", "mine"))
    scene.allow(READ, "seen")
    scene.allow(DELETE, "mine")
    rows = tuple(DeleteTopicState(name=None, topic_id=one) for one in (hidden, seen, mine))
    answer = scene.alice.ask(DeleteTopicsRequest(topics=rows, timeout_ms=5_000), 6)
    told = {(row.topic_id, row.name, row.error_code) for row in answer.responses}
    assert told == {(hidden, None, REFUSED), (seen, scene.name("seen"), REFUSED), (mine, scene.name("mine"), 0)}
    wait_until(lambda: metadata(scene.admin, scene.name("mine")) == [UNKNOWN])


def test_topics_are_deleted_by_name(scene: Scene) -> None:
    for word in ("seen", "mine"):
        scene.make(word)
    scene.allow(READ, "seen")
    scene.allow(DELETE, "mine")
    names = tuple(scene.name(word) for word in ("seen", "mine", "missing"))
    rows = tuple(DeleteTopicState(name=name) for name in names)
    answer = scene.alice.ask(DeleteTopicsRequest(topics=rows, timeout_ms=5_000), 6)
    told = {row.name: (row.error_code, row.topic_id == ZERO_UUID) for row in answer.responses}
    assert told == {names[0]: (REFUSED, True), names[1]: (0, False), names[2]: (REFUSED, True)}


def test_produce_that_wants_no_answer_is_refused_by_closing(scene: Scene) -> None:
    scene.make("closed")
    batch = build_batch([Record(None, b"x", timestamp_ms=1)])
    rows = (
        TopicProduceData(name=scene.name("closed"), partition_data=(PartitionProduceData(index=0, records=batch),)),
    )
    scene.alice.send(ProduceRequest(acks=0, timeout_ms=1_000, topic_data=rows), 9)
    assert is_closed(scene.alice)


def test_a_rule_without_an_operation_closes(scene: Scene) -> None:
    scene.admin.send(CreateAclsRequest(creations=(rule(TOPIC, "x", 0),)), 3)
    assert is_closed(scene.admin)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("resource_type", 99, "Invalid resourceType UNKNOWN"),
        ("resource_pattern_type", 99, "Invalid patternType UNKNOWN"),
        ("operation", 99, "Invalid operation UNKNOWN"),
        ("permission_type", 99, "Invalid permissionType UNKNOWN"),
        ("resource_name", "", "Invalid empty resource name"),
        ("host", "", "Host pattern cannot be null or empty"),
    ],
)
def test_rules_that_cannot_be_are_refused(scene: Scene, field: str, value: object, message: str) -> None:
    wanted = rule(TOPIC, "x", READ)
    setattr(wanted, field, value)
    (result,) = scene.admin.ask(CreateAclsRequest(creations=(wanted,)), 3).results
    assert (result.error_code, result.error_message) == (INVALID_REQUEST, message)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("resource_type_filter", "Unknown patternFilter."),
        ("pattern_type_filter", "Unknown patternFilter."),
        ("operation", "Unknown entryFilter."),
        ("permission_type", "Unknown entryFilter."),
    ],
)
def test_filters_of_the_future_find_nothing_and_delete_nothing(scene: Scene, field: str, message: str) -> None:
    parts: dict[str, Any] = {
        "resource_type_filter": TOPIC,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
        field: 99,
    }
    found = scene.admin.ask(DescribeAclsRequest(**parts), 3)
    assert (found.error_code, found.resources) == (0, ())
    (result,) = scene.admin.ask(DeleteAclsRequest(filters=(DeleteAclsFilter(**parts),)), 3).filter_results
    assert (result.error_code, result.error_message) == (INVALID_REQUEST, message)


def test_each_of_several_brokers_has_its_gate(tmp_path: Path) -> None:
    properties = {
        "listeners": f"{LISTENER}://127.0.0.1:0",
        "listener.security.protocol.map": f"{LISTENER}:SASL_PLAINTEXT",
    }
    kshim = SecureKshim(tmp_path, properties, ("--brokers=2",))
    kshim.start()
    try:
        assert len(kshim.addresses) == 2
        for address in kshim.addresses:
            host, _, port = address.rpartition(":")
            stranger = Client(host, int(port), client_id="stranger")
            stranger.send(MetadataRequest(topics=None), 12)
            assert is_closed(stranger)
            stranger.close()
            with pytest.raises(Refused):
                connected((host, int(port)), "alice", "wrong")
            alice = connected((host, int(port)), "alice", USERS["alice"])
            assert len(alice.ask(MetadataRequest(topics=None), 12).brokers) == 2
            alice.close()
    finally:
        kshim.stop()
