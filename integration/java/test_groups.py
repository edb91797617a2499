"""Apache Kafka's Java client in consumer groups."""

from __future__ import annotations

import pytest

from integration.java.client import Java
from integration.kafka_python.client import KafkaPython
from integration.support.broker import Broker
from integration.support.client import Client
from integration.support.group_suite import (
    GroupSuite,
    assert_each_once_and_in_order,
    members,
    new_topic,
    poll_until,
    settle,
    sizes,
)
from integration.support.jvm import Jvm


@pytest.mark.java
class TestJava(GroupSuite):
    @pytest.fixture
    def client(self, jvm: Jvm) -> Client:
        return Java(jvm)


@pytest.mark.java
def test_java_and_kafka_python_members_share_a_group(jvm: Jvm, broker: Broker) -> None:
    java, kafka_python = Java(jvm), KafkaPython()
    topic = new_topic(java, broker)
    with members() as group:
        for client in (java, kafka_python, java):
            group.add(client.join(broker.bootstrap, topic, [topic]))
            settle(group, [topic])
        assert sizes(group) == [2, 2, 2]
        kafka_python.produce(broker.bootstrap, topic, map(str, range(1_000)))
        assert_each_once_and_in_order(poll_until(group, 1_000), 1_000)
