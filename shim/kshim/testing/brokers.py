"""One or several brokers under the caller's trio."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from os import PathLike
from threading import get_ident
from typing import TYPE_CHECKING

import trio

from kshim.broker.cluster import Cluster, RandomIds
from kshim.broker.node import Node
from kshim.broker.router import Router
from kshim.config.broker_config import BrokerConfig, ConfigError, known_key, unknown_key
from kshim.config.listeners import plain_listener
from kshim.config.security_keys import SECURITY_KEYS
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.server.clock import RealClock
from kshim.server.random_ids import new_cluster_id, new_member_suffix, new_topic_id
from kshim.server.server import Server, serve
from kshim.storage.log import LogError
from kshim.testing.arguments import (
    check_count,
    check_integer,
    check_text,
    checked_configuration,
    checked_directory,
    checked_topics,
)

if TYPE_CHECKING:
    from kshim.storage.storage import Storage


_ACCESS_KEYS = frozenset({"authorizer.class.name", "controller.listener.names"})
"""Of the keys of listeners and security those that do not depend on a listener."""

_NO_LISTENERS = "the key to be left out, since brokers for tests listen on 127.0.0.1 without TLS and SASL"

CLOSED = "these brokers were closed when their block was left"

_LOG = logging.getLogger("kshim")


class Brokers:
    """Running brokers, with ids from 1 on (or from `node.id`), as `open_brokers` hands them out.

    Every method is a plain call that has done its work when it returns. Call them in trio's thread: elsewhere, and after
    the block has been left, each raises RuntimeError. Each raises TypeError for an argument of another type.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._thread_id = get_ident()
        self._is_closed = False
        self.cluster = cluster
        """The cluster itself, for tests of its internals."""
        self.defects: list[BaseException] = []
        """Unexpected exceptions; empty unless kshim has a defect, or a disk failed."""

    @property
    def bootstrap(self) -> str:
        """`host:port` of every broker, live or not, comma separated: what clients call bootstrap servers."""
        return ",".join(map(self._address_of, self.cluster.leadership.node_ids))

    @property
    def live(self) -> list[int]:
        """Ids of the brokers that are not stopped."""
        return list(self._running.leadership.live_ids)

    def address_of(self, broker: int) -> str:
        """`host:port` of one broker. It keeps its port when it is stopped. Raises LookupError."""
        check_integer("broker", broker)
        self._check_running()
        return self._address_of(broker)

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Make a topic; its partitions are given to the live brokers in turn.

        Raises KafkaError as CreateTopics answers: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
        INVALID_CONFIG, POLICY_VIOLATION (10,000 partitions or more). Raises LogError.
        """
        check_text("name", name)
        check_integer("partitions", partitions)
        self._running.create_topic(name, partitions, checked_configuration("configs", configs))

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition. Raises LookupError, also while all brokers are stopped."""
        check_text("topic", topic)
        check_integer("partition", partition)
        leader_id = self._running.leader_of(topic, partition)
        if leader_id not in self.live:
            raise LookupError(f"partition {topic}-{partition} has no leader: all brokers are stopped")
        return leader_id

    def coordinator_of(self, group_id: str) -> int:
        """The broker that coordinates a group. Raises LookupError while all brokers are stopped."""
        check_text("group_id", group_id)
        self._running.groups.topic()
        return self.leader_of(OFFSETS_TOPIC, self.cluster.groups.coordinator.partition_for(group_id))

    def stop_node(self, broker: int) -> None:
        """Stop a broker: its partitions and groups move to others, and its clients are disconnected. Idempotent.

        Raises LookupError.
        """
        check_integer("broker", broker)
        self._running.leader_election.stop_node(broker)

    def start_node(self, broker: int) -> None:
        """Have a broker that was stopped accept clients again, at the address it had. It leads new partitions only.

        Raises LookupError; OSError when another process has taken its port.
        """
        check_integer("broker", broker)
        self._running.leader_election.start_node(broker)

    def move(self, topic: str, partition: int, to: int) -> None:
        """Have another broker lead a partition. A partition of `__consumer_offsets` moves its groups.

        Raises LookupError; ValueError when that broker is stopped; LogError when it cannot be stored.
        """
        check_text("topic", topic)
        check_integer("partition", partition)
        check_integer("to", to)
        self._running.leader_election.move(topic, partition, to)

    @property
    def _running(self) -> Cluster:
        """Raises RuntimeError."""
        self._check_running()
        return self.cluster

    def _check_running(self) -> None:
        """Raises RuntimeError."""
        if self._is_closed:
            raise RuntimeError(CLOSED)
        if get_ident() != self._thread_id:
            raise RuntimeError("call these brokers in the thread that runs trio, or use brokers_in_thread()")

    def _address_of(self, broker: int) -> str:
        host, port = self.cluster.known_node(broker).address("PLAINTEXT")
        return f"{host}:{port}"


@asynccontextmanager
async def open_brokers(
    count: int = 1,
    *,
    topics: Mapping[str, int] | None = None,
    config: Mapping[str, str] | None = None,
    data_dir: str | PathLike[str] | None = None,
) -> AsyncIterator[Brokers]:
    """Serve on free loopback ports until the block is left; then end gracefully.

    `topics` maps names to numbers of partitions, `config` holds Kafka's own keys. Everything is in memory, or in
    `data_dir`. Brokers listen on 127.0.0.1 without TLS and SASL; keys that ask for something else are refused.
    Raises ConfigError; KafkaError for a topic that cannot be created; LogError. Raises TypeError and ValueError for an
    argument that cannot be used, such as an unknown key or a topic that `data_dir` holds with another number of partitions.
    """
    check_count(count)
    topics = checked_topics(topics)
    data_dir = checked_directory(data_dir)
    broker_config = BrokerConfig(checked_configuration("config", config))
    for key in broker_config.given:
        if known_key(key) is None:
            raise ValueError(f"config: {unknown_key(key)}")
    _refuse_listeners(broker_config)
    for warning in broker_config.warnings:
        _LOG.warning(warning)
    storage, cluster_id = _storage(data_dir, broker_config)
    defects: list[BaseException] = []

    def on_defect(error: BaseException, request: object) -> None:
        defects.append(error)
        _LOG.error("Failed while handling %r", request, exc_info=error)

    try:
        cluster = Cluster(
            broker_config,
            storage,
            RandomIds(new_member_suffix, new_topic_id),
            cluster_id=cluster_id,
            fsync="never" if data_dir is None else "interval",
            on_defect=on_defect,
            on_corrupt=lambda error: on_defect(error, None),
            node_count=count,
        )
    except BaseException:
        storage.close()
        raise
    try:
        for name, partitions in topics.items():
            _have_topic(cluster, name, partitions)
        brokers = Brokers(cluster)
        brokers.defects = defects
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            server = await nursery.start(_serve, cluster)
            try:
                yield brokers
            except Exception as error:
                failure = error  # raised outside, where no ExceptionGroup is put around it
            finally:
                brokers._is_closed = True
            server.stop()
        if failure is not None:
            raise failure
    finally:
        cluster.close()


def _have_topic(cluster: Cluster, name: str, partitions: int) -> None:
    """Raises KafkaError, LogError; ValueError when it exists otherwise."""
    existing = cluster.topics.partition_count(name)
    if existing is None:
        cluster.create_topic(name, partitions)
    elif existing != partitions:
        raise ValueError(f"topics: {name} exists in data_dir with a partition count of {existing}, not {partitions}")


def _refuse_listeners(config: BrokerConfig) -> None:
    """Raises ConfigError."""
    for key, value in config.given.items():
        if key.startswith("listener.name.") or (key in SECURITY_KEYS and key not in _ACCESS_KEYS):
            raise ConfigError(key, value, _NO_LISTENERS)


def _storage(data_dir: str | None, config: BrokerConfig) -> tuple[Storage, str]:
    """Raises LogError."""
    cluster_id = new_cluster_id()
    if data_dir is None:
        from kshim.storage.stores import MemoryStorage

        return MemoryStorage(), cluster_id
    from kshim.storage.directory import DataDirectory
    from kshim.storage.stores import DirectoryStorage

    directory = DataDirectory.open(data_dir, cluster_id=cluster_id, node_id=config.node_id)
    storage = DirectoryStorage(directory, segment_bytes=config.log_segment_bytes)
    try:
        storage.check()
    except LogError:
        storage.close()
        raise
    return storage, directory.cluster_id


async def _serve(cluster: Cluster, task_status: trio.TaskStatus[Server]) -> None:
    listener = plain_listener("127.0.0.1", 0)
    clock = RealClock()
    routers = [Router(Node(cluster, node_id, listener.host, 0)) for node_id in cluster.leadership.node_ids]
    cluster.start(clock.now)

    def on_listening(addresses: Sequence[tuple[str, int]]) -> None:
        for router, (host, port) in zip(routers, addresses, strict=True):
            router.node.host, router.node.port = host, port

    await serve(
        routers[0],
        listeners=(listener,),
        others=[(router, (listener,)) for router in routers[1:]],
        clock=clock,
        on_listening=on_listening,
        task_status=task_status,
    )
