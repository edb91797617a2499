"""kshim and Kafka side by side with the same configuration of share groups, and what a sequence asks of either."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from integration.differential.wire import Address
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from kshim.coordinator.hash_order import (
    hash_map_order,
    scala_map_order,
    topic_id_and_index_hash,
    topic_id_partition_hash,
    uuid_hash,
)
from kshim.tools.client import Client
from kshim_protocol.messages import create_topics, find_coordinator, list_offsets, metadata
from kshim_protocol.messages import incremental_alter_configs as alter_configs
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kshim_protocol.schema import Request

NODE_ID = 1
CONFIG = {
    "node.id": str(NODE_ID),
    "group.share.assignment.interval.ms": "0",  # targets depend on requests alone
    "group.share.min.record.lock.duration.ms": "1000",  # so that locks end within a sequence
    "group.share.max.size": "4",
    "group.share.max.share.sessions": "10000",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "share.coordinator.state.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "5",
    "auto.create.topics.enable": "false",
}
# One thread a stage makes Kafka take requests in the order they were sent over several connections, and without linger
# an answer is out before the next request is looked at. Neither changes what is answered.
_IN_ORDER = {
    "num.network.threads": "1",
    "num.io.threads": "1",
    "group.coordinator.threads": "1",
    "group.coordinator.append.linger.ms": "0",
    "share.coordinator.threads": "1",
    "share.coordinator.append.linger.ms": "0",
    "log.cleaner.enable": "false",  # of the state that is left of old sequences nothing has to go
}
TOPICS = {"t": 2, "u": 1}
"""What a sequence has, by name -> partitions."""
PLACES = [(name, index) for name, count in TOPICS.items() for index in range(count)]
"""All their partitions."""
_SLOTS_OF_ASSIGNOR = (8, 16)
"""Of its tables, for so few partitions."""
_MOST_TRIES = 40
MISSING_TOPIC = "x"
_TRANSACTION_KEY, _SHARE_KEY = 1, 2
_GROUP_RESOURCE = 32
_TIMEOUT_S = 30.0
_LEVEL_OF_KSHIM = 1


class Broker(NamedTuple):
    """One of the two."""

    name: str
    address: Address


class Pair(NamedTuple):
    """The broker that is tested and the one that is right."""

    kshim: Broker
    kafka: Broker


@contextmanager
def running_pair(directory: Path) -> Iterator[Pair]:
    """Both brokers, until the end of the block. Raises Unavailable: no JVM or no jars."""
    kafka = RealKafka(directory / "kafka", {**CONFIG, **_IN_ORDER}, features={"share.version": _LEVEL_OF_KSHIM})
    kshim = KshimProcess(directory / "kshim", config=CONFIG)
    try:
        kshim.start()
        kafka.start()
        pair = Pair(_broker("kshim", kshim.bootstrap), _broker("kafka", kafka.bootstrap))
        for broker in pair:
            _await_share_coordinator(broker)
        yield pair
    finally:
        kshim.stop()
        kafka.stop()


def connected_pair(kshim: str, kafka: str) -> Pair:
    """Two brokers that run already, at `host:port`, with `CONFIG`."""
    pair = Pair(_broker("kshim", kshim), _broker("kafka", kafka))
    for broker in pair:
        _await_share_coordinator(broker)
    return pair


def _broker(name: str, bootstrap: str) -> Broker:
    host, _, port = bootstrap.rpartition(":")
    return Broker(name, (host, int(port)))


def _await_share_coordinator(broker: Broker) -> None:
    """Kafka makes the topic of the states when it is first asked for a coordinator, and loads its shards one by one."""
    client = Client(*broker.address, client_id="differential")
    keys = tuple(f"g{number}:AAAAAAAAAAAAAAAAAAAAAQ:0" for number in range(20))
    try:
        until(
            lambda: all(
                one.error_code == 0
                for one in client.ask(
                    find_coordinator.FindCoordinatorRequest(key_type=_SHARE_KEY, coordinator_keys=keys), 6
                ).coordinators
            ),
            f"{broker.name} has share coordinators",
        )
        request = find_coordinator.FindCoordinatorRequest(key_type=_TRANSACTION_KEY, coordinator_keys=("first",))
        until(
            lambda: client.ask(request, 6).coordinators[0].error_code == 0,
            f"{broker.name} has transaction coordinators",
        )
    finally:
        client.close()


def until(is_so: Callable[[], bool], what: str, timeout_s: float = _TIMEOUT_S) -> None:
    """Ask until it is so; for what a broker does after it has answered."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, f"not after {timeout_s} s: {what}"
        time.sleep(0.01)


def _order_of(prefix: str, ids: Mapping[str, bytes]) -> list[list[tuple[str, int]]]:
    """The order of the partitions in requests, and of topics and partitions in the assignor, however they came in."""
    in_requests = scala_map_order(
        PLACES, lambda place: topic_id_partition_hash(ids[place[0]], prefix + place[0], place[1])
    )
    in_assignor = [
        hash_map_order(places, slots, lambda place: topic_id_and_index_hash(ids[place[0]], place[1]))
        for slots in _SLOTS_OF_ASSIGNOR
        for places in (PLACES, PLACES[::-1])
    ]
    of_topics = hash_map_order(PLACES, hash_of=lambda place: uuid_hash(ids[place[0]]))
    return [in_requests, *in_assignor, of_topics]


class Admin:
    """What is done to a broker around a sequence, and is not compared. One connection."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.client = Client(*broker.address, client_id="differential", timeout_s=_TIMEOUT_S)

    def ask(self, request: Request[Any], version: int) -> Any:
        """The answer."""
        return self.client.ask(request, version)

    def _are_gone(self, prefix: str) -> bool:
        names = tuple(metadata.MetadataRequestTopic(name=prefix + name) for name in TOPICS)
        return all(one.error_code for one in self.ask(metadata.MetadataRequest(topics=names), 12).topics)

    def create_topics(self, prefix: str) -> dict[str, bytes]:
        """The topics of a sequence; returns their ids by short name, once the broker leads their partitions."""
        rows = tuple(
            create_topics.CreatableTopic(
                name=prefix + name, num_partitions=count, replication_factor=1, assignments=(), configs=()
            )
            for name, count in TOPICS.items()
        )
        answer = self.ask(create_topics.CreateTopicsRequest(topics=rows, timeout_ms=30_000), 7)
        assert all(topic.error_code == 0 for topic in answer.topics), answer
        names = tuple(metadata.MetadataRequestTopic(name=prefix + name) for name in TOPICS)

        def is_there() -> bool:
            answer = self.ask(metadata.MetadataRequest(topics=names), 12)
            return all(
                topic.error_code == 0
                and len(topic.partitions) == TOPICS[topic.name.removeprefix(prefix)]
                and all(one.error_code == 0 and one.leader_id == NODE_ID for one in topic.partitions)
                for topic in answer.topics
            )

        until(is_there, "the topics are there")
        partitions = {
            name: tuple(
                list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(count)
            )
            for name, count in TOPICS.items()
        }
        ends = list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=tuple(
                list_offsets.ListOffsetsTopic(name=prefix + name, partitions=found)
                for name, found in partitions.items()
            ),
        )

        def is_led() -> bool:  # Kafka tells clients of a leader before that one knows it
            answer = self.ask(ends, 6)
            return all(one.error_code == 0 for topic in answer.topics for one in topic.partitions)

        until(is_led, "the topics have leaders")
        return {topic.name.removeprefix(prefix): topic.topic_id for topic in answer.topics}

    def delete_topics(self, prefix: str) -> None:
        """Those again; returns when they are gone."""
        rows = tuple(DeleteTopicState(name=prefix + name, topic_id=bytes(16)) for name in TOPICS)
        self.ask(DeleteTopicsRequest(topics=rows, timeout_ms=30_000), 6)
        until(partial(self._are_gone, prefix), "the topics are gone")

    def alter_group(self, group_id: str, configs: Mapping[str, str]) -> Any:
        """Configuration of a group: the answer."""
        rows = tuple(
            alter_configs.AlterableConfig(name=key, config_operation=0, value=value) for key, value in configs.items()
        )
        resource = alter_configs.AlterConfigsResource(
            resource_type=_GROUP_RESOURCE, resource_name=group_id, configs=rows
        )
        return self.ask(alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1)

    def close(self) -> None:
        """Close the connection."""
        self.client.close()


def topics_of_both(kshim: Admin, kafka: Admin, prefix: str) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The topics of a sequence on both brokers; returns their ids by short name.

    Assignors take topics in an order that depends on their ids, and so does what is said of several partitions: they are made
    again until it is the same.
    """
    while True:
        of_kafka = kafka.create_topics(prefix)
        for _ in range(_MOST_TRIES):
            of_kshim = kshim.create_topics(prefix)
            if _order_of(prefix, of_kshim) == _order_of(prefix, of_kafka):
                return of_kshim, of_kafka
            kshim.delete_topics(prefix)
        kafka.delete_topics(prefix)  # a rare one
