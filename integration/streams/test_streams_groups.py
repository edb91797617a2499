"""Applications of Kafka Streams with `group.protocol=streams`: the same happens on kshim and on Apache Kafka 4.4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.streams.application import Application, Groups, Topics, eventually
from integration.support.broker import Broker
from integration.support.fixtures import KINDS, available
from integration.support.jvm import Jvm
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(900)]

CONFIG = {
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
}
"""A killed process is noticed after six seconds; else it would take 45."""

Start = Callable[..., Application]


@pytest.fixture(params=KINDS, scope="module")
def streams_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Each broker in turn; tests use applications of their own."""
    directory = tmp_path_factory.mktemp("streams")
    broker: Broker
    if request.param == "kshim":
        broker = KshimProcess(directory, config=CONFIG, durable=True)
    else:
        broker = available(lambda: RealKafka(directory, CONFIG))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def topics(streams_broker: Broker) -> Topics:
    return Topics(streams_broker.bootstrap)


@pytest.fixture
def groups(streams_broker: Broker, jvm: Jvm) -> Iterator[Groups]:
    groups = Groups(jvm, streams_broker.bootstrap)
    yield groups
    groups.close()


@pytest.fixture
def start(streams_broker: Broker, tmp_path: Path) -> Iterator[Start]:
    """Starts processes: `start(name, topology, application_id, **settings)`. What still runs in the end is killed."""
    running: list[Application] = []

    def start(name: str, topology: str, application_id: str, **settings: Any) -> Application:
        application = available(
            lambda: Application(topology, streams_broker.bootstrap, application_id, tmp_path / name, **settings)
        )
        running.append(application)
        return application

    yield start
    for application in running:
        application.kill()


def has_tasks(count: int) -> Callable[[Any], bool]:
    return lambda tasks: len(tasks.active) == count


def test_one_process_counts_words(topics: Topics, groups: Groups, start: Start) -> None:
    topics.create({"one-in": 3, "one-out": 1})
    topics.write("one-in", [(str(number), "to be or not to be") for number in range(20)])
    one = start("one", "word-count", "one")
    one.wait_for_state("RUNNING")
    assert one.wait_for_tasks(has_tasks(6), "six tasks").active == {"0_0", "0_1", "0_2", "1_0", "1_1", "1_2"}
    eventually(
        lambda: topics.table("one-out"), lambda table: table == {"to": "40", "be": "40", "or": "20", "not": "20"}
    )
    assert topics.partition_counts("one-") == {
        "one-in": 3,
        "one-out": 1,
        "one-words-repartition": 3,
        "one-counts-changelog": 3,
    }
    assert topics.configs("one-counts-changelog")["cleanup.policy"] == "compact"
    assert groups.types()["one"] == "Streams"
    assert len(groups.settled("one", 1).members) == 1
    one.close()
    assert groups.describe("one").state == "Empty"
    assert topics.committed("one", "one-in") == 20
