"""A group of real clients changes its protocol one member at a time, and back, with nothing lost and nothing read twice."""

from __future__ import annotations

from kafka import KafkaConsumer

from integration.kafka_python.client import KafkaPython, KafkaPythonMember
from integration.librdkafka.client import LibrdkafkaMember
from integration.support.broker import Broker
from integration.support.client import Member, Record
from integration.support.group_suite import (
    Members,
    assert_each_once_and_in_order,
    members,
    new_topic,
    poll_until,
    settle,
)

HEARTBEAT_INTERVAL_MS = 200
RECORDS = 60
"""How many are produced, and read, between two changes."""


def classic(broker: Broker, topic: str) -> Member:
    """kafka-python, which knows the classic protocol only."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
    )
    return KafkaPythonMember(consumer)


def new(broker: Broker, topic: str) -> Member:
    """librdkafka with `group.protocol=consumer`."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": topic,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
    }
    return LibrdkafkaMember(settings, [topic])


class Rolled:
    """A group, and what it has read so far."""

    def __init__(self, broker: Broker, group: Members) -> None:
        self.client = KafkaPython()
        self.topic = new_topic(self.client, broker)
        self.broker = broker
        self.group = group
        self.records: list[Record] = []
        self.produced = 0

    def replace(self, old: Member | None, made: Member) -> None:
        """One member goes, another comes; then the group reads on."""
        if old is not None:
            self.group.leave(old)
        self.group.add(made)
        settle(self.group, [self.topic])
        values = [str(self.produced + number) for number in range(RECORDS)]
        self.client.produce(self.broker.bootstrap, self.topic, values)
        self.produced += RECORDS
        self.records += poll_until(self.group, RECORDS)  # clients commit what they have read when they give it up


def test_a_group_is_rolled_to_the_new_protocol_and_back(broker: Broker) -> None:
    with members() as group:
        rolled = Rolled(broker, group)
        rolled.replace(None, classic(broker, rolled.topic))
        rolled.replace(None, classic(broker, rolled.topic))
        for make in (new, classic):
            for old in list(group):
                rolled.replace(old, make(broker, rolled.topic))
        assert_each_once_and_in_order(rolled.records, rolled.produced)
