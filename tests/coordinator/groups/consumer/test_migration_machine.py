"""Random members of both protocols in one group, which changes its kind to and fro: what must hold whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer.embedded_protocol import parse_subscription
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.sync_group import SyncGroupRequest
from tests.coordinator.groups.consumer.members import facts
from tests.coordinator.groups.consumer.test_heartbeat import World
from tests.coordinator.groups.consumer.test_migration import Classic, assigned, read_assignment
from tests.coordinator.harness import Call

NAMES = ("a", "b", "c")
COUNT = 5
ROUNDS = 80
LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.ILLEGAL_GENERATION)
"""Errors after which nothing that a client owned is its any more."""
names = st.sampled_from(NAMES)


class NewClient:
    """A client of the new protocol, which does at once what it is told. `owned` is what it reads from."""

    def __init__(self, world: World, name: str, instance_id: str | None) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.epoch = 0
        self.is_certain = True
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

    def hear(self) -> None:
        """As `reconnect`."""


class EagerClient:
    """A client of the classic protocol that owns nothing from the moment it hears of a rebalance."""

    def __init__(self, world: World, name: str, instance_id: str | None) -> None:
        self.peer = Classic(world, name, instance_id=instance_id)
        self.owned: frozenset[int] = frozenset()
        self.is_certain = True
        self.has_joined = False
        self.waits_for: Call[Any] | None = None

    def beat(self) -> None:
        """One step: take an answer, or send the next request."""
        if self.waits_for is not None:
            if not self.waits_for.is_parked:
                call, self.waits_for = self.waits_for, None
                self.take(call)
        elif not self.has_joined:
            self.peer.owns({"t": sorted(self.owned)} if self.owned else {})
            self.send(self.peer.join())
        elif (error := self.peer.heartbeat()) is not ErrorCode.NONE:
            self.refused(error)

    def hear(self) -> None:
        """What is its is heard as soon as it is said; only the next request waits for its turn."""
        call = self.waits_for
        if call is not None and isinstance(call.request, SyncGroupRequest) and not call.is_parked:
            self.waits_for = None
            self.take(call)

    def send(self, call: Call[Any]) -> None:
        if call.is_parked:
            self.waits_for = call
        else:
            self.take(call)

    def take(self, call: Call[Any]) -> None:
        if call.error is not ErrorCode.NONE:
            self.refused(call.error)
        elif hasattr(call.reply, "generation_id"):
            self.has_joined = True
            reply = self.peer.take(call)
            given = {}
            if reply.leader == reply.member_id:
                owners = {index: member.member_id for member in reply.members for index in said_to_own(member.metadata)}
                ids = [member.member_id for member in reply.members]
                shares = {id_: list(range(COUNT))[number :: len(ids)] for number, id_ in enumerate(ids)}
                given = {
                    id_: assigned({"t": [index for index in share if owners.get(index, id_) == id_]})
                    for id_, share in shares.items()
                }
            self.send(self.peer.send_sync(given))
        else:
            data = call.reply.assignment
            self.is_assigned(frozenset(read_assignment(data)[1].get("t", ()) if data else ()))

    def is_assigned(self, partitions: frozenset[int]) -> None:
        self.owned = partitions

    def refused(self, error: ErrorCode) -> None:
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.peer.member_id = ""
        if error in LOST:
            self.owned = frozenset()
        self.begin_again()

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


class CooperativeClient(EagerClient):
    """One that reads on while it joins, says what it owns, and joins again once it has given some of that up.

    As in Kafka, a classic group whose rebalance is interrupted after its join phase has forgotten what was assigned before.
    If it is upgraded then, others get that at once: what such a client owns is certain only when it has its assignment.
    """

    def hear(self) -> None:
        self.is_certain &= self.waits_for is None or self.waits_for.is_parked
        super().hear()

    def send(self, call: Call[Any]) -> None:
        self.is_certain &= not isinstance(call.request, SyncGroupRequest)
        super().send(call)

    def is_assigned(self, partitions: frozenset[int]) -> None:
        given_up, self.owned = self.owned - partitions, partitions
        self.is_certain = True
        if given_up:
            self.begin_again()

    def begin_again(self) -> None:
        self.has_joined = False


def said_to_own(metadata: bytes) -> Iterator[int]:
    """The partitions that a JoinGroup says its member owns: a leader gives them to nobody else."""
    for topic in parse_subscription(metadata).owned_partitions:
        yield from topic.partitions


Kind = type[NewClient] | type[EagerClient]
kinds: st.SearchStrategy[Kind] = st.sampled_from([NewClient, EagerClient, CooperativeClient])


class MigrationMachine(RuleBasedStateMachine):
    """Clients stop, start again with any protocol, crash; the coordinator crashes; appends fail."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World({"t": COUNT})
        self.clients: dict[str, NewClient | EagerClient] = {}
        self.lives = 0
        self.epoch = 0
        self.has_crashed = False

    @rule(name=names, kind=kinds)
    def start(self, name: str, kind: Kind) -> None:
        if name not in self.clients:
            self.lives += 1
            instance_id = "i" if name == "a" else None
            self.clients[name] = kind(self.world, f"{name}-{self.lives}", instance_id)
            self.clients[name].beat()

    @rule(name=names)
    def stop(self, name: str) -> None:
        client = self.clients.pop(name, None)
        if client is not None:
            client.leave()
            self.epochs_never_go_back_while_there_are_members()  # the group may be empty now, and begin again

    @rule(name=names, kind=kinds, seconds=st.integers(1, 6))
    def roll(self, name: str, kind: Kind, seconds: int) -> None:
        """A client is restarted with any protocol, and the group may settle."""
        self.stop(name)
        self.start(name, kind)
        for _ in range(seconds):
            self.a_second_passes()
            self.no_partition_is_read_twice()

    @rule(of_each=st.lists(kinds, min_size=2, max_size=6))
    def roll_all(self, of_each: list[Kind]) -> None:
        """One after the other, and the group goes on in between."""
        for number, kind in enumerate(of_each):
            self.roll(NAMES[number % len(NAMES)], kind, 4)

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
        self.has_crashed = True
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
        new one: the group is classic and Stable then, until somebody joins again (integration/migration shows it). So is a group
        that became classic when its last new member left: that its members are to join again is in memory only, and a coordinator
        that crashes then forgets it.
        """
        self.world.append_errors.clear()
        read = self.read_after_many_rounds()
        if len(read) < COUNT and self.clients:
            group = self.world.group
            assert (self.consumer_group(), group.state) == (None, GroupState.STABLE), f"only {sorted(read)} are read"
            is_static = any(member.group_instance_id is not None for member in group.members.values())
            assert is_static or self.has_crashed
            for client in self.clients.values():
                assert isinstance(client, EagerClient)
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
        for client in self.clients.values():
            client.hear()
        owned = [index for client in self.clients.values() if client.is_certain for index in client.owned]
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
