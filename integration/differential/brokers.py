"""The two brokers, started with the same configuration, and the topics on them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from integration.differential.wire import Address
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from kshim.tools.client import Client
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

CONFIG = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "4",
    "group.consumer.max.size": "4",
    "group.consumer.assignment.interval.ms": "0",  # targets depend on requests alone
    "offsets.topic.num.partitions": "5",
    "offsets.retention.check.interval.ms": "86400000",  # each broker's own clock says when empty groups go
    "auto.create.topics.enable": "false",
    "message.max.bytes": "8000",  # so that some assignments and commits are too large to be stored
}
# One thread a stage makes Kafka take requests in the order they were sent over several connections, and without linger
# an answer is out before the next request is looked at. Neither changes what is answered.
_IN_ORDER = {
    "num.network.threads": "1",
    "num.io.threads": "1",
    "group.coordinator.threads": "1",
    "group.coordinator.append.linger.ms": "0",
}

TOPICS = {"t": 3, "u": 1}
"""Name -> partitions."""

_METADATA_VERSION = 12
_CREATE_TOPICS_VERSION = 5
_CONSUMER_GROUP_HEARTBEAT_VERSION = 1
_DELETE_GROUPS_VERSION = 2
_TOPICS_TIMEOUT_S = 30


class Target(NamedTuple):
    """One broker: where it is and which ids it gave the topics."""

    name: str
    address: Address
    topic_ids: dict[str, bytes]


class Pair(NamedTuple):
    """The broker that is tested and the one that is right."""

    kshim: Target
    kafka: Target


@contextmanager
def running_pair(directory: Path, config: Mapping[str, str] | None = None) -> Iterator[Pair]:
    """Both brokers, with more or other `config` than CONFIG, running until the end of the block.

    Raises Unavailable: no JVM or no jars.
    """
    config = {**CONFIG, **(config or {})}
    kafka = RealKafka(directory / "kafka", {**config, **_IN_ORDER})
    kshim = KshimProcess(directory / "kshim", config=config, topics=TOPICS)
    try:
        kshim.start()
        kafka.start()
        _create_topics(_address(kafka.bootstrap))
        _await_coordinator(_address(kafka.bootstrap))
        yield Pair(_target("kshim", kshim.bootstrap), _target("kafka", kafka.bootstrap))
    finally:
        kshim.stop()
        kafka.stop()


def _address(bootstrap: str) -> Address:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def _target(name: str, bootstrap: str) -> Target:
    address = _address(bootstrap)
    return Target(name, address, _topic_ids(address))


def _create_topics(address: Address) -> None:
    client = Client(*address, client_id="differential")
    try:
        topics = tuple(
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=())
            for name, partitions in TOPICS.items()
        )
        request = CreateTopicsRequest(topics=topics, timeout_ms=_TOPICS_TIMEOUT_S * 1000)
        response = client.ask(request, _CREATE_TOPICS_VERSION)
        assert all(topic.error_code == 0 for topic in response.topics), response
    finally:
        client.close()


def _await_coordinator(address: Address) -> None:
    """Wait until the coordinator knows the topics: a Kafka just started tells them to clients first, and assigns none."""
    client = Client(*address, client_id="differential")
    join = ConsumerGroupHeartbeatRequest(
        group_id="first",
        member_id="only",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=tuple(TOPICS),
        topic_partitions=(),
    )
    leave = ConsumerGroupHeartbeatRequest(group_id=join.group_id, member_id=join.member_id, member_epoch=-1)
    deadline = time.monotonic() + _TOPICS_TIMEOUT_S
    try:
        while True:
            response = client.ask(join, _CONSUMER_GROUP_HEARTBEAT_VERSION)
            if response.assignment is not None and response.assignment.topic_partitions:
                break
            assert time.monotonic() < deadline, f"nothing is assigned: {response}"
            time.sleep(0.05)
        client.ask(leave, _CONSUMER_GROUP_HEARTBEAT_VERSION)
        client.ask(DeleteGroupsRequest(groups_names=(join.group_id,)), _DELETE_GROUPS_VERSION)
    finally:
        client.close()


def _topic_ids(address: Address) -> dict[str, bytes]:
    """The ids, once the broker knows all topics with all their partitions."""
    client = Client(*address, client_id="differential")
    request = MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in TOPICS))
    deadline = time.monotonic() + _TOPICS_TIMEOUT_S
    try:
        while True:
            response = client.ask(request, _METADATA_VERSION)
            found = {topic.name: topic for topic in response.topics if topic.error_code == 0}
            if all(name in found and len(found[name].partitions) == count for name, count in TOPICS.items()):
                return {name: found[name].topic_id for name in TOPICS}
            assert time.monotonic() < deadline, f"topics are not there: {response}"
            time.sleep(0.05)
    finally:
        client.close()


def connected_pair(kshim: str, kafka: str) -> Pair:
    """Two brokers that run already, at `host:port`, with `CONFIG` and the topics."""
    return Pair(_target("kshim", kshim), _target("kafka", kafka))
