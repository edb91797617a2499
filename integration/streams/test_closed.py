"""Applications of Kafka Streams in a classic group do not leave when they are closed; `kshim why` tells that from a kill."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.streams.application import Application, Topics, eventually
from integration.support.broker import Broker
from integration.support.fixtures import KINDS, available
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(600)]

GROUP = "closed"
OF_START = ("one_by_one_start", "partitions_added")
"""Kafka Streams makes topics of its own as it starts."""
SETTINGS = {
    "group_protocol": "classic",
    "session_timeout_ms": "6000",
    "heartbeat_interval_ms": "500",
    "commit_interval_ms": "30000",
}


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Each broker in turn."""
    directory = tmp_path / "broker"
    directory.mkdir()
    found: Broker = (
        KshimProcess(directory, durable=True)
        if request.param == "kshim"
        else available(lambda: RealKafka(directory, {"group.initial.rebalance.delay.ms": "500"}))
    )
    found.start()
    yield found
    found.stop()


def why(broker: Broker) -> list[dict[str, Any]]:
    """The incidents of the group, as the command line tells them of a broker, and of the log of a Kafka."""
    log = ["--broker-log", str(broker.log)] if isinstance(broker, RealKafka) else []
    command = [sys.executable, "-m", "kshim", "why", GROUP, "--bootstrap-server", broker.bootstrap]
    said = subprocess.run([*command, *log, "--output", "json"], capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(said.stdout)["incidents"]
    return found


def counts_words(topics: Topics, processes: list[Application], times: int) -> None:
    """The application has read and counted all that was written, so that each process has something to commit."""
    for process in processes:
        process.wait_for_tasks(lambda tasks: len(tasks.active) == 12 // len(processes), "its share of the tasks")
    topics.write(f"{GROUP}-in", [(str(number), f"word-{number}") for number in range(60)])
    eventually(lambda: set(topics.table(f"{GROUP}-out").values()), lambda counts: counts == {str(times)})


def test_a_process_that_is_closed_was_removed_in_order_and_one_that_is_killed_was_killed(
    broker: Broker, tmp_path: Path
) -> None:
    topics = Topics(broker.bootstrap)
    topics.create({f"{GROUP}-in": 6, f"{GROUP}-out": 1})
    processes = [
        available(
            lambda name=name: Application("word-count", broker.bootstrap, GROUP, tmp_path / name, **SETTINGS)  # type: ignore[misc]
        )
        for name in ("one", "two", "three")
    ]
    try:
        counts_words(topics, processes, 1)
        closed = processes.pop()
        closed.close()
        counts_words(topics, processes, 2)
        processes.pop().kill()
        counts_words(topics, processes, 3)
    finally:
        for process in processes:
            process.kill()
    told = [(each["cause"], each["sentence"]) for each in why(broker) if each["cause"] not in OF_START]
    # The application has counted what was written when it commits, and of one that is killed just then a log tells no more.
    expected = ["scale_down", "killed"] if isinstance(broker, KshimProcess) else ["scale_down"]
    assert [cause for cause, _ in told][: len(expected)] == expected, told
