"""Plays incidents on several services of real processes at once, and writes down what was done."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import TopicAlreadyExistsError

from integration.incidents.truth import Cause, Ended, Subject, SubjectKind, Truth, TruthFile, wall_ms
from integration.real_incidents.hosts import Host
from integration.real_incidents.processes import Process
from integration.real_incidents.scripts import SCRIPTS, Outcome, Stage, start
from integration.real_incidents.services import GroupProtocol, Service, protocol_and_client
from integration.support.broker import Broker
from kshim.tools.client import BrokerGone, Client
from kshim_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest

_LOOK_AGAIN_S = 0.5
BETWEEN_S = 8.0
"""The mean time between two incidents of a service, unless another is asked for."""
_BETWEEN_FLEET_S = 90.0
"""The mean time between two incidents of hosts, of the network or of the broker."""


class Played(NamedTuple):
    """What was played. `seconds`: how long it took."""

    incident_count: int
    unsettled_count: int
    seconds: float


class Player:
    """A `Stage`: services on hosts, a broker, and the file of truths."""

    def __init__(
        self,
        broker: Broker,
        hosts: Sequence[Host],
        folder: Path,
        *,
        seed: int,
        service_count: int,
        incident_count: int,
        protocol: GroupProtocol,
        between_s: float,
        tell: Callable[[str], object],
    ) -> None:
        """`between_s`: the mean time between two incidents of a service.

        Hosts that share an address are parts of the network of one machine, where nothing is set that need not be.
        """
        self._between_s = between_s
        self.hosts = hosts
        self._is_one_machine = len({host.address for host in hosts}) == 1
        self._broker = broker
        self._rng = random.Random(seed)
        self._services = [
            Service(
                number,
                *protocol_and_client(protocol, number),
                hosts,
                folder,
                random.Random(self._rng.random()),
                is_plain=self._is_one_machine,
            )
            for number in range(service_count)
        ]
        self._truths = TruthFile(folder / "truth.jsonl")
        self._numbers = itertools.count(1)
        self._tickets = iter(range(incident_count))
        self._tell = tell
        self._unsettled = 0
        self._is_fleet_disturbed = False
        self._is_up = asyncio.Event()
        self._is_up.set()
        self._is_over = asyncio.Event()

    async def play(self) -> Played:
        """All of it. The processes are killed at the end, after the time of the play is written down."""
        began = time.monotonic()
        for service in self._services:
            await self.create_topic(service.topic, service.partition_count)
        background = [asyncio.create_task(self._produce()), asyncio.create_task(self._supervise())]
        try:
            async with asyncio.TaskGroup() as tasks:
                services = [tasks.create_task(self._play_on(service)) for service in self._services]
                fleet = tasks.create_task(self._play_on_the_fleet())
                await asyncio.wait(services)
                self._is_over.set()
                await fleet  # what it is doing is done, and written down
            await asyncio.sleep(max(service.session_s for service in self._services) / 4)
            self._truths.end(wall_ms())
        finally:
            for task in background:
                task.cancel()
            self._truths.close()
            for service in self._services:
                for process in service.processes:
                    process.kill()
        return Played(next(self._numbers) - 1, self._unsettled, time.monotonic() - began)

    # What scripts need

    async def settled(self, service: Service) -> None:
        """Wait until the group is stable with as many members as processes run, at most for two rebalances."""
        deadline = time.monotonic() + 2 * (service.session_s + min(service.max_poll_s, 60)) + 15
        while time.monotonic() < deadline:
            await self._is_up.wait()
            running = sum(process.is_running for process in service.processes)
            if await asyncio.to_thread(self._stable_members, service) == running:
                return
            await asyncio.sleep(_LOOK_AGAIN_S)
        self._unsettled += 1

    async def create_topic(self, name: str, partition_count: int) -> None:
        """Make a topic. One that is there already is kept as it is: a script may be played twice on a service."""

        def create(admin: KafkaAdminClient) -> None:
            with suppress(TopicAlreadyExistsError):
                admin.create_topics({name: {"num_partitions": partition_count, "replication_factor": 1}})

        await self._administer(create)

    async def add_partitions(self, topic: str, partition_count: int) -> None:
        """Enlarge a topic."""
        await self._administer(lambda admin: admin.create_partitions({topic: partition_count}))

    # Playing

    async def _play_on(self, service: Service) -> None:
        await asyncio.sleep(service.rng.uniform(0, BETWEEN_S))
        await self._write(service, start)
        while next(self._tickets, None) is not None:
            await asyncio.sleep(service.rng.expovariate(1 / self._between_s))
            await self._is_up.wait()
            fit = [script for script in SCRIPTS.values() if script.suits(service)]
            (script,) = service.rng.choices(fit, [each.weight for each in fit])
            await self._write(service, script.play)

    async def _play_on_the_fleet(self) -> None:
        acts = [self._cut_the_network, self._restart_the_broker]
        if not self._is_one_machine:  # which stalls as a whole, with the broker
            acts.insert(0, self._stall_a_host)
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_over.wait(), self._rng.expovariate(1 / _BETWEEN_FLEET_S))
                return
            if self._inhabited:
                self._is_fleet_disturbed = True
                await self._rng.choice(acts)()
                self._is_fleet_disturbed = False

    async def _stall_a_host(self) -> None:
        host = self._rng.choice(self._inhabited)
        stalled = self._on(host)
        start_ms = wall_ms()
        for _, process in stalled:
            process.pause()
        await asyncio.sleep(self._rng.uniform(1.2, 1.6) * self._session_s(stalled))
        for _, process in stalled:
            process.resume()
        await self._settled_and_written(start_ms, stalled, Cause.HOST_STALLED, [host])

    async def _cut_the_network(self) -> None:
        hosts = self._rng.sample(self._inhabited, self._rng.choice((1, len(self._inhabited) // 2 or 1)))
        cut = [each for host in hosts for each in self._on(host)]
        start_ms = wall_ms()
        for host in hosts:
            host.cut()
        cut_s = self._rng.uniform(1.2, 1.6) * self._session_s(cut)
        await asyncio.sleep(cut_s)
        for host in hosts:
            host.mend()
        # Of the others nothing happened to a group: their sessions last for longer.
        removed = [(service, process) for service, process in cut if service.session_s < cut_s]
        await self._settled_and_written(start_ms, removed or cut, Cause.NETWORK_CUT, hosts)

    async def _restart_the_broker(self) -> None:
        start_ms = wall_ms()
        self._is_up.clear()
        await asyncio.to_thread(self._rng.choice((self._broker.stop, self._broker.kill)))
        await asyncio.sleep(self._rng.uniform(0.5, 15.0))
        await asyncio.to_thread(self._broker.start)
        self._is_up.set()
        everywhere = [(service, process) for service in self._services for process in service.processes]
        await self._settled_and_written(start_ms, everywhere, Cause.BROKER_RESTARTED, [])

    @property
    def _inhabited(self) -> list[Host]:
        """Hosts on which a process runs; there is one at least, once a service has started."""
        return [host for host in self.hosts if self._on(host)]

    def _on(self, host: Host) -> list[tuple[Service, Process]]:
        return [
            (service, process)
            for service in self._services
            for process in service.processes
            if process.host is host and process.is_running
        ]

    @staticmethod
    def _session_s(of: Sequence[tuple[Service, Process]]) -> float:
        """The longest of those that are not exceptionally long."""
        return max((service.session_s for service, _ in of if service.session_s < 40), default=10.0)

    async def _settled_and_written(
        self, start_ms: int, of: Sequence[tuple[Service, Process]], cause: Cause, hosts: Sequence[Host]
    ) -> None:
        services = list(dict.fromkeys(service for service, _ in of))
        await asyncio.gather(*(self.settled(service) for service in services))
        if cause is Cause.BROKER_RESTARTED:
            subject = Subject(SubjectKind.GROUP)
        else:
            clients = tuple(sorted({process.client for _, process in of}))
            is_host = len(hosts) == 1 and not self._is_one_machine
            kind = SubjectKind.HOST if is_host else SubjectKind.CLIENTS
            subject = Subject(kind, clients, hosts[0].address if is_host else None)
        self._add(cause, "", [service.group_id for service in services], subject, start_ms, wall_ms())

    # Writing

    async def _write(self, service: Service, script: Callable[[Stage, Service], Awaitable[Outcome]]) -> None:
        start_ms = wall_ms()
        service.is_disturbed = True
        try:
            outcome = await script(self, service)
        finally:
            service.is_disturbed = False
            service.calm_at = time.monotonic() + service.session_s
        self._add(outcome.cause, outcome.variant, [service.group_id], outcome.subject, start_ms, wall_ms())

    def _add(
        self, cause: Cause, variant: str, groups: Sequence[str], subject: Subject, start_ms: int, end_ms: int
    ) -> None:
        truth = Truth(next(self._numbers), cause, variant, tuple(sorted(groups)), subject, start_ms, end_ms)
        self._truths.add(truth)
        self._tell(
            f"{truth.incident_id:4} {cause} {','.join(truth.groups)} {','.join(subject.clients)} {(end_ms - start_ms) / 1_000:.1f} s"
        )

    # The broker

    async def _administer(self, do: Callable[[KafkaAdminClient], object]) -> None:
        def administer() -> None:
            admin = KafkaAdminClient(bootstrap_servers=self._broker.bootstrap)
            try:
                do(admin)
            finally:
                admin.close()

        await self._is_up.wait()
        await asyncio.to_thread(administer)

    def _stable_members(self, service: Service) -> int | None:
        """How many members a stable group has; an empty one has none. None while it is rebalancing, or nobody answers."""
        host, _, port = self._broker.bootstrap.rpartition(":")
        name = (service.group_id,)
        try:
            with closing(Client(host, int(port), client_id="player")) as client:
                if service.protocol is GroupProtocol.CONSUMER:
                    group = client.ask(ConsumerGroupDescribeRequest(group_ids=name), 0).groups[0]
                else:
                    group = client.ask(DescribeGroupsRequest(groups=name), 5).groups[0]
        except (BrokerGone, TimeoutError):
            return None
        return len(group.members) if group.group_state in ("Stable", "Empty", "Dead") else None

    # In the background

    async def _supervise(self) -> None:
        """Start again what has ended by itself, as the platform of every service does.

        It was killed, by nobody, if nothing was being done to it; else its end belongs to what was. That lasts for a session timeout longer,
        as of static members that were deployed with another assignor, and are refused until the last session of before has expired.
        """
        while True:
            await asyncio.sleep(1.0)
            for service in self._services:
                for process in list(service.processes):
                    if process.is_running or process.is_to_end:
                        continue
                    service.drop(process)
                    is_calm = not service.is_disturbed and time.monotonic() >= service.calm_at
                    is_crash = is_calm and not self._is_fleet_disturbed
                    self._truths.add_ended(Ended(service.group_id, process.client, wall_ms(), is_crash))
                    self._tell(f"     {process.client} has ended by itself")
                    if is_crash:
                        who = Subject(SubjectKind.CLIENT, (process.client,), process.host.address)
                        self._add(Cause.KILLED, "ended by itself", [service.group_id], who, wall_ms(), wall_ms())
                    service.start(process.place)

    async def _produce(self) -> None:
        """Have every service get its records, for as long as this is not cancelled."""
        producer = await asyncio.to_thread(KafkaProducer, bootstrap_servers=self._broker.bootstrap, retries=1_000)
        try:
            for tick in itertools.count():
                for service in self._services:
                    for _ in range(service.records_per_s):
                        producer.send(service.topic, f"{tick}".encode())
                await asyncio.sleep(1.0)
        finally:
            producer.close(timeout=1)


@asynccontextmanager
async def relaying(hosts: Sequence[Host]) -> AsyncIterator[None]:
    """All hosts relay within the block."""
    for host in hosts:
        await host.start()
    try:
        yield
    finally:
        for host in hosts:
            await host.stop()
