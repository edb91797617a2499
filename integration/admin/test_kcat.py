"""kcat, librdkafka on the command line: Debian's package is years older than the library of confluent-kafka.

kcat has no command for groups beyond being a member of one (`-G`); what it did is looked at with confluent-kafka.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from integration.admin.admin import Committed, GroupListing
from integration.admin.librdkafka import LibrdkafkaAdmin
from integration.kafka_python.client import KafkaPython
from integration.support.broker import Broker, Deadline
from integration.support.client import TopicPartition
from integration.support.fixtures import available
from integration.support.group_suite import PARTITION_COUNT, SETTLE_TIMEOUT_S, new_topic
from integration.support.unavailable import Unavailable

RECORD_COUNT = 100

Kcat = Callable[..., subprocess.CompletedProcess[str]]


def kcat_path() -> str:
    """The program. Raises Unavailable."""
    if (path := shutil.which("kcat")) is None:
        raise Unavailable("kcat is not installed; Debian's package is named so: `apt-get install kcat`")
    return path


@pytest.fixture
def kcat(broker: Broker) -> Kcat:
    """Runs kcat with these options against the broker, to its end, which must be a good one."""
    path = available(kcat_path)

    def run(*options: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [path, "-b", broker.bootstrap, *options]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=SETTLE_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_kcat_lists_brokers_topics_and_partitions(kcat: Kcat, broker: Broker) -> None:
    topic = new_topic(KafkaPython(), broker)
    listed: dict[str, Any] = json.loads(kcat("-L", "-J").stdout)
    (node,) = listed["brokers"]
    assert node["name"] == broker.bootstrap
    (shown,) = (each for each in listed["topics"] if each["topic"] == topic)
    assert {each["partition"] for each in shown["partitions"]} == set(range(PARTITION_COUNT))
    assert {each["leader"] for each in shown["partitions"]} == {node["id"]}


def test_kcat_consumes_in_a_group_what_it_produced_and_commits_its_position(kcat: Kcat, broker: Broker) -> None:
    topic = group_id = new_topic(KafkaPython(), broker)
    values = [str(number) for number in range(RECORD_COUNT)]
    kcat("-P", "-t", topic, text="\n".join(values))
    taken = kcat("-G", group_id, "-c", str(RECORD_COUNT), "-X", "auto.offset.reset=earliest", "-f", "%s %p\n", topic)
    lines = [line.split() for line in taken.stdout.splitlines()]
    assert sorted(value for value, _ in lines) == sorted(values)
    counts = {TopicPartition(topic, part): 0 for part in range(PARTITION_COUNT)}
    for _, partition in lines:
        counts[TopicPartition(topic, int(partition))] += 1
    admin = LibrdkafkaAdmin(broker.bootstrap)
    listed = admin.list_offsets({group_id: None})[group_id]
    assert listed == {partition: Committed(count, "") for partition, count in counts.items() if count}
    assert admin.list_groups()[group_id] == GroupListing("Empty", "classic", is_simple=False)


def test_kcat_is_described_as_a_member_and_leaves_when_it_ends(broker: Broker) -> None:
    topic = group_id = new_topic(KafkaPython(), broker)
    admin = LibrdkafkaAdmin(broker.bootstrap)
    command = [available(kcat_path), "-b", broker.bootstrap, "-X", "client.id=a-cat", "-G", group_id, topic]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = Deadline(SETTLE_TIMEOUT_S)
            while (group := admin.describe(group_id)[group_id]).state != "Stable":
                deadline.check(f"kcat is in the group, which is {group}")
            (member,) = group.members
            assert member.client_id == "a-cat"
            assert member.assignment == {TopicPartition(topic, partition) for partition in range(PARTITION_COUNT)}
            assert admin.delete_groups(group_id) == {group_id: "NON_EMPTY_GROUP"}
            process.terminate()
            process.wait(SETTLE_TIMEOUT_S)
        finally:
            process.kill()
    assert admin.delete_groups(group_id) == {group_id: "NONE"}
