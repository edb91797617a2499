"""`kshim serve`: creates a broker from its options and runs it until a signal."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from signal import SIGTERM, raise_signal
from stat import S_IRGRP, S_IROTH
from typing import TYPE_CHECKING

from kshim.broker.cluster import Cluster, RandomIds
from kshim.broker.node import Node
from kshim.broker.router import Router
from kshim.cli.addresses import Address, is_wildcard
from kshim.cli.exit_codes import EXIT_INTERRUPTED, EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE, CommandError
from kshim.cli.listening import (
    Listening,
    advertised_address,
    caution_about,
    follow_connection_limits,
    limits_of,
    listeners_of_node,
    listening_for,
)
from kshim.cli.log import Log
from kshim.cli.options import ServeOptions
from kshim.cli.stderr import log_stream
from kshim.config.broker_config import BrokerConfig, ConfigError
from kshim.server.clock import SteerableClock
from kshim.server.listener import CannotBind
from kshim.server.random_ids import new_cluster_id, new_member_suffix, new_topic_id
from kshim.server.run import Place, Served, run_until_signalled
from kshim.storage.log import CorruptLog, LogError
from kshim.wording import counted
from kshim_protocol.errors import KafkaError

if TYPE_CHECKING:
    from socket import socket

    from kshim.cli.recording import Recording
    from kshim.config.listeners import Listener
    from kshim.control.control import Control
    from kshim.partitions.durability import FsyncPolicy
    from kshim.security.authentication.users_file import UserLine
    from kshim.storage.repairs import Repair
    from kshim.storage.storage import Storage


SIGINT = 2
DEFAULT_FSYNC_INTERVAL_MS = 100


_COLLECTED_OBJECTS = 5_000
"""So many more objects than before make Python look for garbage among them: seven times its own number, as most that a
request makes goes with it, and what a group keeps stays."""

_WAYS_OUT = (
    "restore that file from a copy, or start with --recover=skip-corrupt, which puts the damaged batches aside and "
    "continues without them"
)


def run_serve(options: ServeOptions) -> int:
    """Serve until SIGTERM (exit code 0) or Ctrl-C (130). Raises CommandError for what keeps it from starting."""
    log = Log(log_stream(sys.stderr, options.log_format), options.log_format, verbosity=options.verbosity)
    config = _configuration(options, log)
    log.node_id = config.node_id
    listening = listening_for(options, config, log)
    users = _users(options, listening, log)
    storage, cluster_id = _storage(options, config, log)
    fsync, fsync_interval_ms = _fsync(options, config)
    damages: list[LogError] = []

    def end_for(damage: LogError) -> None:
        """A broker that cannot serve everything that was acknowledged serves nothing: it ends as after SIGTERM."""
        damages.append(damage)
        raise_signal(SIGTERM)

    clock = SteerableClock(options.clock_rate)
    random_ids = RandomIds(new_member_suffix, new_topic_id)
    recording: Recording | None = None

    def new_cluster(storage: Storage, cluster_id: str) -> Cluster:
        cluster = Cluster(
            config,
            storage,
            random_ids if recording is None else recording.recorder.random_ids(random_ids),
            cluster_id=cluster_id,
            fsync=fsync,
            fsync_interval_ms=fsync_interval_ms,
            on_event=log.coordinator_event,
            on_defect=log.defect,
            on_corrupt=end_for,
            node_count=options.broker_count,
        )
        if options.broker_count > 1:
            log.leader_of = cluster.leader_of
        return cluster

    try:
        if options.record is not None:
            from kshim.cli.recording import Recording

            recording = Recording(options.record, options.record_max_bytes, clock, log)
        cluster = new_cluster(storage, cluster_id)
    except ConfigError as error:
        storage.close()
        raise CommandError(f"bad configuration value: {error}", EXIT_USAGE) from None
    except LogError as error:
        storage.close()
        raise CommandError(str(error), EXIT_UNAVAILABLE) from error
    except BaseException:
        storage.close()
        raise
    if cluster.authorizer is not None and cluster.authorizer.locks_everybody_out:
        sentence = "ACLs are enabled, but there are none and super.users is empty: every request will be refused"
        log.caution("no_acls", sentence)
    serving = _Serving(cluster, new_cluster, config, listening, users, options, clock, log, recording)
    try:
        _create_topics(cluster, options.topics, log)
        exit_code = serving.run()
        if damages:
            raise damages[0]
        return exit_code
    except CorruptLog as error:
        raise CommandError(f"{error}; {_WAYS_OUT}", EXIT_UNAVAILABLE) from error
    except LogError as error:
        raise CommandError(str(error), EXIT_UNAVAILABLE) from error
    except CannotBind as error:
        raise CommandError(str(error), EXIT_UNAVAILABLE) from error
    finally:
        if recording is not None:
            recording.close()
        _close(serving.cluster, log)


def _configuration(options: ServeOptions, log: Log) -> BrokerConfig:
    try:
        config = BrokerConfig(options.config)
    except ConfigError as error:
        raise CommandError(f"bad configuration value: {error}", EXIT_USAGE) from None
    for warning in (*options.warnings, *config.warnings):
        log.caution("configuration", warning)
    return config


def _users(options: ServeOptions, listening: Listening, log: Log) -> list[UserLine]:
    """The users of `--users`. Warns about files with passwords that others can read, as ssh does of its keys."""
    users: list[UserLine] = []
    if options.users_file is not None:
        from kshim.cli.sasl import read_users

        users = read_users(options.users_file)
        if not any(listener.has_sasl for listener in listening.listeners):
            log.caution(
                "configuration",
                f"The users of {options.users_file} have no effect: no listener uses SASL_PLAINTEXT or SASL_SSL",
            )
    for file in options.secret_files:
        if os.stat(file).st_mode & (S_IRGRP | S_IROTH):
            log.caution("readable", f"{file} contains passwords and can be read by other users: chmod 600 {file}")
    return users


def _storage(options: ServeOptions, config: BrokerConfig, log: Log) -> tuple[Storage, str]:
    """Where data goes, and the cluster id that goes with it."""
    cluster_id = new_cluster_id()
    if options.data_dir is None:
        from kshim.storage.stores import MemoryStorage

        return MemoryStorage(), cluster_id
    from kshim.storage.directory import DataDirectory
    from kshim.storage.stores import DirectoryStorage

    def on_repair(repair: Repair) -> None:
        log.caution(repair.event, repair.sentence, **repair._asdict())

    try:
        directory = DataDirectory.open(options.data_dir, cluster_id=cluster_id, node_id=config.node_id)
    except LogError as error:
        raise CommandError(str(error), EXIT_UNAVAILABLE) from error
    storage = DirectoryStorage(
        directory, segment_bytes=config.log_segment_bytes, recover=options.recover, on_repair=on_repair
    )
    for name in directory.adopted:
        sentence = (
            f"Adopted topic {name} with {counted(directory.topics[name].partition_count, 'partition')} from its folders"
        )
        log.note("adopted", sentence, topic=name)
    try:
        storage.check()
    except LogError as error:
        storage.close()
        ways_out = f"; {_WAYS_OUT}" if isinstance(error, CorruptLog) else ""
        raise CommandError(f"{error}{ways_out}", EXIT_UNAVAILABLE) from error
    return storage, directory.cluster_id


def _fsync(options: ServeOptions, config: BrokerConfig) -> tuple[FsyncPolicy, int]:
    """The policy and its interval (ms): the options, or else what Kafka's keys ask for. Memory has nothing to sync."""
    policy: FsyncPolicy = "interval"
    if options.data_dir is None:
        policy = "never"
    elif options.fsync is not None:
        policy = options.fsync
    elif config.log_flush_interval_messages == 1:
        policy = "always"
    interval_ms = options.fsync_interval_ms
    if interval_ms is None:
        interval_ms = (
            DEFAULT_FSYNC_INTERVAL_MS if config.log_flush_interval_ms is None else config.log_flush_interval_ms
        )
    return policy, max(interval_ms, 1)


def _create_topics(cluster: Cluster, topics: dict[str, int], log: Log) -> None:
    """Create the topics of `--topic`; those of an earlier run remain unchanged. Raises CommandError (usage)."""
    for name, partition_count in topics.items():
        topic = cluster.topics.named(name)
        if topic is None:
            try:
                cluster.create_topic(name, partition_count)
            except KafkaError as error:
                raise CommandError(f"--topic: {error.message}", EXIT_USAGE) from None
        elif len(topic.partitions) != partition_count:
            log.caution(
                "topic_exists", f"Topic {name} exists and keeps its {counted(len(topic.partitions), 'partition')}"
            )


class _Serving:
    """The brokers of one `kshim serve`: `cluster` at first, and another one after each reset."""

    def __init__(
        self,
        cluster: Cluster,
        new_cluster: Callable[[Storage, str], Cluster],
        config: BrokerConfig,
        listening: Listening,
        users: list[UserLine],
        options: ServeOptions,
        clock: SteerableClock,
        log: Log,
        recording: Recording | None,
    ) -> None:
        self.cluster = cluster
        self._new_cluster = new_cluster
        self._config = config
        self._listening = listening
        self._users = users
        self._options = options
        self._clock = clock
        self._log = log
        self._recording = recording
        self._control: Control | None = None

    def run(self) -> int:
        """Serve until a signal; returns the exit code. Raises CannotBind, CommandError."""
        listeners, transport_layers, limits = self._listening
        counts = range(self.cluster.leadership.node_count)
        served = self._served(
            [listeners_of_node(listeners, index, len(counts)) if index else listeners for index in counts]
        )
        signal_number = run_until_signalled(
            served,
            transport_layers=transport_layers,
            limits=limits,
            log=self._log,
            beside=self._control,
            again=self._again,
        )
        self._log.note("ended", "Stopped by a signal", signal=signal_number)
        return EXIT_INTERRUPTED if signal_number == SIGINT else EXIT_OK

    def _served(self, listeners_of: Sequence[tuple[Listener, ...]], sockets: Sequence[Sequence[socket]] = ()) -> Served:
        """The cluster of this moment, with the listeners of each node."""
        cluster, config, log, clock, recording = self.cluster, self._config, self._log, self._clock, self._recording
        has_sasl = any(listener.has_sasl for listener in self._listening.listeners)
        routers: list[tuple[Router, tuple[Listener, ...]]] = []
        for node_id, own in zip(cluster.leadership.node_ids, listeners_of, strict=True):
            router = Router(Node(cluster, node_id, own[0].host, own[0].port))
            if recording is not None:
                recording.recorder.stand_before(router)
            if log.verbosity:
                from kshim.cli.request_log import log_requests

                log_requests(router, log)
            if has_sasl:
                from kshim.cli.sasl import authenticate

                # In front of the log of requests, which would take bare tokens for such.
                authenticate(router, own, config, self._users, log)
            routers.append((router, own))
        cluster.start(clock.now)
        if recording is not None:
            recording.recorder.begin(cluster)
        self._add_faults_and_control([router for router, _ in routers])
        limits, listeners = self._listening.limits, self._listening.listeners
        follow_connection_limits(cluster.dynamic_configs.on_broker_change, limits, config, listeners, log)

        def on_listening(addresses: Sequence[tuple[str, int]]) -> None:
            left = iter(addresses)
            bootstrap = []
            for router, own in routers:
                node = router.node
                bounds = [next(left) for _ in own]
                for listener, bound in zip(own, bounds, strict=True):
                    address = node.addresses[listener.name] = advertised_address(listener, bound)
                    caution_about(listener, Address(*bound), config, log)
                    protocol = "" if listener.security_protocol == "PLAINTEXT" else f" for {listener.security_protocol}"
                    who = f"Broker {node.node_id} listening" if len(routers) > 1 else "Listening"
                    log.note("listening", f"{who} on {Address(*bound)}{protocol}, advertised as {address}")
                node.host, node.port = node.addresses[own[0].name]
                bootstrap.append(_bootstrap_address(Address(*bounds[0]), own[0].host))
            if sockets:
                return  # after a reset, which has changed nothing of this
            _print_bootstrap(bootstrap)
            gc.freeze()  # what a start leaves behind stays; `main` put collecting off until here
            gc.set_threshold(_COLLECTED_OBJECTS, 10, 10)
            gc.enable()

        return Served(routers[0][0], routers[0][1], routers[1:], on_listening, clock, sockets)

    def _add_faults_and_control(self, routers: Sequence[Router]) -> None:
        options = self._options
        if options.faults_file is None and options.control is None:
            return
        from kshim.cli.faults import faults_of

        recorder = None if self._recording is None else self._recording.recorder
        faults = faults_of(self.cluster, routers, self._clock.now, self._log, options.faults_file, recorder)
        if options.control is not None:
            from kshim.cli.control import control_of

            self._control = control_of(self._control, self.cluster, faults, self._clock.now, options, self._log)

    def _again(self, places: Sequence[Place]) -> Served:
        """Brokers as at the start, in the places of those there were."""
        from kshim.storage.stores import MemoryStorage

        _close(self.cluster, self._log)
        self.cluster = self._new_cluster(MemoryStorage(), new_cluster_id())
        _create_topics(self.cluster, self._options.topics, self._log)
        listeners, _, limits = self._listening
        limits.take_connections_of(limits_of(self._config, listeners))
        self._log.note("reset", "The brokers were reset: all topics, groups and faults are as at the start")
        listeners_of = [
            tuple(listener._replace(port=port) for listener, port in zip(listeners, place.ports, strict=True))
            for place in places
        ]
        return self._served(listeners_of, [place.sockets for place in places])


def _bootstrap_address(bound: Address, asked_host: str) -> Address:
    """The address for a client on this machine: the host as it was requested, loopback for all interfaces."""
    if is_wildcard(asked_host):
        return Address("::1" if ":" in bound.host else "127.0.0.1", bound.port)
    return Address(asked_host, bound.port)


def _print_bootstrap(addresses: list[Address]) -> None:
    """The first and only line on stdout."""
    try:
        sys.stdout.write(",".join(map(str, addresses)) + "\n")
        sys.stdout.flush()
    except OSError:  # the reader has gone; at exit Python must not try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _close(cluster: Cluster, log: Log) -> None:
    try:
        cluster.close()
    except LogError as error:
        log.failed("closing the logs", error)
