"""Real clients on a TLS listener that asks for certificates; another client is on a plain listener of the same broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from py4j.protocol import Py4JJavaError

from integration.support.broker import Deadline
from integration.support.certificates import Authority
from integration.support.jvm import Jvm
from integration.support.kafka import free_ports
from integration.support.kshim import KshimProcess

COUNT = 100
PATIENCE_S = 30
USER, PASSWORD = "alice", "her password"
STRING = "org.apache.kafka.common.serialization.String"


class Secured:
    """A broker with a TLS listener and a plain one, and what a client needs for the first."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.authority = Authority()
        self.client = self.authority.signs("a client")
        self.authority_file = folder / "authority.pem"
        self.authority_file.write_text(self.authority.certificate_pem)
        self.client_file = self.client.write(folder / "client.pem")
        port, plain_port, sasl_port = free_ports(3)
        self.sasl_bootstrap = f"127.0.0.1:{sasl_port}"
        self.bootstrap = f"127.0.0.1:{port}"
        self.plain_bootstrap = f"127.0.0.1:{plain_port}"
        self.broker = KshimProcess(
            folder,
            listeners=f"SSL://{self.bootstrap},PLAINTEXT://{self.plain_bootstrap},SASL_SSL://{self.sasl_bootstrap}",
            config={
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.authority.server().write(folder / "server.pem")),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority_file),
                "ssl.client.auth": "required",
                "listener.name.sasl_ssl.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
                f'PlainLoginModule required user_{USER}="{PASSWORD}";',
            },
            options=("-vv",),
        )

    def java_settings(self, *, with_certificate: bool = True) -> dict[str, str]:
        """PEM in the settings themselves, the key encrypted, as kafka-clients takes it."""
        settings = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority.certificate_pem,
        }
        if with_certificate:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": self.client.key_pem(),
                "ssl.keystore.certificate.chain": self.client.certificate_pem,
            }
        return settings


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    found = Secured(tmp_path_factory.mktemp("tls") / "kshim")
    found.broker.start()
    assert found.broker.bootstrap == found.bootstrap
    yield found
    found.broker.stop()


def records(topic: str) -> list[bytes]:
    """Some small, some larger than a TLS record."""
    return [f"{topic}-{number}".encode() * (1 + number % 5 * 1_000) for number in range(COUNT)]


def with_kafka_python(settings: dict[str, Any], topic: str) -> list[bytes]:
    """Produce and read back by a group; what was read."""
    producer = KafkaProducer(**settings)
    for value in records(topic):
        producer.send(topic, value)
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=PATIENCE_S * 1_000, **settings
    )
    values = [record.value for _, record in zip(range(COUNT), consumer, strict=False)]
    consumer.close()
    return values


def with_librdkafka(settings: dict[str, Any], topic: str) -> list[bytes]:
    """The same."""
    producer = Producer(settings)
    for value in records(topic):
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    deadline = Deadline(PATIENCE_S)
    values: list[bytes] = []
    while len(values) < COUNT:
        deadline.check(f"all records; {len(values)} are there")
        for message in consumer.consume(COUNT, timeout=1):
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
    consumer.close()
    return values


def test_kafka_python(secured: Secured) -> None:
    settings = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(secured.authority_file),
        "ssl_certfile": str(secured.client_file),
        "ssl_keyfile": str(secured.client_file),
    }
    assert with_kafka_python(settings, "kafka-python") == records("kafka-python")


def test_librdkafka(secured: Secured) -> None:
    settings = {
        "bootstrap.servers": secured.bootstrap,
        "security.protocol": "ssl",
        "ssl.ca.location": str(secured.authority_file),
        "ssl.certificate.location": str(secured.client_file),
        "ssl.key.location": str(secured.client_file),
    }
    assert with_librdkafka(settings, "librdkafka") == records("librdkafka")


@pytest.mark.java
def test_java(secured: Secured, jvm: Jvm) -> None:
    topic = "java"
    clients = jvm.classes.org.apache.kafka.clients
    settings = secured.java_settings()
    kinds = ("key.serializer", "value.serializer")
    producer = clients.producer.KafkaProducer({**settings, **dict.fromkeys(kinds, f"{STRING}Serializer")})
    for value in records(topic):
        producer.send(clients.producer.ProducerRecord(topic, value.decode()))
    producer.flush()
    producer.close()
    kinds = ("key.deserializer", "value.deserializer")
    group = {"group.id": topic, "auto.offset.reset": "earliest", **dict.fromkeys(kinds, f"{STRING}Deserializer")}
    consumer = clients.consumer.KafkaConsumer({**settings, **group})
    consumer.subscribe([topic])
    deadline = Deadline(PATIENCE_S)
    values: list[bytes] = []
    while len(values) < COUNT:
        deadline.check(f"all records; {len(values)} are there")
        values += [
            record.value().encode() for record in consumer.poll(jvm.classes.java.time.Duration.ofSeconds(1)).iterator()
        ]
    consumer.close()
    assert values == records(topic)


@pytest.mark.java
def test_java_is_told_that_it_needs_a_certificate(secured: Secured, jvm: Jvm) -> None:
    admin = jvm.classes.org.apache.kafka.clients.admin.Admin.create(secured.java_settings(with_certificate=False))
    try:
        with pytest.raises(Py4JJavaError, match="SslAuthenticationException") as refused:
            admin.describeCluster().nodes().get()
        assert "handshake" in str(refused.value).lower()
    finally:
        admin.close()


@pytest.mark.parametrize("talk", [with_kafka_python, with_librdkafka])
def test_the_plain_listener_of_the_same_broker_serves_others(
    secured: Secured, talk: Callable[[dict[str, Any], str], list[bytes]]
) -> None:
    topic = f"plain-{talk.__name__}"
    name = "bootstrap_servers" if talk is with_kafka_python else "bootstrap.servers"
    assert talk({name: secured.plain_bootstrap}, topic) == records(topic)


def test_kafka_python_with_a_password_inside_tls(secured: Secured) -> None:
    settings = {
        "bootstrap_servers": secured.sasl_bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(secured.authority_file),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    assert with_kafka_python(settings, "kafka-python-sasl") == records("kafka-python-sasl")


def test_librdkafka_with_a_password_inside_tls(secured: Secured) -> None:
    settings = {
        "bootstrap.servers": secured.sasl_bootstrap,
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(secured.authority_file),
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    assert with_librdkafka(settings, "librdkafka-sasl") == records("librdkafka-sasl")
