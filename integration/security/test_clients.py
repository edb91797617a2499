"""What real clients say when a broker refuses them, on both brokers. That they get in is in `integration/clients`."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import TopicAuthorizationFailedError
from py4j.protocol import Py4JJavaError

from integration.security.sasl_client import connected
from integration.security.secured import ADMIN, ADMIN_PASSWORD, SESSION_MS, USERS, SecureKafka, SecureKshim
from integration.support.broker import Deadline
from integration.support.jvm import Jvm
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

Broker = SecureKshim | SecureKafka
TOPIC = "clients-closed"
ALICE = ("alice", USERS["alice"])
WRONG = ("alice", "wrong-secret")
REFUSAL = "Authentication failed: Invalid username or password"


@pytest.fixture
def topic(secure_broker: Broker) -> str:
    """A topic that only the admin may see."""
    admin = connected(secure_broker.secure, ADMIN, ADMIN_PASSWORD)
    row = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=(), configs=())
    assert admin.ask(CreateTopicsRequest(topics=(row,)), 7).topics[0].error_code in (0, 36)
    admin.close()
    return TOPIC


def bootstrap(broker: Broker) -> str:
    host, port = broker.secure
    return f"{host}:{port}"


def python_settings(broker: Broker, user: tuple[str, str]) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap(broker),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user[0],
        "sasl_plain_password": user[1],
    }


def librdkafka_settings(broker: Broker, user: tuple[str, str]) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap(broker),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user[0],
        "sasl.password": user[1],
    }


def java_settings(broker: Broker, user: tuple[str, str]) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "bootstrap.servers": bootstrap(broker),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="{user[0]}" password="{user[1]}";',
    }


def test_kafka_python_hears_of_a_wrong_password(secure_broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Exception, match="bootstrap"):
        KafkaAdminClient(**python_settings(secure_broker, WRONG), bootstrap_timeout_ms=3_000)
    # kafka-python loses the answer when the end of the connection comes along with it.
    assert REFUSAL in caplog.text or "socket disconnected" in caplog.text


def test_librdkafka_hears_of_a_wrong_password(secure_broker: Broker) -> None:
    heard: list[KafkaError] = []
    settings: dict[str, Any] = {**librdkafka_settings(secure_broker, WRONG), "error_cb": heard.append}
    client = AdminClient(settings)
    deadline = Deadline(20)
    while not any(error.code() == KafkaError._AUTHENTICATION for error in heard):
        deadline.check(f"librdkafka tells of a failed authentication; so far {heard}")
        client.poll(0.1)
    told = next(error for error in heard if error.code() == KafkaError._AUTHENTICATION)
    assert REFUSAL in told.str()


@pytest.mark.java
def test_java_hears_of_a_wrong_password(secure_broker: Broker, jvm: Jvm) -> None:
    admin = jvm.classes.org.apache.kafka.clients.admin.Admin.create(java_settings(secure_broker, WRONG))
    try:
        with pytest.raises(Py4JJavaError) as failed:
            admin.describeCluster().clusterId().get()
    finally:
        admin.close()
    cause = failed.value.java_exception.getCause()
    assert cause.getClass().getSimpleName() == "SaslAuthenticationException"
    assert cause.getMessage() == REFUSAL


def test_kafka_python_hears_of_a_topic_that_is_not_allowed(secure_broker: Broker, topic: str) -> None:
    producer = KafkaProducer(**python_settings(secure_broker, ALICE), enable_idempotence=False)
    try:
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send(topic, b"x").get(20)
    finally:
        producer.close()


def test_librdkafka_hears_of_a_topic_that_is_not_allowed(secure_broker: Broker, topic: str) -> None:
    producer = Producer(librdkafka_settings(secure_broker, ALICE))
    heard: list[KafkaError | None] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: heard.append(error))
    assert producer.flush(20) == 0
    assert [error.code() for error in heard if error is not None] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.java
def test_java_hears_of_a_topic_that_is_not_allowed(secure_broker: Broker, topic: str, jvm: Jvm) -> None:
    clients = jvm.classes.org.apache.kafka.clients
    serializer = "org.apache.kafka.common.serialization.StringSerializer"
    settings = {**java_settings(secure_broker, ALICE), "key.serializer": serializer, "value.serializer": serializer}
    producer = clients.producer.KafkaProducer({**settings, "enable.idempotence": "false"})
    try:
        with pytest.raises(Py4JJavaError) as failed:
            producer.send(clients.producer.ProducerRecord(topic, "x")).get()
    finally:
        producer.close()
    cause = failed.value.java_exception.getCause()
    assert cause.getClass().getSimpleName() == "TopicAuthorizationException"
    assert topic in cause.getMessage()


@pytest.mark.java
def test_java_renews_its_sessions_unnoticed(secure_kshim: SecureKshim, jvm: Jvm) -> None:
    """Sends for longer than two sessions last, on one connection: a session that is not renewed would end it."""
    clients = jvm.classes.org.apache.kafka.clients
    host, port = secure_kshim.short
    serializer = "org.apache.kafka.common.serialization.StringSerializer"
    settings = {
        **java_settings(secure_kshim, (ADMIN, ADMIN_PASSWORD)),
        "bootstrap.servers": f"{host}:{port}",
        "key.serializer": serializer,
        "value.serializer": serializer,
        "retries": "0",
    }
    said = len(secure_kshim.log.read_text())
    producer = clients.producer.KafkaProducer(settings)
    try:
        until = time.monotonic() + 2.5 * SESSION_MS / 1_000
        while time.monotonic() < until:
            producer.send(clients.producer.ProducerRecord(f"{TOPIC}-renewed", "x")).get()
            time.sleep(0.1)
        total = {name.name(): metric.metricValue() for name, metric in producer.metrics().items()}
    finally:
        producer.close()
    assert total["successful-reauthentication-total"] >= 1
    assert "the session has expired" not in secure_kshim.log.read_text()[said:]
