"""A group of the new protocol: what its records say, and nothing else.

Changes are planned on a draft (`plan.py`) and applied to the group when they are in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Final, Generic, NamedTuple, TypeVar

from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.reconciliation import Current
from kshim.coordinator.groups.consumer.state import ConsumerGroupState, state_of
from kshim.coordinator.groups.consumer.updates import (
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    TargetEpoch,
    Update,
)
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.consumer_group import ConsumerGroupMemberMetadataValue

K = TypeVar("K")
V = TypeVar("V")

FIRST_EPOCH: Final = 1
"""Of a group that nobody has joined yet; the first member of a new group gets epoch 2 on a live 4.4."""
LEFT_EPOCH: Final = -1
LEFT_FOR_NOW_EPOCH: Final = -2
"""The epoch of a static member that said it will be back."""
_LEFT: Final = Current(LEFT_EPOCH, LEFT_EPOCH)
_NOT_READ_YET: Final = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=(),
    subscribed_topic_regex=None,
    server_assignor=None,
    classic_member_metadata=None,
)


class Member(NamedTuple):
    """A member: what it is and wants, and where it is."""

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue
    current: Current = Current()


class ConsumerGroup:
    """One group. `holders` has the member in whose hands a partition is, assigned or pending revocation.

    `target_ms` is when the target was computed, in Unix time, 0 where that is not known.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_ms = 0
        self.members: MutableMapping[str, Member] = {}
        self.static_members: MutableMapping[str, str] = {}  # group instance id -> member id
        self.targets: MutableMapping[str, frozenset[TopicPartition]] = {}
        self.holders: MutableMapping[TopicPartition, str] = {}

    def draft(self) -> ConsumerGroup:
        """The group as it is now, to be changed without changing this one. This one must not change meanwhile."""
        copy = ConsumerGroup(self.group_id)
        copy.group_epoch = self.group_epoch
        copy.metadata_hash = self.metadata_hash
        copy.target_epoch = self.target_epoch
        copy.target_ms = self.target_ms
        copy.members = Draft(self.members)
        copy.static_members = Draft(self.static_members)
        copy.targets = Draft(self.targets)
        copy.holders = Draft(self.holders)
        return copy

    # Questions

    @property
    def state(self) -> ConsumerGroupState:
        """What follows from the epochs."""
        return state_of(
            group_epoch=self.group_epoch,
            target_epoch=self.target_epoch,
            members=((member.current.epoch, member.current.state) for member in self.members.values()),
        )

    def require_member(self, member_id: str) -> Member:
        """The member. Raises KafkaError: UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def is_free(self, partition: TopicPartition) -> bool:
        """Whether a partition is in nobody's hands."""
        return partition not in self.holders

    # What records mean

    def apply(self, update: Update) -> None:
        """A record of the group, in the order of the log. A group that is gone is forgotten by its shard."""
        match update:
            case GroupEpoch(value):
                if value is not None:
                    self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case TargetEpoch(value):
                self.target_epoch = 0 if value is None else value.assignment_epoch
                self.target_ms = 0 if value is None else value.assignment_timestamp
            case MemberMetadata(member_id, metadata):
                if metadata is None:
                    self._forget_member(member_id)
                else:
                    self._put_member(member_id, metadata)
            case MemberTarget(member_id, partitions):
                if partitions is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = partitions
            case MemberCurrent(member_id, current):
                self._put_current(member_id, current)

    def _put_member(self, member_id: str, metadata: ConsumerGroupMemberMetadataValue) -> None:
        before = self.members.get(member_id)
        if before is None:
            self.members[member_id] = Member(member_id, metadata)
        else:
            self.members[member_id] = before._replace(metadata=metadata)
        if metadata.instance_id is not None:
            self.static_members[metadata.instance_id] = member_id

    def _forget_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def _put_current(self, member_id: str, current: Current | None) -> None:
        member = self.members.get(member_id)
        if member is None:
            if current is None:
                return
            # Compaction: what the member wants was written again, so it stands behind what it owns.
            member = Member(member_id, _NOT_READ_YET)
        self._release(member)
        member = self.members[member_id] = member._replace(current=current or _LEFT)
        for partition in (*member.current.assigned, *member.current.pending_revocation):
            self.holders[partition] = member_id

    def _release(self, member: Member) -> None:
        for partition in (*member.current.assigned, *member.current.pending_revocation):
            if self.holders.get(partition) == member.member_id:
                del self.holders[partition]


class Draft(MutableMapping[K, V], Generic[K, V]):
    """A mapping with changes of its own over another one, which stays as it is."""

    def __init__(self, base: MutableMapping[K, V]) -> None:
        self._base = base
        self._changed: dict[K, V] = {}
        self._gone: set[K] = set()

    def __getitem__(self, key: K) -> V:
        if key in self._changed:
            return self._changed[key]
        if key in self._gone:
            raise KeyError(key)
        return self._base[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._changed[key] = value
        self._gone.discard(key)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._changed.pop(key, None)
        if key in self._base:
            self._gone.add(key)

    def __iter__(self) -> Iterator[K]:
        for key in self._base:
            if key not in self._gone:
                yield key
        for key in self._changed:
            if key not in self._base:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)
