"""An authentication that fails once, as two real clients meet it: both try again, and write what they were given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer

from kshim.testing import Kshim


@pytest.fixture(scope="module")
def kshim() -> Iterator[Kshim]:
    with Kshim(users={"u": "pw"}) as kshim:
        yield kshim


RULES = {
    "SaslAuthenticate": {"error": "SASL_AUTHENTICATION_FAILED"},
    "SaslHandshake": {"disconnect": "before"},
}


@pytest.mark.parametrize("api", RULES)
def test_kafka_python_tries_again(kshim: Kshim, api: str) -> None:
    kshim.create_topic(f"kafka-python-{api}")
    fault = kshim.faults.add({"on": api, "do": RULES[api], "when": "once"})
    producer = KafkaProducer(**kshim.client_config("kafka-python"))
    try:
        assert producer.send(f"kafka-python-{api}", b"one").get(30).offset == 0
    finally:
        producer.close()
    assert len(fault.fired) == 1


@pytest.mark.parametrize("api", RULES)
def test_confluent_kafka_reports_it_and_tries_again(kshim: Kshim, api: str) -> None:
    kshim.create_topic(f"confluent-{api}")
    fault = kshim.faults.add({"on": api, "do": RULES[api], "when": "once"})
    errors: list[KafkaError] = []
    producer = Producer({**kshim.client_config("confluent-kafka"), "error_cb": errors.append})
    producer.produce(f"confluent-{api}", b"one")
    assert producer.flush(30) == 0
    assert len(fault.fired) == 1
    if api == "SaslAuthenticate":
        assert errors[0].code() == KafkaError._AUTHENTICATION
    assert [record.value for record in kshim.records(f"confluent-{api}")] == [b"one"]
