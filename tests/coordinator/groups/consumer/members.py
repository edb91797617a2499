"""A group of the new protocol with its members, as far as they exist without the broker: what the tests talk to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.consumer.plan import Plan
from kshim.coordinator.groups.consumer.reconciliation import Owned, require_epoch
from kshim.coordinator.groups.consumer.updates import build_update, parse_update
from kshim.coordinator.groups.events import Cause, Trigger
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.consumer_group import ConsumerGroupMemberMetadataValue

INTERVAL_MS = 1_000
TRIGGER = Trigger(cause=Cause.METADATA_CHANGED, detail="a test")


class Topics:
    """The topics that exist: (id, number of partitions) by name."""

    def __init__(self, **counts: int) -> None:
        self._made = 0
        self.found: dict[str, tuple[bytes, int]] = {}
        for name, count in counts.items():
            self.make(name, count)

    def make(self, name: str, count: int) -> None:
        self._made += 1
        self.found[name] = self._made.to_bytes(16), count

    @property
    def version(self) -> int:
        return hash(tuple(self.found.items()))

    def topic_id(self, name: str) -> bytes | None:
        return self.found[name][0] if name in self.found else None

    def partition_count(self, name: str) -> int | None:
        return self.found[name][1] if name in self.found else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, (found, _) in self.found.items() if found == topic_id), None)


def wants(
    *topics: str, instance_id: str | None = None, assignor: str | None = None, timeout_ms: int = 5_000
) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=instance_id,
        rack_id=None,
        client_id="client",
        client_host="/127.0.0.1",
        subscribed_topic_names=topics,
        subscribed_topic_regex="",
        rebalance_timeout_ms=timeout_ms,
        server_assignor=assignor,
        classic_member_metadata=None,
    )


class GroupSim:
    """A group, its log, and time. Each input is planned, written and applied, as the coordinator will do it."""

    def __init__(self, **topics: int) -> None:
        self.topics = Topics(**topics)
        self.group = ConsumerGroup("g")
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.fails_next = False

    def change(self, plan_it: Callable[[Plan], None]) -> bool:
        """Whether the append was written; a plan of nothing needs none."""
        plan = Plan(self.group)
        plan_it(plan)
        assert counted(plan.group) == recounted(plan.group)
        if plan.updates and self.fails_next:
            self.fails_next = False
            return False
        for update in plan.updates:
            self.log.append(build_update("g", update))
            self.group.apply(update)
        return True

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: Owned,
        metadata: ConsumerGroupMemberMetadataValue | None = None,
    ) -> tuple[int, frozenset[TopicPartition]]:
        """(epoch, assigned) of the answer. Epoch 0 joins. Raises KafkaError as the coordinator answers it."""

        def plan_it(plan: Plan) -> None:
            if metadata is not None:
                old_id = self.group.static_members.get(metadata.instance_id or "", member_id)
                if old_id != member_id:
                    plan.take_over(old_id, member_id, TRIGGER)
                plan.put_member(member_id, metadata, TRIGGER)
            plan.compute_target(self.topics, self.now_ms, INTERVAL_MS)
            plan.reconcile(member_id, owned, self.topics)

        if epoch:
            require_epoch(self.group.require_member(member_id).current, epoch, owned)
        if not self.change(plan_it):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        current = self.group.require_member(member_id).current
        return current.epoch, frozenset(current.assigned)

    def join(self, member_id: str, metadata: ConsumerGroupMemberMetadataValue) -> tuple[int, frozenset[TopicPartition]]:
        return self.heartbeat(member_id, 0, owned=(), metadata=metadata)

    def remove(self, member_id: str) -> None:
        self.change(lambda plan: plan.remove_members({member_id: TRIGGER}))

    def pass_interval(self) -> None:
        self.now_ms += INTERVAL_MS

    def replayed(self, log: list[tuple[bytes, bytes | None]] | None = None) -> ConsumerGroup:
        """The group that comes back from the log."""
        group = ConsumerGroup("g")
        for key, value in self.log if log is None else log:
            found = parse_update(key, value)
            assert found is not None
            group.apply(found[1])
        return group

    def compacted(self) -> list[tuple[bytes, bytes | None]]:
        """The last record of each key."""
        last = {key: place for place, (key, _) in enumerate(self.log)}
        return [record for place, record in enumerate(self.log) if last[record[0]] == place]


def counted(group: ConsumerGroup) -> tuple[object, ...]:
    """What a group counts of its members: how many want or are what."""
    return (
        dict(group.name_members),
        dict(group.assignor_members),
        dict(group.expression_members),
        dict(group.members_at),
    )


def recounted(group: ConsumerGroup) -> tuple[object, ...]:
    """The same, of the members one by one."""
    members = group.members.values()
    wishes = [member.metadata for member in members]
    return (
        Counter(name for wish in wishes for name in wish.subscribed_topic_names),
        Counter(wish.server_assignor for wish in wishes if wish.server_assignor is not None),
        Counter(wish.subscribed_topic_regex for wish in wishes if wish.subscribed_topic_regex),
        Counter((member.current.epoch, member.current.state) for member in members),
    )


def facts(group: ConsumerGroup) -> tuple[object, ...]:
    """All that a group is, to be compared."""
    return (
        group.group_epoch,
        group.metadata_hash,
        group.target_epoch,
        group.target_ms,
        dict(group.members),
        dict(group.static_members),
        dict(group.targets),
        dict(group.holders),
    )
