"""Real clients while brokers stop and start and partitions move: they route and find their coordinator again.

No record is lost or doubled, and a group whose coordinator ends goes on in its generation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from integration.brokers.clients import CLIENTS, Library, Producer
from integration.support.group_suite import (
    Members,
    assert_each_once_and_in_order,
    members,
    new_name,
    poll_until,
    settle,
)
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.testing import Kshim

PARTITIONS = 6
"""As many as `settle` expects."""
RECORDS = 300


@pytest.fixture(params=["kafka-python", "librdkafka", pytest.param("java", marks=pytest.mark.java)])
def library(request: pytest.FixtureRequest) -> Library:
    return CLIENTS[request.param](lambda: request.getfixturevalue("jvm"))


@contextmanager
def a_scene(library: Library, member_count: int) -> Iterator[tuple[Kshim, str, str, Members, Producer]]:
    """Three brokers, a topic, a settled group, and a producer."""
    topic, group_id = new_name(), new_name()
    with ExitStack() as scene:
        brokers = scene.enter_context(Kshim(3, topics={topic: PARTITIONS}))
        group = scene.enter_context(members())
        producer = library.producer(brokers.bootstrap_servers)
        scene.callback(producer.close)
        for _ in range(member_count):
            group.add(library.member(brokers.bootstrap_servers, group_id, topic))
        settle(group, [topic])
        yield brokers, topic, group_id, group, producer
        assert brokers.defects == []


def send(producer: Producer, topic: str, values: range) -> None:
    for value in values:
        producer.send(topic, value % PARTITIONS, str(value))


def generation(brokers: Kshim, group_id: str) -> tuple[str, int, int]:
    """State, generation and number of members, as the coordinator has them in memory."""
    shard = brokers.cluster.groups.coordinator.shard_of(group_id)
    assert shard is not None
    group = shard.classic_groups[group_id]
    return str(group.state), group.generation_id, len(group.members)


def test_a_group_goes_on_in_its_generation_when_the_broker_of_its_coordinator_stops(library: Library) -> None:
    with a_scene(library, 2) as (brokers, topic, group_id, group, producer):
        send(producer, topic, range(RECORDS))
        records = poll_until(group, RECORDS)
        before = generation(brokers, group_id)
        stopped = brokers.coordinator_of(group_id)
        brokers.stop_node(stopped)
        assert brokers.coordinator_of(group_id) != stopped
        send(producer, topic, range(RECORDS, 2 * RECORDS))
        records += poll_until(group, RECORDS)
        for member in group:
            member.commit()  # at the new coordinator
        assert generation(brokers, group_id) == before
        assert before[0] == "Stable"
        assert_each_once_and_in_order(records, 2 * RECORDS)


def test_no_record_is_lost_or_doubled_when_partitions_move_while_it_is_written_and_read(library: Library) -> None:
    with a_scene(library, 1) as (brokers, topic, _, group, producer):
        records = []
        for turn in range(6):
            send(producer, topic, range(turn * RECORDS, (turn + 1) * RECORDS))
            for partition in range(PARTITIONS):  # while the records are on their way
                brokers.move(topic, partition, 1 + brokers.leader_of(topic, partition) % 3)
            records += group.poll()
        producer.flush()
        records += poll_until(group, 6 * RECORDS - len(records))
        assert_each_once_and_in_order(records, 6 * RECORDS)


@pytest.mark.long
def test_the_coordinator_of_a_group_may_move_at_any_time(library: Library) -> None:
    with a_scene(library, 2) as (brokers, topic, group_id, group, producer):
        partition = brokers.cluster.groups.coordinator.partition_for(group_id)
        records = []
        for turn in range(3):
            brokers.move(OFFSETS_TOPIC, partition, 1 + brokers.coordinator_of(group_id) % 3)
            if turn == 1:
                group.add(library.member(brokers.bootstrap_servers, group_id, topic))  # and joins while it moves
            send(producer, topic, range(turn * RECORDS, (turn + 1) * RECORDS))
            records += group.poll()
        records += poll_until(group, 3 * RECORDS - len({(each.partition, each.offset) for each in records}))
        settle(group, [topic])
        assert generation(brokers, group_id)[::2] == ("Stable", 3)
        assert {int(record.value) for record in records} == set(range(3 * RECORDS))


def test_every_broker_may_be_stopped_and_started_in_turn(library: Library) -> None:
    with a_scene(library, 1) as (brokers, topic, group_id, group, producer):
        before = generation(brokers, group_id)
        records = []
        for turn, broker in enumerate((1, 2, 3)):
            brokers.stop_node(broker)
            send(producer, topic, range(turn * RECORDS, (turn + 1) * RECORDS))
            producer.flush()
            brokers.start_node(broker)
            records += group.poll()
        records += poll_until(group, 3 * RECORDS - len(records))
        for member in group:
            member.commit()
        assert generation(brokers, group_id) == before
        assert_each_once_and_in_order(records, 3 * RECORDS)
