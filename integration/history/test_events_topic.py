"""kafka-python consumers work and are read about: the history as any client finds it in `__kshim_events`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest

from integration.support.kshim import KshimProcess
from tests.broker.history.page import problems

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

TOPIC = "__kshim_events"
TIMEOUT_S = 30


@pytest.fixture
def kshim(tmp_path: Path) -> Iterator[KshimProcess]:
    process = KshimProcess(tmp_path, topics={"orders": 4}, durable=True, options=("--events-topic",))
    process.start()
    yield process
    process.stop()


def consumer(kshim: KshimProcess, client_id: str, group_id: str | None, *topics: str, **options: Any) -> Any:
    settings = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200, "auto_offset_reset": "earliest", **options}
    return kafka.KafkaConsumer(
        *topics, bootstrap_servers=kshim.bootstrap, client_id=client_id, group_id=group_id, **settings
    )


def poll_until(is_done: Callable[[], bool], *consumers: Any) -> None:
    """Let the consumers poll until something is so."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_done():
        assert time.monotonic() < deadline_s, "it did not come to that"
        for each in consumers:
            each.poll(timeout_ms=50)


def read_until(reader: Any, is_done: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Read the topic from where the reader is until what came holds."""
    events: list[dict[str, Any]] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_done(events):
        assert time.monotonic() < deadline_s, [(event["type"], event["group"]) for event in events]
        for records in reader.poll(timeout_ms=100).values():
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
    anna = consumer(kshim, "anna", "billing", "orders")
    poll_until(lambda: len(anna.assignment()) == 4, anna)
    ben = consumer(kshim, "ben", "billing", "orders")
    poll_until(lambda: len(anna.assignment()) == len(ben.assignment()) == 2, anna, ben)
    ben.close()
    poll_until(lambda: len(anna.assignment()) == 4, anna)
    anna.close()

    reader = consumer(kshim, "reader", None)
    reader.assign([kafka.TopicPartition(TOPIC, 0)])
    events = read_until(reader, has(type="group_emptied", group="billing"))
    reader.close()

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
    poll_until(lambda: len(watcher.assignment()) == 5, watcher)
    anna = consumer(kshim, "anna", "billing", "orders")
    poll_until(lambda: len(anna.assignment()) == 4, anna)
    anna.close()
    events = read_until(watcher, has(type="group_emptied", group="billing"))
    watcher.close()
    assert {event["group"] for event in events} == {"billing"}


def test_after_a_restart_the_topic_goes_on_with_another_run(kshim: KshimProcess) -> None:
    anna = consumer(kshim, "anna", "billing", "orders")
    poll_until(lambda: len(anna.assignment()) == 4, anna)
    anna.close()
    kshim.stop()
    kshim.start()
    reader = consumer(kshim, "reader", None)
    reader.assign([kafka.TopicPartition(TOPIC, 0)])
    events = read_until(reader, has(type="coordinator_loaded", group="billing"))
    reader.close()
    assert len({event["run"] for event in events}) == 2
    assert events[-1]["type"] == "coordinator_loaded"
    assert (events[-1]["state_to"], events[-1]["seq"]) == ("Empty", 1)
