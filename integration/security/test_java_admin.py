"""Java's `Admin` makes, shows and removes access rules and SCRAM credentials, on both brokers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from integration.security.sasl_client import connected
from integration.security.secured import ADMIN, ADMIN_PASSWORD
from integration.security.test_clients import ALICE, Broker, java_settings
from integration.security.test_effects_like_kafka import remove_topics
from integration.security.test_sasl_like_kafka import eventually
from integration.support.broker import Deadline
from integration.support.jvm import Jvm

pytestmark = pytest.mark.java


class Java:
    """The classes that the tests name, and the admin of one broker."""

    def __init__(self, jvm: Jvm, admin: Any) -> None:
        self.admin = admin
        common = jvm.classes.org.apache.kafka.common
        self.clients = jvm.classes.org.apache.kafka.clients.admin
        self.acl = common.acl
        self.resource = common.resource

    def binding(
        self,
        topic: str,
        operation: str,
        *,
        pattern: str = "LITERAL",
        permission: str = "ALLOW",
        principal: str = "User:alice",
    ) -> Any:
        entry = self.acl.AccessControlEntry(
            principal,
            "*",
            self.acl.AclOperation.valueOf(operation),
            self.acl.AclPermissionType.valueOf(permission),
        )
        kind, pattern_type = self.resource.ResourceType.TOPIC, self.resource.PatternType.valueOf(pattern)
        return self.acl.AclBinding(self.resource.ResourcePattern(kind, topic, pattern_type), entry)

    def matching(self, topic: str) -> Any:
        pattern = self.resource.ResourcePatternFilter(
            self.resource.ResourceType.TOPIC, topic, self.resource.PatternType.MATCH
        )
        return self.acl.AclBindingFilter(pattern, self.acl.AccessControlEntryFilter.ANY)

    def described(self, topic: str) -> set[str]:
        return {binding.toString() for binding in self.admin.describeAcls(self.matching(topic)).values().get()}


@pytest.fixture
def java(secure_broker: Broker, jvm: Jvm) -> Iterator[Java]:
    admin = jvm.classes.org.apache.kafka.clients.admin.Admin.create(
        java_settings(secure_broker, (ADMIN, ADMIN_PASSWORD))
    )
    yield Java(jvm, admin)
    admin.close()


def until(java: Java, topic: str, count: int) -> set[str]:
    """What DescribeAcls tells once there are so many: Kafka's controller answers a moment before its broker knows."""
    deadline = Deadline(10)
    while len(found := java.described(topic)) != count:
        deadline.check(f"{count} rules about {topic}; there are {found}")
    return found


def test_rules_are_made_found_and_removed(java: Java) -> None:
    topic = f"java-{uuid.uuid4().hex}"
    bindings = [
        java.binding(topic, "READ"),
        java.binding(topic, "WRITE", permission="DENY"),
        java.binding(topic[:-4], "DESCRIBE", pattern="PREFIXED"),
    ]
    java.admin.createAcls(bindings).all().get()
    assert until(java, topic, 3) == {binding.toString() for binding in bindings}
    removed = java.admin.deleteAcls([java.matching(topic)]).all().get()
    assert {binding.toString() for binding in removed} == {binding.toString() for binding in bindings}
    until(java, topic, 0)


def test_a_rule_that_cannot_be_is_refused(java: Java) -> None:
    with pytest.raises(Py4JJavaError) as failed:
        java.admin.createAcls([java.binding("topic", "READ", principal="alice")]).all().get()
    cause = failed.value.java_exception.getCause()
    assert cause.getClass().getSimpleName() == "InvalidRequestException"
    assert cause.getMessage() == (
        "Could not parse principal from `alice` (no colon is present separating the principal type from the principal "
        "name)"
    )


def test_rules_are_the_admins_alone(secure_broker: Broker, java: Java) -> None:
    alice = java.clients.Admin.create(java_settings(secure_broker, ALICE))
    try:
        with pytest.raises(Py4JJavaError) as failed:
            alice.createAcls([java.binding("topic", "READ")]).all().get()
    finally:
        alice.close()
    assert failed.value.java_exception.getCause().getClass().getSimpleName() == "ClusterAuthorizationException"


def test_credentials_are_made_shown_and_removed(secure_broker: Broker, java: Java) -> None:
    user, password = f"java-{uuid.uuid4().hex}", "a password"
    sha_512 = java.clients.ScramMechanism.SCRAM_SHA_512
    upsertion = java.clients.UserScramCredentialUpsertion(
        user, java.clients.ScramCredentialInfo(sha_512, 8_192), password
    )
    java.admin.alterUserScramCredentials([upsertion]).all().get()
    eventually(secure_broker.secure, user, password, "SCRAM-SHA-512").close()
    description = java.admin.describeUserScramCredentials([user]).description(user).get()
    assert description.toString() == (
        f"UserScramCredentialsDescription{{name='{user}', "
        "credentialInfos=[ScramCredentialInfo{mechanism=SCRAM_SHA_512, iterations=8192}]}"
    )
    assert user in set(java.admin.describeUserScramCredentials().users().get())
    java.admin.alterUserScramCredentials([java.clients.UserScramCredentialDeletion(user, sha_512)]).all().get()
    with pytest.raises(Py4JJavaError) as failed:
        java.admin.alterUserScramCredentials([java.clients.UserScramCredentialDeletion(user, sha_512)]).all().get()
    assert failed.value.java_exception.getCause().getClass().getSimpleName() == "ResourceNotFoundException"


def test_what_alice_may_do_is_told_to_her(secure_broker: Broker, java: Java) -> None:
    topic = f"java-{uuid.uuid4().hex}"
    java.admin.createTopics([java.clients.NewTopic(topic, 1, 1)]).all().get()
    java.admin.createAcls([java.binding(topic, "READ"), java.binding(topic, "ALTER_CONFIGS")]).all().get()
    until(java, topic, 2)
    alice = java.clients.Admin.create(java_settings(secure_broker, ALICE))
    try:
        options = java.clients.DescribeTopicsOptions().includeAuthorizedOperations(True)
        described = alice.describeTopics([topic], options).allTopicNames().get()[topic]
        operations = {operation.toString() for operation in described.authorizedOperations()}
        assert operations == {"READ", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS"}
        assert topic in set(alice.listTopics().names().get())
    finally:
        alice.close()
    java.admin.deleteAcls([java.matching(topic)]).all().get()
    admin = connected(secure_broker.secure, ADMIN, ADMIN_PASSWORD)
    remove_topics(admin, topic)
    admin.close()
