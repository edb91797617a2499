"""Random members of one group, with lost answers, failed writes and replay: what must hold whatever happens."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.group import LEFT_FOR_NOW_EPOCH
from kshim.coordinator.groups.consumer.state import ConsumerGroupState, MemberState
from kshim_protocol.errors import ErrorCode, KafkaError
from tests.coordinator.groups.consumer.members import TRIGGER, GroupSim, counted, facts, recounted, wants

NAMES = ("a", "b", "c", "static")
ROUNDS = 20
names = st.sampled_from(NAMES)
topics = st.sets(st.sampled_from(["t", "u", "missing"]), min_size=1).map(lambda found: tuple(sorted(found)))
assignors = st.sampled_from([None, "uniform", "range"])


class Client:
    """A member as its own process sees it. `owned` is what it reads from, `told` the assignment it heard of last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = 0
        self.epoch = 0
        self.subscribed: tuple[str, ...] = ()
        self.assignor: str | None = None
        self.is_in = False
        self.says_all = True
        self.owned: frozenset[TopicPartition] = frozenset()
        self.told: frozenset[TopicPartition] = frozenset()

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.runs}"

    def stop(self) -> None:
        self.is_in, self.epoch, self.owned, self.told = False, 0, frozenset(), frozenset()


class ConsumerGroupMachine(RuleBasedStateMachine):
    """Clients talk to a group; time passes only by rules."""

    def __init__(self) -> None:
        super().__init__()
        self.sim = GroupSim(t=3, u=2)
        self.clients = {name: Client(name) for name in NAMES}
        self.epochs = (0, 0)
        self.member_epochs: dict[str, int] = {}

    # What clients do

    def beat(self, client: Client, *, says_all: bool, is_lost: bool) -> None:
        """One heartbeat; the client does with the answer what it says, unless it is lost."""
        metadata = None
        if says_all or client.says_all or client.epoch == 0:
            instance_id = "i" if client.name == "static" else None
            metadata = wants(*client.subscribed, instance_id=instance_id, assignor=client.assignor)
        try:
            epoch, assigned = self.sim.heartbeat(client.member_id, client.epoch, owned=client.owned, metadata=metadata)
        except KafkaError as error:
            client.says_all = True
            if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return
            if error.code not in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                raise
            client.epoch, client.owned, client.told = 0, frozenset(), frozenset()
            return
        client.says_all = is_lost
        if not is_lost:
            client.epoch, client.told = epoch, assigned

    @rule(name=names, topics=topics, assignor=assignors)
    def join(self, name: str, topics: tuple[str, ...], assignor: str | None) -> None:
        client = self.clients[name]
        if not client.is_in:
            client.runs += 1
            client.is_in, client.subscribed, client.assignor = True, topics, assignor
            self.beat(client, says_all=True, is_lost=False)

    @rule(name=names, topics=topics)
    def subscribe_to_others(self, name: str, topics: tuple[str, ...]) -> None:
        client = self.clients[name]
        if client.is_in:
            client.subscribed = topics
            self.beat(client, says_all=True, is_lost=False)

    @rule(name=names, is_lost=st.booleans(), says_all=st.booleans())
    def heartbeat(self, name: str, is_lost: bool, says_all: bool) -> None:
        client = self.clients[name]
        if client.is_in:
            self.beat(client, says_all=says_all, is_lost=is_lost)

    @rule(name=names)
    def do_as_told(self, name: str) -> None:
        self.clients[name].owned = self.clients[name].told

    @rule(name=names)
    def give_up_only(self, name: str) -> None:
        self.clients[name].owned &= self.clients[name].told

    @rule(name=names)
    def leave_or_expire(self, name: str) -> None:
        client = self.clients[name]
        if client.member_id in self.sim.group.members:
            self.sim.remove(client.member_id)
        client.stop()

    @rule()
    def static_member_stops_for_now(self) -> None:
        client = self.clients["static"]
        if client.is_in and client.member_id in self.sim.group.members:
            self.sim.change(lambda plan: plan.leave_for_now(client.member_id, TRIGGER))
            client.stop()

    # What happens around them

    @rule()
    def time_passes(self) -> None:
        self.sim.pass_interval()

    @rule()
    def the_next_write_fails(self) -> None:
        self.sim.fails_next = True

    @rule(name=st.sampled_from(["t", "u"]), count=st.integers(1, 4))
    @precondition(lambda self: self.sim.group.members)
    def a_topic_is_made_again(self, name: str, count: int) -> None:
        self.sim.fails_next = False
        self.sim.topics.make(name, count)
        self.sim.change(lambda plan: plan.raise_epoch(TRIGGER))

    @rule(is_compacted=st.booleans())
    def the_group_comes_back_from_its_log(self, is_compacted: bool) -> None:
        found = self.sim.replayed(self.sim.compacted() if is_compacted else None)
        assert facts(found) == facts(self.sim.group)
        self.sim.group = found

    @rule()
    def all_heartbeat_until_nothing_changes(self) -> None:
        self.sim.fails_next = False
        present = {client.member_id for client in self.clients.values() if client.is_in}
        for member_id in self.sim.group.members.keys() - present:
            self.sim.remove(member_id)  # its session is over
        for _ in range(ROUNDS):
            self.sim.pass_interval()
            before = self.all_facts()
            for client in self.clients.values():
                if client.is_in:
                    client.owned = client.told
                    self.beat(client, says_all=False, is_lost=False)
                    client.owned = client.told
            if self.all_facts() == before:
                break
        self.assert_settled()

    def all_facts(self) -> tuple[object, ...]:
        """Of the group and of the clients: one that is fenced joins again in the next round."""
        return *facts(self.sim.group), [(client.epoch, client.told) for client in self.clients.values()]

    def assert_settled(self) -> None:
        group = self.sim.group
        assert group.members.keys() == {client.member_id for client in self.clients.values() if client.is_in}
        if not group.members:
            assert group.state is ConsumerGroupState.EMPTY
            return
        assert group.state is ConsumerGroupState.STABLE
        assert group.target_epoch == group.group_epoch
        for client in self.clients.values():
            if client.is_in:
                current = group.members[client.member_id].current
                assert current.epoch == client.epoch == group.target_epoch
                assert current.state is MemberState.STABLE
                assert client.owned == current.assigned.keys() == group.targets[client.member_id]
        subscribed = {name for client in self.clients.values() if client.is_in for name in client.subscribed}
        found = [self.sim.topics.found[name] for name in subscribed if name in self.sim.topics.found]
        expected = {(topic_id, index) for topic_id, count in found for index in range(count)}
        assert group.holders.keys() == expected

    # What always holds

    @invariant()
    def no_partition_is_in_two_hands(self) -> None:
        group = self.sim.group
        held = [
            (partition, member_id)
            for member_id, member in group.members.items()
            for partition in (*member.current.assigned, *member.current.pending_revocation)
        ]
        assert len(held) == len(dict(held)) == len(group.holders)
        assert dict(held) == dict(group.holders)
        owned = [partition for client in self.clients.values() for partition in client.owned]
        assert len(owned) == len(set(owned))

    @invariant()
    def what_a_group_counts_follows_from_its_members(self) -> None:
        assert counted(self.sim.group) == recounted(self.sim.group)

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self.sim.group
        epochs = (group.group_epoch, group.target_epoch)
        assert all(now >= before for now, before in zip(epochs, self.epochs, strict=True))
        assert group.target_epoch <= group.group_epoch
        self.epochs = epochs
        found = {name: member.current.epoch for name, member in group.members.items()}
        for name, epoch in found.items():
            assert epoch == -2 or self.member_epochs.get(name, 0) <= epoch <= group.target_epoch
        self.member_epochs = found

    @invariant()
    def only_a_member_that_revokes_has_something_to_give_up(self) -> None:
        for member in self.sim.group.members.values():
            is_revoking = member.current.state is MemberState.UNREVOKED_PARTITIONS
            assert is_revoking == bool(member.current.pending_revocation) or member.current.epoch == LEFT_FOR_NOW_EPOCH


TestConsumerGroup = ConsumerGroupMachine.TestCase
TestConsumerGroup.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
