"""A group of the new protocol on the coordinator itself: seeded clients, lost requests and answers, crashes, and time.

Unlike `ConsumerGroupMachine`, which drives plans, it goes through requests, timers and the log. A client reads from what it
was told to own, and stops reading before it says so; a client that is removed while it is silent knows only when its own
session is over, as the broker's is not before that.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim_protocol.errors import ErrorCode
from tests.coordinator.groups.consumer.test_heartbeat import SESSION_MS, World

TOPICS = {"t": 5, "u": 2}
INTERVAL_MS = 5_000
_OUT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID)

Owned = frozenset[tuple[str, int]]


class Found(NamedTuple):
    """What a seed has shown to be wrong, and when."""

    seed: int
    step: int
    violation: str


class Client:
    """One member. `reads` is what it reads from now, `told` what the last answer that reached it said."""

    def __init__(self, name: str, instance_id: str | None) -> None:
        self.name = name
        self.instance_id = instance_id
        self.runs = 0
        self.is_up = False
        self.epoch = 0
        self.reads: Owned = frozenset()
        self.told: Owned = frozenset()
        self.names: tuple[str, ...] = ("t",)
        self.says_all = True
        self.heard_ms = 0

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.runs}"

    def drop(self) -> None:
        """It is no member any more, as far as it knows."""
        self.epoch, self.reads, self.told, self.says_all = 0, frozenset(), frozenset(), True


class EpochSimulation:
    """One seed. Raises AssertionError with what is wrong."""

    def __init__(self, seed: int) -> None:
        self.rnd = random.Random(seed)
        self.world = World(TOPICS)
        self.clients = [Client(name, None) for name in "abc"] + [Client("s", "i")]

    def run(self, steps: int) -> Found | None:
        """What goes wrong within so many steps, and when everybody is given time afterwards."""
        done = 0
        try:
            while done < steps:
                done += 1
                self.step()
                self.no_partition_has_two_readers()
            self.settles()
        except AssertionError as error:
            return Found(0, done, str(error).splitlines()[0])
        return None

    def step(self) -> None:
        """Something happens."""
        client = self.rnd.choice(self.clients)
        match self.rnd.choices(
            ("beat", "obey", "time", "start", "stop", "kill", "wish", "crash", "disk"), (40, 20, 20, 8, 3, 2, 3, 2, 2)
        )[0]:
            case "beat" if client.is_up:
                self.beat(client)
            case "obey":
                client.reads = client.told
            case "time":
                self.pass_ms(self.rnd.choice((100, 1_000, INTERVAL_MS)))
            case "start" if not client.is_up:
                client.runs += 1
                client.is_up = True
                client.heard_ms = self.world.mono_ms
                client.drop()
                self.beat(client)
            case "stop" if client.is_up:
                self.beat(client, epoch=-1 if client.instance_id is None else -2)
                client.is_up = False
                client.drop()
            case "kill":
                client.is_up = False
                client.drop()
            case "wish":
                client.names, client.says_all = self.rnd.choice((("t",), ("t", "u"), ("u",))), True
            case "crash":
                self.world.restart()
            case "disk":
                self.world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
            case _:
                pass

    def beat(self, client: Client, *, epoch: int | None = None, is_safe: bool = False) -> None:
        """One heartbeat; request and answer may be lost."""
        sent = client.epoch if epoch is None else epoch
        if not is_safe and self.rnd.random() < 0.1:
            client.says_all = True
            return
        full = client.says_all or sent == 0
        if sent == 0:
            client.drop()
        owned: dict[str, list[int]] = {}
        for topic, index in sorted(client.reads):
            owned.setdefault(topic, []).append(index)
        call = self.world.heartbeat(
            client.member_id,
            sent,
            owned=owned,
            names=client.names if full else None,
            timeout_ms=60_000 if full else -1,
            instance_id=client.instance_id,
        )
        if not is_safe and self.rnd.random() < 0.1:
            client.says_all = True
            return
        if call.error in _OUT:
            client.drop()
        elif call.error is ErrorCode.NONE and sent >= 0:
            client.says_all, client.heard_ms = False, self.world.mono_ms
            client.epoch, assigned = self.world.told(call)
            if assigned is not None:
                client.told = frozenset((topic, index) for topic, indexes in assigned.items() for index in indexes)
                client.reads &= client.told

    def pass_ms(self, ms: int) -> None:
        """Time passes, also for clients, who stop reading when they could not speak to the broker for a session."""
        for client in self.clients:
            if self.world.mono_ms + ms - client.heard_ms >= SESSION_MS:
                client.drop()
        self.world.pass_ms(ms)

    def no_partition_has_two_readers(self) -> None:
        """What the whole protocol is for."""
        readers: dict[tuple[str, int], str] = {}
        for client in self.clients:
            for partition in client.reads:
                other = readers.setdefault(partition, client.name)
                assert other == client.name, f"{other} and {client.name} both read {partition[0]}-{partition[1]}"

    def settles(self) -> None:
        """When nothing is lost any more, the group becomes Stable, and every partition that somebody wants has a reader."""
        self.world.append_errors.clear()
        for _ in range(30):
            self.pass_ms(INTERVAL_MS)
            for client in self.clients:
                if client.is_up:
                    client.reads = client.told
                    self.beat(client, is_safe=True)
                    client.reads = client.told
                    self.no_partition_has_two_readers()
        up = [client for client in self.clients if client.is_up]
        if not up:
            return
        shard = self.world.coordinator.shard_of("g")
        group = None if shard is None else shard.groups.get("g")
        assert isinstance(group, ConsumerGroup)
        assert group.state.value == "Stable", f"the group is {group.state} in the end"
        wanted = {(name, index) for client in up for name in client.names for index in range(TOPICS[name])}
        read = {partition for client in up for partition in client.reads}
        assert read == wanted, f"nobody reads {sorted(wanted - read)}"


def simulate(seed: int, steps: int) -> Found | None:
    """Play one seed."""
    found = EpochSimulation(seed).run(steps)
    return None if found is None else found._replace(seed=seed)
