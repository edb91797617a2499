"""`kshim why` about what only the broker sees: topics that change under consumers, and consumers that may not join."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest
from kafka.admin import KafkaAdminClient, NewPartitions, NewTopic
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import InconsistentGroupProtocolError

from integration.kafka_python.client import KafkaPythonMember
from integration.support.kshim import KshimProcess

TIMEOUT_S = 60


@pytest.fixture
def kshim(tmp_path: Path) -> Iterator[KshimProcess]:
    process = KshimProcess(tmp_path, topics={"orders": 4})
    process.start()
    yield process
    process.stop()


def member(kshim: KshimProcess, client_id: str, assignor: type = RangePartitionAssignor) -> KafkaPythonMember:
    """A member of the group `billing` that reads all topics whose names begin with `orders`, and looks for them each second."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=kshim.bootstrap,
        client_id=client_id,
        group_id="billing",
        heartbeat_interval_ms=200,
        metadata_max_age_ms=1_000,
        partition_assignment_strategy=[assignor],
    )
    consumer.subscribe(pattern="^orders")
    return KafkaPythonMember(consumer)


def incidents(kshim: KshimProcess) -> list[dict[str, Any]]:
    """What the command says."""
    command = [
        sys.executable,
        "-m",
        "kshim",
        "why",
        "billing",
        "--bootstrap-server",
        kshim.bootstrap,
        "--output",
        "json",
    ]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    found: list[dict[str, Any]] = json.loads(answer.stdout)["incidents"]
    return found


def poll_until_has(consumer: KafkaPythonMember, count: int) -> None:
    """Until it has so many partitions."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(consumer.assignment()) != count:
        assert time.monotonic() < deadline_s, consumer.assignment()
        consumer.poll(1)


def test_more_partitions_and_new_topics_are_named_as_what_made_a_group_rebalance(kshim: KshimProcess) -> None:
    reader = member(kshim, "reader")
    admin = KafkaAdminClient(bootstrap_servers=kshim.bootstrap)
    poll_until_has(reader, 4)
    admin.create_partitions({"orders": NewPartitions(6)})
    poll_until_has(reader, 6)
    admin.create_topics([NewTopic("orders-eu", 3, 1)])
    poll_until_has(reader, 9)
    grew, created = incidents(kshim)[-2:]
    assert (grew["cause"], created["cause"]) == ("partitions_added", "topic_created")
    assert "orders had 4 partitions and got 6" in [each["text"] for each in grew["evidence"]]
    assert "orders-eu was created" in [each["text"] for each in created["evidence"]]
    reader.close()
    admin.close()


def test_a_consumer_that_may_not_join_is_named_with_the_assignor_that_the_others_do_not_have(
    kshim: KshimProcess,
) -> None:
    reader = member(kshim, "reader")
    poll_until_has(reader, 4)
    stranger = member(kshim, "stranger", RoundRobinPartitionAssignor)
    with pytest.raises(InconsistentGroupProtocolError):
        poll_until_has(stranger, 2)
    last = incidents(kshim)[-1]
    assert (last["cause"], last["clients"]) == ("assignor_changed", ["stranger@127.0.0.1"])
    assert last["sentence"].startswith("stranger@127.0.0.1 could not join billing")
    stranger.close()
    reader.close()
