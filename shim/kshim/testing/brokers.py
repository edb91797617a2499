"""One or several brokers under the caller's trio."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from os import PathLike, fspath
from typing import TYPE_CHECKING

import trio

from kshim.broker.cluster import Cluster, RandomIds
from kshim.broker.node import Node
from kshim.broker.router import Router
from kshim.config.broker_config import BrokerConfig, ConfigError
from kshim.config.listeners import plain_listener
from kshim.config.security_keys import SECURITY_KEYS
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.server.clock import RealClock
from kshim.server.random_ids import new_cluster_id, new_member_suffix, new_topic_id
from kshim.server.server import Server, serve
from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.storage.storage import Storage


_ACCESS_KEYS = frozenset({"authorizer.class.name", "controller.listener.names"})
"""Of the keys of listeners and security those that do not depend on a listener."""

_LOG = logging.getLogger("kshim")


class Brokers:
    """Running brokers, with ids from 1 on (or from `node.id`), as `open_brokers` hands them out.

    Every method is a plain call that has done its work when it returns. Call them in trio's thread.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        """The cluster itself, for tests of its internals."""
        self.defects: list[BaseException] = []
        """Unexpected exceptions; empty unless kshim has a defect, or a disk failed."""

    @property
    def bootstrap(self) -> str:
        """`host:port` of every broker, live or not, comma separated: what clients call bootstrap servers."""
        return ",".join(map(self.address_of, self.cluster.leadership.node_ids))

    @property
    def live(self) -> list[int]:
        """Ids of the brokers that are not stopped."""
        return list(self.cluster.leadership.live_ids)

    def address_of(self, broker: int) -> str:
        """`host:port` of one broker. It keeps its port when it is stopped. Raises LookupError."""
        host, port = self.cluster.known_node(broker).address("PLAINTEXT")
        return f"{host}:{port}"

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Make a topic; its partitions are given to the live brokers in turn.

        Raises KafkaError as CreateTopics answers: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
        INVALID_CONFIG. Raises TypeError for a value of `configs` that is no string; LogError.
        """
        self.cluster.create_topic(name, partitions, _strings("configs", configs))

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition. Raises LookupError."""
        return self.cluster.leader_of(topic, partition)

    def coordinator_of(self, group_id: str) -> int:
        """The broker that coordinates a group."""
        self.cluster.groups.topic()
        return self.leader_of(OFFSETS_TOPIC, self.cluster.groups.coordinator.partition_for(group_id))

    def stop_node(self, broker: int) -> None:
        """Stop a broker: its partitions and groups move to others, and its clients are disconnected. Idempotent.

        Raises LookupError.
        """
        self.cluster.leader_election.stop_node(broker)

    def start_node(self, broker: int) -> None:
        """Have a broker that was stopped accept clients again, at the address it had. It leads new partitions only.

        Raises LookupError; OSError when another process has taken its port.
        """
        self.cluster.leader_election.start_node(broker)

    def move(self, topic: str, partition: int, to: int) -> None:
        """Have another broker lead a partition. A partition of `__consumer_offsets` moves its groups.

        Raises LookupError; ValueError when that broker is stopped; LogError when it cannot be stored.
        """
        self.cluster.leader_election.move(topic, partition, to)


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
    Raises ConfigError; TypeError for a value of `config` that is no string; KafkaError for a topic that cannot be;
    LogError.
    """
    broker_config = BrokerConfig(_strings("config", config))
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
        for name, partitions in (topics or {}).items():
            if name not in cluster.topics:
                cluster.create_topic(name, partitions)
        brokers = Brokers(cluster)
        brokers.defects = defects
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            server = await nursery.start(_serve, cluster)
            try:
                yield brokers
            except Exception as error:
                failure = error  # raised outside, where no ExceptionGroup is put around it
            server.stop()
        if failure is not None:
            raise failure
    finally:
        cluster.close()


def _strings(what: str, pairs: Mapping[str, str] | None) -> dict[str, str]:
    """Raises TypeError."""
    for key, value in (pairs or {}).items():
        if not isinstance(value, str):
            raise TypeError(f"{what}: the value of {key} is a string, as in server.properties, not {value!r}")
    return dict(pairs or {})


def _refuse_listeners(config: BrokerConfig) -> None:
    """Raises ConfigError."""
    for key, value in config.given.items():
        if key.startswith("listener.name.") or (key in SECURITY_KEYS and key not in _ACCESS_KEYS):
            raise ConfigError(key, value, "nothing: brokers for tests listen on 127.0.0.1 without TLS and SASL")


def _storage(data_dir: str | PathLike[str] | None, config: BrokerConfig) -> tuple[Storage, str]:
    """Raises LogError."""
    cluster_id = new_cluster_id()
    if data_dir is None:
        from kshim.storage.stores import MemoryStorage

        return MemoryStorage(), cluster_id
    from kshim.storage.directory import DataDirectory
    from kshim.storage.stores import DirectoryStorage

    directory = DataDirectory.open(fspath(data_dir), cluster_id=cluster_id, node_id=config.node_id)
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
