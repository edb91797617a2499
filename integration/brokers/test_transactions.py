"""Transactions of real producers while their coordinator's broker stops, and partitions and coordinator move."""

from __future__ import annotations

from typing import Literal

import confluent_kafka
import pytest

from integration.brokers.clients import CLIENTS, Library
from integration.support.broker import Deadline
from integration.support.group_suite import new_name
from kshim.coordinator.step import TRANSACTIONS_TOPIC
from kshim.testing import Kshim
from kshim_protocol.partitioner import partition_for

PARTITIONS = 6
RECORDS = 60
_PATIENCE_S = 60
ENDS: tuple[Literal["commit", "abort"], ...] = ("commit", "commit", "abort", "commit")


@pytest.fixture(params=["kafka-python", "librdkafka", pytest.param("java", marks=pytest.mark.java)])
def library(request: pytest.FixtureRequest) -> Library:
    return CLIENTS[request.param](lambda: request.getfixturevalue("jvm"))


def committed(bootstrap: str, topic: str, count: int) -> list[str]:
    """What a reader of committed records finds, until it has read all partitions."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": new_name(), "enable.partition.eof": True, "log_level": 0}
    )
    places = [confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)]
    consumer.assign(places)
    values: list[str] = []
    left = set(range(PARTITIONS))
    deadline = Deadline(_PATIENCE_S)
    while left or len(values) < count:
        deadline.check(f"{count} records, there were {len(values)}, and the end of partitions {left}")
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            value = message.value()
            assert value is not None
            values.append(value.decode())
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            left.discard(message.partition() or 0)
    consumer.close()
    return values


def coordinator_of(brokers: Kshim, transactional_id: str) -> tuple[int, int]:
    """The partition that holds it, and its leader."""
    count = brokers.cluster.topics.partition_count(TRANSACTIONS_TOPIC)
    assert count is not None
    partition = partition_for(transactional_id, count)
    return partition, brokers.leader_of(TRANSACTIONS_TOPIC, partition)


def test_transactions_end_whole_while_their_coordinator_stops_and_moves(library: Library) -> None:
    topic, transactional_id = new_name(), new_name()
    with Kshim(3, topics={topic: PARTITIONS}) as brokers:
        producer = library.transactional_producer(brokers.bootstrap_servers, transactional_id)
        for turn, how in enumerate(ENDS):
            producer.begin()
            for number in range(RECORDS):
                producer.send(topic, number % PARTITIONS, f"{turn}-{number}")
            partition, leader = coordinator_of(brokers, transactional_id)
            if turn == 1 and not library.loses_the_end_of_a_transaction:
                brokers.stop_node(leader)
            if turn == 2:
                brokers.move(TRANSACTIONS_TOPIC, partition, next(live for live in brokers.live if live != leader))
                for index in range(PARTITIONS):
                    brokers.move(topic, index, brokers.live[index % 2])
            producer.end(how=how)
        producer.close()
        expected = [f"{turn}-{number}" for turn, how in enumerate(ENDS) if how == "commit" for number in range(RECORDS)]
        assert sorted(committed(brokers.bootstrap_servers, topic, len(expected))) == sorted(expected)
        assert brokers.defects == []
