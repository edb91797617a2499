"""Random members of both protocols in one group, which changes its kind to and fro: what must hold whatever happens."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim_protocol.errors import ErrorCode
from tests.coordinator.groups.consumer.members import facts
from tests.coordinator.groups.consumer.test_heartbeat import World
from tests.coordinator.groups.consumer.test_migration import Classic, assigned, read_assignment
from tests.coordinator.harness import Call

NAMES = ("a", "b", "c")
COUNT = 5
ROUNDS = 80
names = st.sampled_from(NAMES)


class NewClient:
    """A client of the new protocol, which does at once what it is told. `owned` is what it reads from."""

    def __init__(self, world: World, name: str, instance_id: str | None) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: frozenset[int] = frozenset()

    def beat(self) -> None:
        if self.epoch == 0:
            call = self.world.join(self.name, "t", instance_id=self.instance_id)
        else:
            owned = {"t": sorted(self.owned)} if self.owned else {}
            call = self.world.heartbeat(self.name, self.epoch, owned=owned, instance_id=self.instance_id)
        if call.error is ErrorCode.NONE:
            self.epoch, told = self.world.told(call)
            if told is not None:
                self.owned = frozenset(told.get("t", ()))
        elif call.error is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self.epoch, self.owned = 0, frozenset()

    def leave(self) -> None:
        if self.epoch:
            self.world.heartbeat(self.name, -1, instance_id=self.instance_id)

    def reconnect(self) -> None:
        """Its requests are answered at once, so it waits for nothing."""


class ClassicClient:
    """An eager client of the classic protocol: it owns nothing from the moment it hears of a rebalance."""

    def __init__(self, world: World, name: str, instance_id: str | None) -> None:
        self.peer = Classic(world, name, instance_id=instance_id)
        self.owned: frozenset[int] = frozenset()
        self.has_joined = False
        self.waits_for: Call[Any] | None = None
        self.gave: dict[str, bytes] = {}

    def beat(self) -> None:
        """One step: take an answer, or send the next request."""
        if self.waits_for is not None:
            if not self.waits_for.is_parked:
                call, self.waits_for = self.waits_for, None
                self.take(call)
        elif not self.has_joined:
            self.send(self.peer.join())
        elif self.peer.heartbeat() is not ErrorCode.NONE:
            self.begin_again()

    def send(self, call: Call[Any]) -> None:
        if call.is_parked:
            self.waits_for = call
        else:
            self.take(call)

    def take(self, call: Call[Any]) -> None:
        if call.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.peer.member_id = ""
        if call.error is not ErrorCode.NONE:
            self.begin_again()
        elif hasattr(call.reply, "generation_id"):
            self.has_joined = True
            reply = self.peer.take(call)
            given = {}
            if reply.leader == reply.member_id:
                ids = [member.member_id for member in reply.members]
                shares = {id_: list(range(COUNT))[number :: len(ids)] for number, id_ in enumerate(ids)}
                given = {id_: assigned({"t": share}) for id_, share in shares.items()}
            self.send(self.peer.send_sync(given))
        elif call.reply.assignment:
            self.owned = frozenset(read_assignment(call.reply.assignment)[1].get("t", ()))

    def begin_again(self) -> None:
        self.owned, self.has_joined = frozenset(), False

    def leave(self) -> None:
        if self.peer.member_id:
            self.peer.leave()

    def reconnect(self) -> None:
        """What it waited for is never answered."""
        if self.waits_for is not None:
            self.waits_for = None
            self.begin_again()


class MigrationMachine(RuleBasedStateMachine):
    """Clients stop, start again with any protocol, crash; the coordinator crashes; appends fail."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World({"t": COUNT})
        self.clients: dict[str, NewClient | ClassicClient] = {}
        self.lives = 0
        self.epoch = 0

    @rule(name=names, is_classic=st.booleans())
    def start(self, name: str, is_classic: bool) -> None:
        if name not in self.clients:
            self.lives += 1
            kind = ClassicClient if is_classic else NewClient
            instance_id = "i" if name == "a" else None
            self.clients[name] = kind(self.world, f"{name}-{self.lives}", instance_id)
            self.clients[name].beat()

    @rule(name=names)
    def stop(self, name: str) -> None:
        client = self.clients.pop(name, None)
        if client is not None:
            client.leave()
            self.epochs_never_go_back_while_there_are_members()  # the group may be empty now, and begin again

    @rule(name=names, is_classic=st.booleans(), seconds=st.integers(1, 6))
    def roll(self, name: str, is_classic: bool, seconds: int) -> None:
        """A client is restarted with any protocol, and the group may settle."""
        self.stop(name)
        self.start(name, is_classic)
        for _ in range(seconds):
            self.a_second_passes()
            self.no_partition_is_read_twice()

    @rule(kinds=st.lists(st.booleans(), min_size=2, max_size=6))
    def roll_all(self, kinds: list[bool]) -> None:
        """One after the other, and the group goes on in between."""
        for number, is_classic in enumerate(kinds):
            self.roll(NAMES[number % len(NAMES)], is_classic, 4)

    @rule(name=names)
    def crash(self, name: str) -> None:
        self.clients.pop(name, None)

    @rule(name=names)
    def beat(self, name: str) -> None:
        if name in self.clients:
            self.clients[name].beat()

    @rule()
    def a_second_passes(self) -> None:
        self.world.pass_ms(1_000)
        for client in self.clients.values():
            client.beat()

    @rule()
    def the_next_append_fails(self) -> None:
        self.world.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS)

    @rule()
    def the_coordinator_crashes(self) -> None:
        before = self.consumer_group()
        known = None if before is None else facts(before)
        self.world.restart()
        after = self.consumer_group()
        assert (None if after is None else facts(after)) == known
        if after is None:
            self.epoch = 0  # the generation of a classic group is written only when its leader has synced
        for client in self.clients.values():
            client.reconnect()

    @rule()
    def all_go_on_until_all_is_read(self) -> None:
        """As in Kafka, a member that waits for partitions is forgotten when a static classic member takes the place of the last
        new one: the group is classic and Stable then, until somebody joins again (integration/migration shows it).
        """
        self.world.append_errors.clear()
        read = self.read_after_many_rounds()
        if len(read) < COUNT and self.clients:
            group = self.world.group
            assert (self.consumer_group(), group.state) == (None, GroupState.STABLE), f"only {sorted(read)} are read"
            assert any(member.group_instance_id is not None for member in group.members.values())
            for client in self.clients.values():
                assert isinstance(client, ClassicClient)
                client.begin_again()
            assert len(self.read_after_many_rounds()) == COUNT

    def read_after_many_rounds(self) -> frozenset[int]:
        """What is read, at once when that is all."""
        for _ in range(ROUNDS):
            self.a_second_passes()
            self.no_partition_is_read_twice()
            read = frozenset[int]().union(*(client.owned for client in self.clients.values()))
            if len(read) == COUNT or not self.clients:
                break
        return read

    def consumer_group(self) -> ConsumerGroup | None:
        shard = self.world.coordinator.shard_of("g")
        group = None if shard is None else shard.groups.get("g")
        return group if isinstance(group, ConsumerGroup) else None

    @invariant()
    def no_partition_is_read_twice(self) -> None:
        owned = [index for client in self.clients.values() for index in client.owned]
        assert len(owned) == len(set(owned)), {name: client.owned for name, client in self.clients.items()}

    @invariant()
    def epochs_never_go_back_while_there_are_members(self) -> None:
        shard = self.world.coordinator.shard_of("g")
        group = None if shard is None else shard.groups.get("g")
        if group is None or group.is_empty:
            self.epoch = 0
        else:
            assert group.epoch >= self.epoch
            self.epoch = group.epoch


TestMigration = MigrationMachine.TestCase
TestMigration.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
