"""kafka-python consumers work and are read about: the history as any client finds it in `__kshim_events`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest

from integration.kafka_python.client import KafkaPythonMember
from integration.support.kshim import KshimProcess
from tests.history.page import problems

TOPIC = "__kshim_events"
TIMEOUT_S = 30


@pytest.fixture
def kshim(tmp_path: Path) -> Iterator[KshimProcess]:
    process = KshimProcess(tmp_path, topics={"orders": 4}, durable=True, options=("--events-topic",))
    process.start()
    yield process
    process.stop()


def consumer(kshim: KshimProcess, client_id: str, group_id: str | None, *topics: str) -> Any:
    return kafka.KafkaConsumer(
        *topics,
        bootstrap_servers=kshim.bootstrap,
        client_id=client_id,
        group_id=group_id,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=200,
        auto_offset_reset="earliest",
    )


def member(kshim: KshimProcess, client_id: str, group_id: str) -> KafkaPythonMember:
    """A member of a group that reads `orders`."""
    return KafkaPythonMember(consumer(kshim, client_id, group_id, "orders"))


def reader(kshim: KshimProcess) -> Any:
    """A consumer without a group, at the beginning of the events."""
    found = consumer(kshim, "reader", None)
    found.assign([kafka.TopicPartition(TOPIC, 0)])
    return found


def poll_until(is_done: Callable[[], bool], *members: KafkaPythonMember) -> None:
    """Let the members poll until something is so."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_done():
        assert time.monotonic() < deadline_s, "it did not come to that"
        for each in members:
            each.poll(0.05)


def read_until(source: Any, is_done: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Read the topic from where the consumer is until what came holds."""
    events: list[dict[str, Any]] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_done(events):
        assert time.monotonic() < deadline_s, [(event["type"], event["group"]) for event in events]
        for records in source.poll(timeout_ms=1_000).values():
            for record in records:
                event = json.loads(record.value)
                assert record.key.decode() == event["group"]
                assert problems(event) == []
                events.append(event)
    return events


def has(**wanted: object) -> Callable[[list[dict[str, Any]]], bool]:
    """Whether an event with these values is among them."""
    return lambda events: any(all(event[name] == value for name, value in wanted.items()) for event in events)


def test_a_consumer_without_a_group_reads_why_two_others_rebalanced(kshim: KshimProcess) -> None:
    anna = member(kshim, "anna", "billing")
    poll_until(lambda: len(anna.assignment()) == 4, anna)
    ben = member(kshim, "ben", "billing")
    poll_until(lambda: len(anna.assignment()) == len(ben.assignment()) == 2, anna, ben)
    ben.close()
    poll_until(lambda: len(anna.assignment()) == 4, anna)
    anna.close()

    source = reader(kshim)
    events = read_until(source, has(type="group_emptied", group="billing"))
    source.close()

    ended = [event for event in events if event["type"] == "rebalance_completed"]
    why = [(event["reason"], event["trigger"]["client_id"], event["members"]["joined"]) for event in ended]
    assert why[0] == ("member_joined", "anna", 1)
    assert ("member_joined", "ben", 2) in why
    assert why[-1] == ("member_left", "ben", 1)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    with_ben = next(event for event in ended if event["reason"] == "member_joined" and event["members"]["joined"] == 2)
    assert {wait["client_id"]: wait["is_new"] for wait in with_ben["waits"]} == {"anna": False, "ben": True}
    assert with_ben["last_to_join"]["client_id"] == "anna"
    assert with_ben["protocol"] == "range"
    assert with_ben["trigger"]["host"] == "127.0.0.1"


def test_a_subscriber_by_pattern_reads_it_and_is_never_told_of_itself(kshim: KshimProcess) -> None:
    watcher = consumer(kshim, "watcher", "watchers")
    watcher.subscribe(pattern="^(__kshim_events|orders)$")
    anna = member(kshim, "anna", "billing")
    poll_until(lambda: len(anna.assignment()) == 4, anna)
    anna.close()
    events = read_until(watcher, has(type="group_emptied", group="billing"))
    assert {partition.topic for partition in watcher.assignment()} == {TOPIC, "orders"}
    watcher.close()
    assert {event["group"] for event in events} == {"billing"}


def test_after_a_restart_the_topic_goes_on_with_another_run(kshim: KshimProcess) -> None:
    anna = member(kshim, "anna", "billing")
    poll_until(lambda: len(anna.assignment()) == 4, anna)
    anna.close()
    kshim.stop()
    kshim.start()
    source = reader(kshim)
    events = read_until(source, has(type="coordinator_loaded", group="billing"))
    source.close()
    assert len({event["run"] for event in events}) == 2
    assert (events[-1]["type"], events[-1]["state_to"], events[-1]["seq"]) == ("coordinator_loaded", "Empty", 1)
