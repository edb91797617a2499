"""Services on hosts: what a company's consumers look like from a coordinator. Drawn from a seed."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from integration.incidents.clock import Clock
from integration.incidents.truth import Accident
from kshim_pipeline.demo.connection import Address
from kshim_pipeline.demo.flavours import FLAVOURS
from kshim_pipeline.demo.simulated_consumer import Consumer, GroupSpec

_LOOK_AGAIN_S = 0.03
_SESSIONS_MS = (45_000, 30_000, 20_000, 10_000)
_REBALANCES_MS = (300_000, 120_000, 60_000)
_HEARTBEAT_MS = 3_000
_COMMITS_MS = (5_000, 1_000, 15_000, 30_000)
_FETCH_MS = 10_000
"""How often it has to be seen that a member polls. Clients fetch more often, and a broker has more to do."""
_POLLS_MS = range(200, 2_000)
_DENSE = 0.15
"""So many services have two processes or more on one host."""
_NAMES = (
    "billing", "orders", "audit", "search", "mail", "pricing", "stock", "ledger", "fraud", "clicks", "profile", "media",
)  # fmt: skip


class NotSettled(Exception):
    """A service's groups did not become stable in any reasonable time."""


class Style(NamedTuple):
    """How the processes of a service are named. `is_pod`: a new name for each new process but not for a restart."""

    is_static: bool
    is_pod: bool
    is_shared: bool


class Process:
    """One process of a service: a consumer in each of its groups, all with the same client id on the same host."""

    def __init__(self, slot: int, client_id: str, instance_id: str | None, host: str) -> None:
        self.slot = slot
        self.client_id = client_id
        self.instance_id = instance_id
        self.host = host
        self.consumers: list[Consumer] = []
        self.is_blamed = False
        """Whether an incident concerns it now, so that its expulsion surprises nobody."""

    @property
    def client(self) -> str:
        """What identifies it for an operator."""
        return self.instance_id or f"{self.client_id}@{self.host}"

    def member_ids(self) -> tuple[str, ...]:
        """All ids that its consumers ever had."""
        return tuple(member_id for consumer in self.consumers for member_id in consumer.member_ids)

    def crash(self) -> None:
        """End at once."""
        for consumer in self.consumers:
            consumer.crash()

    def vanish(self) -> None:
        """Be gone together with its host: nobody closes its connections."""
        for consumer in self.consumers:
            consumer.vanish()

    async def close(self) -> None:
        """End in an orderly way."""
        await asyncio.gather(*(consumer.close() for consumer in self.consumers if consumer.is_running))

    def stall(self, duration_s: float) -> None:
        """Stand still."""
        for consumer in self.consumers:
            consumer.stall(duration_s)


class Service:
    """An application: one to three groups, and processes that are members of all of them."""

    def __init__(self, name: str, specs: tuple[GroupSpec, ...], style: Style, hosts: tuple[str, ...]) -> None:
        self.name = name
        self.specs = specs
        self.style = style
        self.hosts = hosts
        self.processes: list[Process] = []
        self.lock = asyncio.Lock()
        self.idle_since = 0.0
        self.release = 0
        """Counted up by each deploy; in the names of pods."""
        self.next_slot = 0

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(spec.group_id for spec in self.specs)

    @property
    def session_s(self) -> float:
        """The longest session of its groups."""
        return max(spec.session_timeout_ms for spec in self.specs) / 1000

    @property
    def rebalance_s(self) -> float:
        """The longest rebalance timeout of its groups."""
        return max(spec.rebalance_timeout_ms for spec in self.specs) / 1000

    @property
    def longest_s(self) -> float:
        """The longest time that silence can mean nothing."""
        return max(self.session_s, self.rebalance_s)

    def is_settled(self) -> bool:
        """Whether all consumers of each group are in one generation, at work."""
        for i in range(len(self.specs)):
            consumers = [process.consumers[i] for process in self.processes if process.consumers[i].is_running]
            if any(not consumer.is_stable for consumer in consumers):
                return False
            if len({consumer.generation_id for consumer in consumers}) > 1:
                return False
        return True

    async def settled(self) -> None:
        """Wait until it is. Raises NotSettled."""
        deadline = time.monotonic() + 6 * (self.session_s + self.rebalance_s)
        while not self.is_settled():
            if time.monotonic() > deadline:
                raise NotSettled(self.name)
            await asyncio.sleep(_LOOK_AGAIN_S)


class Fleet:
    """All services, on one broker."""

    def __init__(
        self,
        address: Address,
        clock: Clock,
        *,
        seed: int,
        service_count: int,
        prefix: str,
        on_accident: Callable[[Accident], None],
    ) -> None:
        """`prefix` is put before the names of all services, so that fleets on one broker are different ones."""
        self._prefix = prefix
        self.rng = random.Random(seed)
        self.partition_counts: dict[str, int] = {}
        """Partitions of each topic. The scripts that add some also change them here."""
        self.closed_hosts: set[str] = set()
        """Hosts that no new process is put on at present."""
        self.vanished: list[Process] = []
        """Of hosts that are gone."""
        self.clock = clock
        self._positions: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        self._address = address
        self._on_accident = on_accident
        host_count = max(10, service_count)
        self.hosts = tuple(f"127.0.{1 + i // 200}.{1 + i % 200}" for i in range(host_count))
        self.services = [self._service(i) for i in range(service_count)]
        self.sizes = [self.rng.choices((2, 3, 4, 5, 6, 8), (2, 5, 5, 3, 2, 1))[0] for _ in self.services]

    def start_process(self, service: Service, *, slot: int | None = None, like: Process | None = None) -> Process:
        """Start a process: in a new slot, in one given, or `like` an earlier one, down to its name."""
        if like is not None:
            process = Process(like.slot, like.client_id, like.instance_id, like.host)
        else:
            if slot is None:
                slot, service.next_slot = service.next_slot, service.next_slot + 1
            process = self._process(service, slot)
        for spec in service.specs:
            consumer = Consumer(
                spec,
                self._address,
                client_id=process.client_id,
                instance_id=process.instance_id,
                host=process.host,
                rng=random.Random(self.rng.random()),
                partition_counts=self.partition_counts,
                positions=self._positions[spec.group_id],
                on_expelled=lambda consumer: self._expelled(process, consumer),
            )
            process.consumers.append(consumer)
            consumer.start()
        service.processes.append(process)
        return process

    def _expelled(self, process: Process, consumer: Consumer) -> None:
        if not process.is_blamed:
            self._on_accident(Accident(consumer.spec.group_id, process.client, self.clock.now_ms()))

    def _process(self, service: Service, slot: int) -> Process:
        style = service.style
        host = self._host(service, slot)
        if style.is_shared:
            return Process(slot, service.name, None, host)
        if style.is_pod:
            suffix = "".join(self.rng.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
            return Process(slot, f"{service.name}-{service.release:x}c{len(service.name)}f-{suffix}", None, host)
        client_id = f"{service.name}-{slot}"
        return Process(slot, client_id, client_id if style.is_static else None, host)

    def _host(self, service: Service, slot: int) -> str:
        """A slot's own host, or the next one that is open and has no process of this service; else any that is open."""
        count = len(service.hosts)
        used = {process.host for process in service.processes}
        for i in range(count):
            host = service.hosts[(slot + i) % count]
            if host not in self.closed_hosts and host not in used:
                return host
        open_hosts = [host for host in service.hosts if host not in self.closed_hosts] or service.hosts
        return open_hosts[slot % len(open_hosts)]

    def _service(self, index: int) -> Service:
        rng = self.rng
        name = f"{self._prefix}{_NAMES[index % len(_NAMES)]}{index // len(_NAMES) or ''}"
        flavour = FLAVOURS[rng.choices(tuple(FLAVOURS), (10, 3, 4, 2))[0]]
        style_name = rng.choices(("static", "pod", "shared", "indexed"), (4, 4, 2, 4))[0]
        style = Style(style_name == "static", style_name == "pod", style_name == "shared")
        is_cooperative = flavour.name in ("java", "librdkafka") and rng.random() < 0.3
        rate = self.clock.rate
        session_ms = rng.choices(_SESSIONS_MS, (6, 2, 1, 3))[0]
        rebalance_ms = rng.choices(_REBALANCES_MS, (6, 2, 2))[0]
        heartbeat_ms = rng.choices((_HEARTBEAT_MS, session_ms // 3), (7, 3))[0]
        commit_ms = rng.choices(_COMMITS_MS, (7, 1, 1, 1))[0]
        specs: list[GroupSpec] = []
        for kind in ("", "-retry", "-dlq")[: rng.choices((1, 2, 3), (12, 3, 1))[0]]:
            topic = f"{name}{kind}-events"
            self.partition_counts[topic] = rng.choice((6, 8, 12))
            specs.append(
                GroupSpec(
                    group_id=f"{name}{kind}",
                    topics=(topic,),
                    flavour=flavour,
                    protocol_name="cooperative-sticky" if is_cooperative else rng.choice(("range", "roundrobin")),
                    session_timeout_ms=session_ms // rate,
                    rebalance_timeout_ms=rebalance_ms // rate,
                    heartbeat_ms=heartbeat_ms // rate,
                    commit_ms=commit_ms // rate,
                    fetch_ms=_FETCH_MS // rate,
                    poll_ms=rng.choice(_POLLS_MS) // rate,
                    clock_rate=self.clock.told_rate,
                )
            )
        host_count = rng.randrange(2, 4) if rng.random() < _DENSE else len(self.hosts)
        return Service(name, tuple(specs), style, tuple(rng.sample(self.hosts, host_count)))
