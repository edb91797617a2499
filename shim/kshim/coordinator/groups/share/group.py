"""A share group: what its records say, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kshim.coordinator.deadlines import Deadlines, Key
from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.epoch_report import report_end
from kshim.coordinator.groups.events import GroupWithEvents, MemberRef, Trigger
from kshim.coordinator.groups.kinds import GroupKind, Pair, Places, Sender
from kshim.coordinator.groups.share.state import ShareGroupState
from kshim.coordinator.groups.share.updates import (
    Current,
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    PartitionStates,
    ShareUpdate,
    StatePartitions,
    TargetEpoch,
    build_share_update,
)
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.share_group import ShareGroupMemberMetadataValue

FIRST_EPOCH: Final = 1
"""Of a group that nobody has joined yet; its first member makes 2."""
JOIN_EPOCH: Final = 0
LEFT_EPOCH: Final = -1
SHARE_PROTOCOL_TYPE: Final = "share"
NOT_JOINED: Final = Current(JOIN_EPOCH, LEFT_EPOCH, frozenset())
"""Where a member is before its first heartbeat was answered."""
_LEFT: Final = Current(LEFT_EPOCH, LEFT_EPOCH, frozenset())
_NOTHING_SAID: Final = ShareGroupMemberMetadataValue(
    rack_id=None, client_id="", client_host="", subscribed_topic_names=()
)


class ShareMember(NamedTuple):
    """A member: what it is and wants, and where it is."""

    member_id: str
    metadata: ShareGroupMemberMetadataValue
    current: Current = NOT_JOINED

    def ref(self) -> MemberRef:
        """The member as events name it."""
        return MemberRef(
            member_id=self.member_id, client_id=self.metadata.client_id, client_host=self.metadata.client_host
        )


class ShareGroup(GroupWithEvents):
    """One group. `target_ms` is when the target was computed, in Unix time, 0 where that is not known."""

    kind: Final = GroupKind.SHARE
    protocol_type: Final = SHARE_PROTOCOL_TYPE

    def __init__(self, group_id: str, partition: int = 0) -> None:
        self.group_id = group_id
        self.partition = partition
        self.group_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH  # nobody is there, and nobody reads anything
        self.target_ms = 0
        self.topics_version: int | None = None  # of the topics with which the hash was last compared; in no record
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, frozenset[TopicPartition]] = {}
        self.states = StatePartitions()
        self.has_states_record = False  # it says of `states`, perhaps that there are none any more
        self.being_initialized: frozenset[TopicPartition] = frozenset()  # by a request on its way; in no record

    def draft(self) -> ShareGroup:
        """The group as it is now, to be changed without changing this one."""
        copy = ShareGroup(self.group_id, self.partition)
        copy.group_epoch = self.group_epoch
        copy.metadata_hash = self.metadata_hash
        copy.target_epoch = self.target_epoch
        copy.target_ms = self.target_ms
        copy.members = dict(self.members)
        copy.targets = dict(self.targets)
        copy.states = self.states
        copy.has_states_record = self.has_states_record
        return copy

    def subscribed_names(self) -> frozenset[str]:
        """All names to which somebody subscribes."""
        return frozenset(name for member in self.members.values() for name in member.metadata.subscribed_topic_names)

    def require_member(self, member_id: str) -> ShareMember:
        """The member. Raises KafkaError: UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def ends_initializing(self, places: frozenset[TopicPartition]) -> None:
        """A request for the state of partitions is over; if some have none, the next heartbeat looks at everything again."""
        self.being_initialized -= places
        if not places <= self.states.are_initialized():
            self.topics_version = None

    # As a group of any kind: see `AnyGroup`

    @property
    def state(self) -> ShareGroupState:
        """Whether it has members."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def epoch(self) -> int:
        """Its group epoch."""
        return self.group_epoch

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """Whether it may be deleted."""
        return not self.members

    @property
    def may_expire(self) -> bool:
        """Share groups stay until they are deleted."""
        return False

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to `topic`."""
        return topic in self.subscribed_names()

    def offsets_expire_from_ms(self) -> int | None:
        """It has no offsets of this kind."""
        return None

    def require_may_commit(self, sender: Sender, places: Places) -> None:
        """Share groups have no committed offsets. Raises KafkaError: GROUP_ID_NOT_FOUND."""
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)

    def require_may_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """There is nothing to be found, which is no error."""

    def has_committed(self, member_id: str, deadlines: Deadlines, now: Now) -> None:
        """It never does."""

    def tombstones(self) -> list[Pair]:
        """The records that end the group, which is empty."""
        ends: list[ShareUpdate] = [TargetEpoch(None), PartitionStates(None), GroupEpoch(None)]
        return [build_share_update(self.group_id, update) for update in ends]

    def has_ended(self, trigger: Trigger, now: Now, step: Step) -> None:
        """Its tombstones are in the log."""
        report_end(self, ShareGroupState.DEAD, trigger, now, step)

    def deadline_keys(self) -> Iterable[Key]:
        """The keys of all deadlines that it may have."""
        for member_id in self.members:
            yield ("session", self.group_id, member_id)

    # What records mean

    def apply(self, update: ShareUpdate) -> None:
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
                    self.members.pop(member_id, None)
                else:
                    member = self.members.get(member_id, ShareMember(member_id, metadata))
                    self.members[member_id] = member._replace(metadata=metadata)
            case MemberTarget(member_id, partitions):
                if partitions is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = partitions
            case MemberCurrent(member_id, current):
                found = self.members.get(member_id)
                if found is None and current is not None:  # compaction: what it wants stands behind it
                    found = ShareMember(member_id, _NOTHING_SAID)
                if found is not None:
                    self.members[member_id] = found._replace(current=current or _LEFT)
            case PartitionStates(states):
                self.states = states or StatePartitions()
                self.has_states_record = states is not None
