"""One or several brokers under the caller's trio."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from os import PathLike
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import trio

from kshim.broker.cluster import Cluster, RandomIds
from kshim.broker.node import Node
from kshim.broker.router import Router
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.harness.keep_alive import KeepAlive
from kshim.harness.waits import Waits
from kshim.server.clock import SteerableClock
from kshim.server.clock_control import Fired
from kshim.server.random_ids import new_cluster_id, new_member_suffix, new_topic_id
from kshim.server.server import Server, serve
from kshim.server.timers import Schedule
from kshim.storage.log import LogError
from kshim.testing.arguments import (
    check_count,
    check_integer,
    check_text,
    check_timeout,
    checked_configuration,
)
from kshim.testing.faults import AsyncFaults
from kshim.testing.log import log_event
from kshim.testing.setup import Setup
from kshim.wording import counted

if TYPE_CHECKING:
    from kshim.faults.faults import Faults as FaultRules
    from kshim.faults.faults import Firing
    from kshim.faults.injection import FaultInjector
    from kshim.recording.recorder import Recorder
    from kshim.storage.storage import Storage

T = TypeVar("T")

EVERY_TOPIC = "*"
CLOSED = "these brokers were closed when their block was left"

_LOG = logging.getLogger("kshim")


class Place(NamedTuple):
    """Where a broker listens: its port, and the socket if it is open."""

    port: int
    sockets: Sequence[socket.socket]


class Brokers:
    """Running brokers, with ids from 1 on (or from `node.id`), as `open_brokers` hands them out.

    Every method is a plain call that has done its work when it returns. Call them in trio's thread: elsewhere, and after
    the block has been left, each raises RuntimeError. Each raises TypeError for an argument of another type.
    """

    def __init__(self, cluster: Cluster, routers: Sequence[Router], clock: SteerableClock) -> None:
        self._thread_id = get_ident()
        self._is_closed = False
        self._is_reset = False
        self._server: Server | None = None
        self.cluster = cluster
        """The cluster itself, for tests of its internals."""
        self.routers = routers
        """What answers requests, one a broker."""
        self.clock = clock
        """What all timers run on; see `advance`."""
        self.waits = Waits(cluster)
        """What is waited for."""
        self.defects: list[BaseException] = []
        """Unexpected exceptions; empty unless kshim has a defect, or a disk failed."""
        self.recorder: Recorder | None = None
        self._injector: FaultInjector | None = None
        self.faults = AsyncFaults(self)
        """What is to go wrong: see `Faults.on`. Waits are to be awaited."""
        self._nursery: trio.Nursery | None = None

    @property
    def fault_rules(self) -> FaultRules:
        """The rules of these brokers, to be used in trio's thread."""
        if self._injector is None:
            from kshim.faults.injection import FaultInjector

            self._injector = FaultInjector(self.cluster, self.routers, self.clock.now)
            self._injector.faults.on_fired.append(self._note_fault)
            if self.recorder is not None:
                self.recorder.follow_faults(self._injector.faults)
        return self._injector.faults

    def _note_fault(self, firing: Firing) -> None:
        _LOG.info("Injected fault: %s", firing)
        self.waits.look_again()

    def call(self, do: Callable[[], T]) -> T:
        """What `do` returns. Raises RuntimeError."""
        self._check_running()
        return do()

    def until(
        self, look: Callable[[], T | None], timeout_s: float, describe: Callable[[], str], *, topic: str | None = None
    ) -> Future[T]:
        """A future of what `look` returns as soon as that is not None, or TimeoutError with what `describe` says.

        `timeout_s` is real time. `topic`: what is appended to it, or to any for `*`, may make a difference. Raises TypeError, ValueError, RuntimeError.
        """
        check_timeout(timeout_s)
        self._check_running()
        if topic is None:
            future = self.waits.until(look)
        elif topic == EVERY_TOPIC:
            future = self.waits.until_anything(self.cluster, look)
        else:
            future = self.waits.until_appended(self.cluster, topic, look)
        if not future.done():
            assert self._nursery is not None
            scope, token = trio.CancelScope(), trio.lowlevel.current_trio_token()

            def cancel(_: Future[T]) -> None:
                """The future is done, or was cancelled, in whatever thread."""
                if get_ident() == self._thread_id:
                    scope.cancel()
                else:
                    with suppress(trio.RunFinishedError):
                        token.run_sync_soon(scope.cancel)

            future.add_done_callback(cancel)
            self._nursery.start_soon(self._expire, future, timeout_s, describe, scope)
        return future

    until_fired = until

    def result_of(self, future: Future[T]) -> T:
        """Raises RuntimeError, unless it is done: a wait for these brokers is to be awaited."""
        if not future.done():
            raise RuntimeError("waits for brokers in the same loop have to be awaited")
        return future.result()

    async def _expire(
        self, future: Future[Any], timeout_s: float, describe: Callable[[], str], scope: trio.CancelScope
    ) -> None:
        with scope:
            await trio.sleep(timeout_s)
            self.waits.look_again()  # it may be so by something that is no event
            if not future.done():
                self.waits.give_up(future, TimeoutError(describe()))

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, live or not, comma separated: what clients call bootstrap servers."""
        return ",".join(map(self._address_of, self.cluster.leadership.node_ids))

    @property
    def live(self) -> list[int]:
        """Ids of the brokers that are not stopped."""
        return list(self._running.leadership.live_ids)

    def why_unused(self) -> str | None:
        """A sentence, as long as no client has connected."""
        if self._server is not None and self._server.peers.accepted_count:
            return None
        return f"No client has connected. Is it pointed at {self.bootstrap_servers}?"

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

        Raises LookupError; ValueError for one that is live; OSError when another process has taken its port.
        """
        check_integer("broker", broker)
        self._running.known_node(broker)
        if broker in self.live:
            raise ValueError(
                f"broker {broker} is live: stop it first, with stop_node or kill_node, or use restart_node"
            )
        self._running.leader_election.start_node(broker)

    def move(self, topic: str, partition: int, to: int) -> None:
        """Have another broker lead a partition. A partition of `__consumer_offsets` moves its groups.

        Raises LookupError; ValueError when that broker is stopped; LogError when it cannot be stored.
        """
        check_text("topic", topic)
        check_integer("partition", partition)
        check_integer("to", to)
        self._running.leader_election.move(topic, partition, to)

    def kill_node(self, broker: int) -> None:
        """End a broker as SIGKILL does: its clients' connections are reset, and nobody gets a last answer. Idempotent.

        What was acknowledged is kept. Its partitions and groups move to others. Raises LookupError.
        """
        check_integer("broker", broker)
        self._running.leader_election.kill_node(broker)

    def restart_node(self, broker: int) -> None:
        """Stop a broker and start it again. Raises LookupError; OSError as `start_node`."""
        self.stop_node(broker)
        self.start_node(broker)

    def move_coordinator(self, group_id: str, to: int) -> None:
        """Have another broker coordinate a group, and all groups of the same partition of `__consumer_offsets`.

        Raises as `move`.
        """
        check_text("group_id", group_id)
        self._running.groups.topic()
        self.move(OFFSETS_TOPIC, self.cluster.groups.coordinator.partition_for(group_id), to)

    def advance(self, seconds: float, *, keep_alive: str | Sequence[str] = ()) -> list[Fired]:
        """Move the clock ahead, and fire on the way, in the order of time, whatever falls due. See `Clock.advance`."""
        self._check_running()
        assert self._server is not None
        control = self._server.clock_control
        assert control is not None
        control.settle()
        members = KeepAlive(self.cluster, (keep_alive,) if isinstance(keep_alive, str) else tuple(keep_alive))
        fired = control.advance(seconds, beside=Schedule(members.next_deadline, members.refresh))
        noticed = sum(not each.is_routine for each in fired)
        _LOG.info("Moved the clock ahead by %g s: %s fired that clients can notice", seconds, counted(noticed, "timer"))
        return fired

    @property
    def server(self) -> Server:
        """What accepts connections."""
        assert self._server is not None
        return self._server

    def rearm(self) -> None:
        """To be called after whatever may have set an earlier timer."""
        if self._server is not None:
            self._server.rearm()

    def release_places(self) -> list[Place]:
        """Where these brokers listen, for others that take their places as soon as the block is left.

        It then ends at once: connections are closed as they are.
        """
        assert self._server is not None
        self._is_reset = True
        return [
            Place(acceptor.addresses[0][1], [sock.dup() for sock in acceptor.sockets])
            for acceptor in self._server.acceptors
        ]

    @property
    def loaded(self) -> Cluster:
        """The cluster, after groups that are being read from the log have been read: at a start, or after a move."""
        cluster = self._running
        cluster.groups.loader.finish()
        return cluster

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
            raise RuntimeError("call these brokers in the thread that runs trio, or use Kshim")

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
    clock: str = "real",
) -> AsyncIterator[Brokers]:
    """Serve on free loopback ports until the block is left; then end gracefully.

    `topics` maps names to numbers of partitions, `config` holds Kafka's own keys. Everything is in memory, or in
    `data_dir`. `clock` is `real`, `manual` (it stands still until it is advanced), or `x` and a rate, such as `x60`. Brokers listen on 127.0.0.1 without TLS and SASL; keys that ask for something else are refused.
    Raises ConfigError; KafkaError for a topic that cannot be created; LogError. Raises TypeError and ValueError for an
    argument that cannot be used, such as an unknown key or a topic that `data_dir` holds with another number of partitions.
    """
    check_count("count", count)
    async with serve_brokers(Setup(count, topics=topics, config=config, data_dir=data_dir, clock=clock)) as brokers:
        yield brokers


@asynccontextmanager
async def serve_brokers(
    setup: Setup, defects: list[BaseException] | None = None, places: Sequence[Place] = ()
) -> AsyncIterator[Brokers]:
    """Serve what is set up until the block is left. `places` are those of an earlier server, one a broker.

    Exceptions that should not be are added to `defects`. Raises as `open_brokers`, CannotBind.
    """
    defects = [] if defects is None else defects
    clock = SteerableClock(setup.clock_rate)
    recording = None
    if setup.record is not None:
        from kshim.testing.recording import Recording

        recording = Recording(setup.record, clock)
    storage, cluster_id = _storage(setup)

    def on_defect(error: BaseException, request: object) -> None:
        if getattr(error, "is_injected", False):
            return
        defects.append(error)
        _LOG.error("Failed while handling %r", request, exc_info=error)

    random_ids = RandomIds(new_member_suffix, new_topic_id)
    try:
        cluster = Cluster(
            setup.config,
            storage,
            random_ids if recording is None else recording.recorder.random_ids(random_ids),
            cluster_id=cluster_id,
            fsync="never" if setup.data_dir is None else "interval",
            on_event=log_event,
            on_defect=on_defect,
            on_corrupt=lambda error: on_defect(error, None),
            node_count=setup.count,
        )
    except BaseException:
        storage.close()
        raise
    try:
        for name, partitions in setup.topics.items():
            _have_topic(cluster, name, partitions)
        routers = [Router(Node(cluster, node_id, setup.listener.host, 0)) for node_id in cluster.leadership.node_ids]
        if recording is not None:
            for router in routers:
                recording.recorder.stand_before(router)
        setup.secure(cluster, routers)
        brokers = Brokers(cluster, routers, clock)
        brokers.defects = defects
        cluster.start(brokers.clock.now)
        if recording is not None:
            brokers.recorder = recording.recorder
            recording.recorder.begin(cluster)
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            brokers._nursery = nursery
            brokers._server = server = await nursery.start(_serve, brokers, setup, places)
            try:
                yield brokers
            except Exception as error:
                failure = error  # raised outside, where no ExceptionGroup is put around it
            finally:
                brokers._is_closed = True
                brokers.waits.close(RuntimeError(CLOSED))
            if brokers._is_reset:
                nursery.cancel_scope.cancel()
            server.stop()
        if failure is not None:
            raise failure
        brokers.faults.check_all_armed()
    finally:
        if recording is not None:
            recording.close()
        cluster.close()


def _have_topic(cluster: Cluster, name: str, partitions: int) -> None:
    """Raises KafkaError, LogError; ValueError when it exists otherwise."""
    existing = cluster.topics.partition_count(name)
    if existing is None:
        cluster.create_topic(name, partitions)
    elif existing != partitions:
        raise ValueError(f"topics: {name} exists in data_dir with a partition count of {existing}, not {partitions}")


def _storage(setup: Setup) -> tuple[Storage, str]:
    """Raises LogError."""
    cluster_id = new_cluster_id()
    if setup.data_dir is None:
        from kshim.storage.stores import MemoryStorage

        return MemoryStorage(), cluster_id
    from kshim.storage.directory import DataDirectory
    from kshim.storage.stores import DirectoryStorage

    directory = DataDirectory.open(setup.data_dir, cluster_id=cluster_id, node_id=setup.config.node_id)
    storage = DirectoryStorage(directory, segment_bytes=setup.config.log_segment_bytes)
    try:
        storage.check()
    except LogError:
        storage.close()
        raise
    return storage, directory.cluster_id


async def _serve(brokers: Brokers, setup: Setup, places: Sequence[Place], task_status: trio.TaskStatus[Server]) -> None:
    nodes = [router.node for router in brokers.routers]
    listeners = [(setup.listener._replace(port=place.port),) for place in places] or [(setup.listener,)] * len(nodes)

    def on_listening(addresses: Sequence[tuple[str, int]]) -> None:
        for node, (host, port) in zip(nodes, addresses, strict=True):
            node.host, node.port = host, port

    await serve(
        brokers.routers[0],
        listeners=listeners[0],
        others=list(zip(brokers.routers, listeners, strict=True))[1:],
        sockets=[place.sockets for place in places],
        transport_layers=setup.transport_layers,
        clock=brokers.clock,
        on_listening=on_listening,
        task_status=task_status,
    )
