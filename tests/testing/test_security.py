"""`Kshim(users=, tls=, acls=)`: each Python client connects with what `client_config` gives it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import pytest
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from kshim.config.broker_config import ConfigError
from kshim.testing import Kshim

USERS = {"ann": 'se"cret \\1', "ben": "other"}
SECURITIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "tls": {"tls": True},
    "sasl": {"users": USERS},
    "sasl-and-tls": {"users": USERS, "tls": True},
}


def round_trip_of_kafka_python(config: dict[str, Any]) -> bytes:
    producer = kafka.KafkaProducer(**config)
    producer.send("orders", b"coffee").get(timeout=10)
    producer.close()
    consumer = kafka.KafkaConsumer("orders", group_id="g", auto_offset_reset="earliest", **config)
    value: bytes = next(consumer).value
    consumer.close()
    return value


def round_trip_of_confluent_kafka(config: dict[str, Any]) -> bytes:
    producer = confluent_kafka.Producer(config)
    producer.produce("orders", b"coffee")
    assert producer.flush(10) == 0
    consumer = confluent_kafka.Consumer({**config, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(20)
    assert message is not None
    value = message.value()
    consumer.close()
    assert value is not None
    return value


def round_trip_of_aiokafka(config: dict[str, Any]) -> bytes:
    async def run() -> bytes:
        async with aiokafka.AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait("orders", b"coffee")
        async with aiokafka.AIOKafkaConsumer("orders", group_id="g", auto_offset_reset="earliest", **config) as reader:
            value: bytes = (await reader.getone()).value
            return value

    return asyncio.run(run())


ROUND_TRIPS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "kafka-python": round_trip_of_kafka_python,
    "confluent-kafka": round_trip_of_confluent_kafka,
    "aiokafka": round_trip_of_aiokafka,
}


@pytest.mark.parametrize("client", ROUND_TRIPS)
@pytest.mark.parametrize("security", SECURITIES)
def test_a_client_connects_with_what_it_is_given(client: str, security: str) -> None:
    with Kshim(2, topics={"orders": 1}, **SECURITIES[security]) as kshim:
        assert ROUND_TRIPS[client](kshim.client_config(client)) == b"coffee"
        assert [record.value for record in kshim.records("orders")] == [b"coffee"]
        assert kshim.group("g").wait_empty().generation >= 1


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
@pytest.mark.parametrize("client", ROUND_TRIPS)
def test_each_mechanism_works_for_each_user(client: str, mechanism: str) -> None:
    with Kshim(topics={"orders": 1}, users=USERS) as kshim:
        config = kshim.client_config(client, user="ben", mechanism=mechanism)
        assert ROUND_TRIPS[client](config) == b"coffee"


def test_users_and_certificates_are_the_same_after_a_reset() -> None:
    with Kshim(topics={"orders": 1}, users=USERS, tls=True, acls={"ann": "super"}) as kshim:
        config = kshim.client_config("confluent-kafka")
        assert round_trip_of_confluent_kafka(config) == b"coffee"
        kshim.reset()
        assert kshim.records("orders") == []
        assert round_trip_of_confluent_kafka(config) == b"coffee"


async def connect(config: dict[str, Any]) -> None:
    producer = aiokafka.AIOKafkaProducer(**config)
    try:
        await producer.start()
    finally:
        await producer.stop()


def test_a_wrong_password_and_no_password_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    with Kshim(users=USERS) as kshim:
        config = kshim.client_config("aiokafka")
        with pytest.raises(aiokafka.errors.KafkaConnectionError):
            asyncio.run(connect({**config, "sasl_plain_password": "wrong"}))
        assert "SaslAuthenticationFailed" in caplog.text
        with pytest.raises(aiokafka.errors.KafkaConnectionError):
            asyncio.run(connect({"bootstrap_servers": kshim.bootstrap_servers}))


def test_users_may_do_what_their_rules_say() -> None:
    acls = {
        "ann": ["READ,WRITE topic:ord*", "READ group:billing"],
        "ben": "READ topic:orders",
        "root": "super",
    }
    with Kshim(topics={"orders": 1, "bills": 1}, users={**USERS, "root": "toor"}, acls=acls) as kshim:
        producer = kafka.KafkaProducer(**kshim.client_config("kafka-python"))
        producer.send("orders", b"coffee").get(timeout=10)
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("bills", b"coffee").get(timeout=10)
        producer.close()
        bens = kshim.client_config("kafka-python", user="ben")
        consumer = kafka.KafkaConsumer("orders", group_id="billing", **bens)
        with pytest.raises(GroupAuthorizationFailedError):
            consumer.poll(10_000)
        consumer.close()
        admin = kafka.KafkaAdminClient(**kshim.client_config("kafka-python", user="root"))
        assert set(admin.list_topics()) >= {"orders", "bills"}
        admin.close()


def test_without_users_everybody_is_anonymous_for_the_rules() -> None:
    with Kshim(topics={"orders": 1, "bills": 1}, acls={"ANONYMOUS": "READ topic:orders"}) as kshim:
        admin = kafka.KafkaAdminClient(**kshim.client_config("kafka-python"))
        assert admin.list_topics() == ["orders"]
        admin.close()


def test_the_java_client_gets_properties() -> None:
    with Kshim(users=USERS, tls=True) as kshim:
        assert kshim.client_config("java", mechanism="PLAIN") == {
            "bootstrap.servers": kshim.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": kshim.ca_file,
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            r'username="ann" password="se\"cret \\1";',
        }


def test_the_file_with_the_certificate_goes_with_the_block() -> None:
    with Kshim(tls=True) as kshim:
        path = kshim.ca_file
        assert path is not None
        assert os.path.exists(path)
    assert not os.path.exists(path)
    with Kshim() as kshim:
        assert kshim.ca_file is None


def test_tls_without_its_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from kshim.testing.authority import authority

    authority.cache_clear()
    monkeypatch.setitem(sys.modules, "trustme", None)
    with pytest.raises(RuntimeError, match=r"tls=True needs the extra kshim\[tls\]: python -m pip install"):
        Kshim(tls=True)


MISTAKES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"users": ["ann"]}, TypeError, "users must map names to passwords"),
    ({"users": {"ann": 5}}, TypeError, "users: the password of ann must be a string"),
    ({"users": {"": "x"}}, ValueError, "neither a name nor a password may be empty"),
    ({"acls": ["READ topic:orders"]}, TypeError, "acls must map users to rules"),
    ({"acls": {"ann": [5]}}, TypeError, "acls: a rule must be a string, .* not 5"),
    ({"acls": {"ann": ["topic:orders"]}}, ValueError, "acls: 'topic:orders' is no rule: 'OPERATION TYPE:NAME'"),
    ({"acls": {"ann": ["LOOK topic:orders"]}}, ValueError, "LOOK is no operation; these are: ALL, READ, WRITE"),
    ({"acls": {"ann": ["READ table:orders"]}}, ValueError, "the resource must be TYPE:NAME, with one of topic, group"),
    ({"acls": {"ann": ["READ topic"]}}, ValueError, "the resource must be TYPE:NAME"),
    ({"config": {"ssl.client.auth": "required"}}, ConfigError, "ssl.client.auth.*users= for SASL and tls=True"),
]


@pytest.mark.parametrize(("arguments", "error", "sentence"), MISTAKES)
def test_what_cannot_be_used_is_named(arguments: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        Kshim(**arguments)


def test_a_client_user_or_mechanism_there_is_not_is_named() -> None:
    with Kshim(users=USERS) as kshim:
        with pytest.raises(
            ValueError, match="client must be one of kafka-python, confluent-kafka, aiokafka, java, not 'go'"
        ):
            kshim.client_config("go")
        with pytest.raises(ValueError, match="user must be one of ann, ben, not 'eve'"):
            kshim.client_config("java", user="eve")
        with pytest.raises(ValueError, match=r"mechanism must be one of SCRAM-SHA-256, .* not 'GSSAPI'"):
            kshim.client_config("java", mechanism="GSSAPI")
    with Kshim() as kshim, pytest.raises(ValueError, match=r"there are no users: give some with Kshim\(users="):
        kshim.client_config("java", user="ann")
