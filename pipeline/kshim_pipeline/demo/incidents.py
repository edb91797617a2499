"""Incidents of known cause, on groups of simulated consumers.

All times are parts of a group's own timeouts: the events of one incident are closer together than the longest of them,
and two incidents are further apart.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, NamedTuple

from kshim_pipeline.demo.connection import Address, Connection
from kshim_pipeline.demo.flavours import FLAVOURS, Reason
from kshim_pipeline.demo.simulated_consumer import Consumer, GroupSpec
from kshim_pipeline.errors import PipelineError
from kshim_protocol.group_requests import find_coordinator
from kshim_protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

_NAMES: Final = ("billing", "orders", "audit", "search", "mail", "pricing", "stock", "ledger", "fraud", "clicks")
PARTITIONS: Final = 8
_SIZES: Final = (3, 4, 5, 6)
_QUIET: Final = (1.7, 2.4)
_LOOK_AGAIN_S: Final = 0.03
_TIMEOUT_MS: Final = 30_000


class Truth(NamedTuple):
    """What was done: to which groups, by which clients (names as diagnoses have them; empty: the group's), and when."""

    cause: str
    groups: frozenset[str]
    culprits: frozenset[str]
    start_ms: int
    end_ms: int


def group_ids(count: int) -> list[str]:
    """The names of so many groups."""
    return [f"{_NAMES[i % len(_NAMES)]}{i // len(_NAMES) or ''}" for i in range(count)]


def topic_of(group_id: str) -> str:
    """The topic that a group reads."""
    return f"{group_id}-events"


class Group:
    """A group and its consumers, each on a host of its own. Some are static members."""

    def __init__(self, number: int, group_id: str, address: Address, admin: Connection, rng: random.Random) -> None:
        session_timeout_ms = rng.randrange(1_500, 3_200)
        self.spec = GroupSpec(
            group_id,
            (topic_of(group_id),),
            FLAVOURS[rng.choices(tuple(FLAVOURS), (10, 3, 4, 2))[0]],
            rng.choice(("range", "roundrobin")),
            session_timeout_ms,
            round(session_timeout_ms * rng.uniform(1.25, 2.5)),
            heartbeat_ms=session_timeout_ms // rng.choice((3, 4, 5, 8)),
            commit_ms=rng.randrange(500, 1_300),
            fetch_ms=500,
            poll_ms=rng.randrange(60, 200),
        )
        self.is_static = rng.random() < 0.3
        self.session_s = self.spec.session_timeout_ms / 1000
        self.rebalance_s = self.spec.rebalance_timeout_ms / 1000
        self.longest_s = max(self.session_s, self.rebalance_s)
        self.rng = rng
        self.consumers: list[Consumer] = []
        self._address = address
        self._admin = admin
        self._partition_counts = {topic_of(group_id): PARTITIONS}
        self._positions: dict[tuple[str, int], int] = {}
        self._slots = 0
        self._subnet = number % 250 + 1

    @property
    def leader(self) -> Consumer:
        return next(consumer for consumer in self.consumers if consumer.is_leader)

    def start(self, like: Consumer | None = None) -> Consumer:
        """Start a consumer, or one of the same name and host in the place of another."""
        if like is None:
            self._slots += 1
            name, host = f"{self.spec.group_id}-{self._slots}", f"127.0.{self._subnet}.{self._slots}"
        else:
            name, host = like.client_id, like.host
            self.consumers = [consumer for consumer in self.consumers if consumer is not like]
        consumer = Consumer(
            self.spec,
            self._address,
            client_id=name,
            instance_id=name if self.is_static else None,
            host=host,
            rng=self.rng,
            partition_counts=self._partition_counts,
            positions=self._positions,
            on_expelled=lambda _: None,
        )
        self.consumers.append(consumer)
        consumer.start()
        return consumer

    def any_consumer(self) -> Consumer:
        return self.rng.choice(self.consumers)

    async def close(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        await consumer.close()

    async def sessions(self, least: float, most: float) -> None:
        """Wait for some part of the session timeout."""
        await asyncio.sleep(self.rng.uniform(least, most) * self.session_s)

    async def settled(self) -> None:
        """Wait until all are at work in one generation. Raises PipelineError: that takes unreasonably long."""
        deadline = time.monotonic() + 6 * (self.session_s + self.rebalance_s)
        while not all(consumer.is_stable for consumer in self._running) or len(self._generations) > 1:
            if time.monotonic() > deadline:
                raise PipelineError(f"the simulated group {self.spec.group_id} did not become stable")
            await asyncio.sleep(_LOOK_AGAIN_S)

    @property
    def _running(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers if consumer.is_running]

    @property
    def _generations(self) -> set[int]:
        return {consumer.generation_id for consumer in self._running}

    async def add_partitions(self) -> None:
        """Enlarge the topic; the leader notices when it looks at the metadata."""
        (topic,) = self.spec.topics
        count = self._partition_counts[topic] + self.rng.randrange(1, 4)
        new = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        await self._admin.ask(
            CreatePartitionsRequest(topics=(new,), timeout_ms=_TIMEOUT_MS, validate_only=False), version=1
        )
        self._partition_counts[topic] = count
        await self.sessions(0.05, 0.3)
        await self.rejoin(self.leader, Reason.METADATA_CHANGED)

    async def rejoin(self, consumer: Consumer, reason: str) -> None:
        generation_id = consumer.generation_id
        consumer.rejoin(reason)
        await consumer.next_generation(generation_id)


Culprits = list[Consumer]


async def _start(group: Group) -> Culprits:
    for _ in range(group.rng.choice(_SIZES)):
        group.start()
        await group.sessions(0.1, 0.7)
    return []


async def _deploy(group: Group) -> Culprits:
    for consumer in list(group.consumers):
        await group.close(consumer)
        await group.sessions(0.08, 0.5)
        group.start(like=consumer)
        await group.settled()
        await group.sessions(0.03, 0.3)
    return []


async def _restart(group: Group) -> Culprits:
    consumer = group.any_consumer()
    await group.close(consumer)
    await group.sessions(0.1, 0.6)
    return [group.start(like=consumer)]


async def _crash_loop(group: Group) -> Culprits:
    consumer = group.any_consumer()
    for _ in range(group.rng.randrange(3, 5)):
        consumer.crash()
        await group.sessions(0.08, 0.6)
        consumer = group.start(like=consumer)
        await group.sessions(0.3, 0.6)
    return [consumer]


async def _kill(group: Group) -> Culprits:
    consumer = group.any_consumer()
    consumer.crash()
    group.consumers.remove(consumer)
    await group.sessions(1.2, 1.2)
    return [consumer]


async def _pause(group: Group) -> Culprits:
    consumer = group.any_consumer()
    duration_s = group.rng.uniform(1.2, 1.8) * group.session_s
    consumer.stall(duration_s)
    await asyncio.sleep(duration_s + 0.3 * group.session_s)
    return [consumer]


async def _poll_too_late(group: Group) -> Culprits:
    consumer = group.any_consumer()
    extra = group.rng.uniform(1.25, 1.6) if group.is_static else group.rng.uniform(0.2, 0.9)
    duration_s = group.rebalance_s + extra * group.session_s
    consumer.be_busy(duration_s)
    await asyncio.sleep(duration_s + 0.1)
    return [consumer]


async def _lead_slowly(group: Group) -> Culprits:
    leader = group.leader
    leader.assignor_delay_s = group.rng.uniform(0.45, 0.8) * group.session_s
    await group.add_partitions()
    return [leader]


async def _scale_up(group: Group) -> Culprits:
    return [group.start() for _ in range(group.rng.randrange(1, 3))]


async def _scale_down(group: Group) -> Culprits:
    gone = group.rng.sample(group.consumers, group.rng.randrange(1, max(2, len(group.consumers) // 2)))
    for consumer in gone:
        await group.close(consumer)
    await group.sessions(0.1, 0.1)
    return gone


async def _add_partitions(group: Group) -> Culprits:
    await group.add_partitions()
    return []


async def _enforce(group: Group) -> Culprits:
    leader = group.leader
    await group.rejoin(leader, Reason.ENFORCED)
    return [leader]


class Script(NamedTuple):
    """One incident. `suits`: whether it can happen to a group as it is now."""

    cause: str
    play: Callable[[Group], Awaitable[Culprits]]
    suits: Callable[[Group], bool]


def _always(group: Group) -> bool:
    return True


def _is_dynamic(group: Group) -> bool:
    return not group.is_static


def _is_led(group: Group) -> bool:
    return any(consumer.is_leader for consumer in group.consumers)  # a replaced static leader does not know


def _has_three(group: Group) -> bool:
    return len(group.consumers) >= 3


# fmt: off
SCRIPTS: Final = (
    Script("deploy",             _deploy,         _always),
    Script("restart",            _restart,        lambda group: _has_three(group) and _is_dynamic(group)),
    Script("static_restart",     _restart,        lambda group: _has_three(group) and group.is_static),
    Script("crash_loop",         _crash_loop,     _always),
    Script("killed",             _kill,           _has_three),
    Script("paused",             _pause,          _always),
    Script("slow_poll",          _poll_too_late,  lambda group: group.spec.flavour.watches_polls),
    Script("slow_leader",        _lead_slowly,    _is_led),
    Script("scale_up",           _scale_up,       lambda group: len(group.consumers) < 7),
    Script("scale_down",         _scale_down,     lambda group: _has_three(group) and _is_dynamic(group)),
    Script("partitions_added",   _add_partitions, _is_led),
    Script("rebalance_enforced", _enforce,        lambda group: _is_led(group) and group.spec.flavour.gives_reasons),
)
# fmt: on


async def play(bootstrap: str, group_count: int, incident_count: int, seed: int) -> list[Truth]:
    """Start the groups, let so many incidents happen to them, starts included, and stop them. Raises PipelineError."""
    host, _, port = bootstrap.rpartition(":")
    admin = await Connection.open((host, int(port)), client_id="incidents-admin")
    names = group_ids(group_count)
    await admin.ask(find_coordinator(2, names), version=2)  # which makes __consumer_offsets
    rng = random.Random(seed)
    groups = [Group(i, name, (host, int(port)), admin, random.Random(rng.random())) for i, name in enumerate(names)]
    truths: list[Truth] = []
    tickets = iter(range(max(0, incident_count - group_count)))
    try:
        await asyncio.gather(*(_play_on(group, tickets, truths) for group in groups))
        await asyncio.sleep(
            _QUIET[1] * max(group.longest_s for group in groups)
        )  # so that the end is no part of an incident
        truths += await asyncio.gather(*map(_stop, groups))
    finally:
        for group in groups:
            for consumer in group.consumers:
                consumer.crash()
        admin.abort()
    return truths


async def _stop(group: Group) -> Truth:
    """The end: all consumers leave for good."""
    start_ms = _wall_ms()
    await asyncio.gather(*(consumer.close(for_good=True) for consumer in group.consumers))
    return Truth("scale_down", frozenset([group.spec.group_id]), _names(group.consumers), start_ms, _wall_ms())


def _names(consumers: Iterable[Consumer]) -> frozenset[str]:
    """As diagnoses have them."""
    return frozenset(consumer.instance_id or f"{consumer.client_id}@{consumer.host}" for consumer in consumers)


async def _play_on(group: Group, tickets: Iterator[int], truths: list[Truth]) -> None:
    await asyncio.sleep(group.rng.uniform(0, 2 * group.longest_s))
    script = Script("one_by_one_start", _start, _always)
    while True:
        start_ms = _wall_ms()
        culprits = await script.play(group)
        await group.settled()
        truths.append(Truth(script.cause, frozenset([group.spec.group_id]), _names(culprits), start_ms, _wall_ms()))
        if next(tickets, None) is None:
            return
        await asyncio.sleep(group.rng.uniform(*_QUIET) * group.longest_s)
        script = group.rng.choice([script for script in SCRIPTS if script.suits(group)])


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
