"""A group of the new protocol: what its records say, and nothing else.

Changes are planned on a draft (`plan.py`) and applied to the group when they are in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Final, Generic, NamedTuple, TypeVar, overload

from kshim.coordinator.deadlines import Deadlines, Key
from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.expressions import Asked
from kshim.coordinator.groups.consumer.reconciliation import Current
from kshim.coordinator.groups.consumer.state import ConsumerGroupState, MemberState, state_of
from kshim.coordinator.groups.consumer.updates import (
    ExpressionTopics,
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    Resolved,
    TargetEpoch,
    Update,
    build_update,
)
from kshim.coordinator.groups.epoch_report import report_end
from kshim.coordinator.groups.events import GroupWithEvents, MemberRef, Trigger
from kshim.coordinator.groups.kinds import CONSUMER_PROTOCOL_TYPE, GroupKind, Pair, Places, Sender
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.consumer_group import ConsumerGroupMemberMetadataValue
from kshim_protocol.internal.record_types import RECORD_TYPES, build_key_of_texts

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

FIRST_EPOCH: Final = 1
"""Of a group that nobody has joined yet; the first member of a new group gets epoch 2 on a live 4.4."""
JOIN_EPOCH: Final = 0
"""The epoch that a member sends when it joins, or joins again."""
LEFT_EPOCH: Final = -1
LEFT_FOR_NOW_EPOCH: Final = -2
"""The epoch of a static member that said it will be back."""
_LEFT: Final = Current(LEFT_EPOCH, LEFT_EPOCH)
_MEMBER_EPOCHS_SINCE: Final = 9
"""The version of OffsetCommit that can say a member epoch."""
TIMERS: Final = ("session", "rebalance", "join", "sync")
"""The deadlines that a member may have; the last two are of members that speak the classic protocol."""
_PARTITION_METADATA: Final = 4
"""A record type that is only ended, since Kafka 4.1: what it said is a hash in the group's own record now."""
_NOTHING_SAID: Final = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=(),
    subscribed_topic_regex="",
    rebalance_timeout_ms=-1,
    server_assignor=None,
    classic_member_metadata=None,
)


class Member(NamedTuple):
    """A member: what it is and wants, and where it is."""

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue
    current: Current = Current()

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.metadata.classic_member_metadata is not None

    def ref(self, client_reason: str | None = None) -> MemberRef:
        """The member as events name it."""
        metadata = self.metadata
        return MemberRef(
            member_id=self.member_id,
            group_instance_id=metadata.instance_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            client_reason=client_reason,
        )


NOT_JOINED_YET: Final = Member("", _NOTHING_SAID)
"""What a member is before it has said anything."""


class ConsumerGroup(GroupWithEvents):
    """One group. `holders` has the member in whose hands a partition is, assigned or pending revocation.

    `target_ms` is when the target was computed, in Unix time, 0 where that is not known. How many members want or are what
    is counted as they change, so that no heartbeat has to look at all of them.
    """

    kind: Final = GroupKind.CONSUMER
    protocol_type: Final = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str, partition: int = 0) -> None:
        self.group_id = group_id
        self.partition = partition
        self.group_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH  # there is nothing to assign to nobody
        self.target_ms = 0
        self.topics_version = -1  # of the topics with which the hash was last compared; in no record
        self.members: MutableMapping[str, Member] = {}
        self.static_members: MutableMapping[str, str] = {}  # group instance id -> member id
        self.targets: MutableMapping[str, frozenset[TopicPartition]] = {}
        self.holders: MutableMapping[TopicPartition, str] = {}
        self.expressions: MutableMapping[str, Resolved] = {}
        self.expression_members: MutableMapping[str, int] = {}  # how many use each expression, resolved or not
        self.name_members: MutableMapping[str, int] = {}  # how many subscribe to each topic by its name
        self.assignor_members: MutableMapping[str, int] = {}  # how many ask for each assignor
        self.members_at: MutableMapping[tuple[int, MemberState], int] = {}  # how many are in each epoch and state
        self.asked = Asked()

    def draft(self) -> ConsumerGroup:
        """The group as it is now, to be changed without changing this one. This one must not change meanwhile."""
        copy = ConsumerGroup(self.group_id, self.partition)
        copy.group_epoch = self.group_epoch
        copy.metadata_hash = self.metadata_hash
        copy.target_epoch = self.target_epoch
        copy.target_ms = self.target_ms
        copy.members = Draft(self.members)
        copy.static_members = Draft(self.static_members)
        copy.targets = Draft(self.targets)
        copy.holders = Draft(self.holders)
        copy.expressions = Draft(self.expressions)
        copy.expression_members = Draft(self.expression_members)
        copy.name_members = Draft(self.name_members)
        copy.assignor_members = Draft(self.assignor_members)
        copy.members_at = Draft(self.members_at)
        return copy

    # Questions

    @property
    def state(self) -> ConsumerGroupState:
        """What follows from the epochs."""
        return state_of(group_epoch=self.group_epoch, target_epoch=self.target_epoch, members=self.members_at)

    def require_member(self, member_id: str) -> Member:
        """The member. Raises KafkaError: UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member of the classic protocol with these may join: one name that all others of its kind offer."""
        classic = [
            {protocol.name for protocol in member.metadata.classic_member_metadata.supported_protocols}
            for member in self.members.values()
            if member.metadata.classic_member_metadata is not None
        ]
        return protocol_type == CONSUMER_PROTOCOL_TYPE and bool(set(names).intersection(*classic))

    def is_free(self, partition: TopicPartition) -> bool:
        """Whether a partition is in nobody's hands."""
        return partition not in self.holders

    # As a group of any kind: see `AnyGroup`

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

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to `topic`, by name or by an expression."""
        return topic in self.name_members or any(topic in found.topics for found in self.expressions.values())

    def offsets_expire_from_ms(self) -> int | None:
        """Offsets of topics to which nobody subscribes expire at any time, counted from their commit."""
        return -1

    def require_may_commit(self, sender: Sender, places: Places) -> None:
        """A commit of an older epoch is taken when all its partitions have been the member's since.

        Raises KafkaError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION for members of
        the classic protocol). Source: Kafka's ConsumerGroup.validateOffsetCommit.
        """
        member_id, group_instance_id, epoch, api_version, is_transactional = sender
        if epoch < 0 and not self.members:
            return
        if is_transactional and epoch < 0 and not member_id and group_instance_id is None:
            return
        member = self.require_member(member_id)
        if not is_transactional and not member.is_classic and api_version < _MEMBER_EPOCHS_SINCE:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        current = member.current
        if epoch == current.epoch:
            return
        if epoch < current.epoch and all(
            current.held_since((place.topic_id, place.partition), default=epoch + 1) <= epoch for place in places()
        ):
            return
        raise KafkaError(_wrong_epoch(member))

    def require_may_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION for classic members).

        UNKNOWN_SERVER_ERROR, as in Kafka, where an epoch comes without a member id.
        """
        if member_id is None:
            if member_epoch < 0:
                return
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        member = self.require_member(member_id)
        if member_epoch != member.current.epoch:
            raise KafkaError(_wrong_epoch(member))

    def has_committed(self, member_id: str, deadlines: Deadlines, now: Now) -> None:
        """Only heartbeats keep members alive."""

    def tombstones(self) -> list[Pair]:
        """The records that end the group, in Kafka's order."""
        members = list(self.members)
        ends: list[Update] = [MemberCurrent(member_id, None) for member_id in members]
        ends += [MemberTarget(member_id, None) for member_id in members]
        ends.append(TargetEpoch(None))
        ends += [MemberMetadata(member_id, None) for member_id in members]
        ends += [ExpressionTopics(expression, None) for expression in self.expressions]
        pairs = [build_update(self.group_id, update) for update in ends]
        pairs.append((build_key_of_texts(RECORD_TYPES[_PARTITION_METADATA], self.group_id), None))
        return [*pairs, build_update(self.group_id, GroupEpoch(None))]

    def has_ended(self, trigger: Trigger, now: Now, step: Step) -> None:
        """Its tombstones are in the log."""
        report_end(self, ConsumerGroupState.DEAD, trigger, now, step)

    def deadline_keys(self) -> Iterable[Key]:
        """The keys of all deadlines that it may have."""
        for member_id in self.members:
            for name in TIMERS:
                yield (name, self.group_id, member_id)

    # What records mean

    def apply(self, update: Update) -> None:
        """A record of the group, in the order of the log. A group that is gone is forgotten by its shard."""
        match update:
            case MemberCurrent(member_id, current):  # the most frequent first
                self._put_current(member_id, current)
            case GroupEpoch(value):
                if value is not None:
                    self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash
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
            case TargetEpoch(value):
                self.target_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
                self.target_ms = 0 if value is None else value.assignment_timestamp
            case ExpressionTopics(expression, resolved):
                if resolved is None:
                    self.expressions.pop(expression, None)
                else:
                    self.expressions[expression] = resolved

    def _put_member(self, member_id: str, metadata: ConsumerGroupMemberMetadataValue) -> None:
        before = self.members.get(member_id)
        if before is None:
            member = self.members[member_id] = Member(member_id, metadata)
            _count(self.members_at, member.current.place, 1)
        else:
            self.members[member_id] = before._replace(metadata=metadata)
            self._forget_instance(before)
            self._count_wish(before.metadata, -1)
        self._count_wish(metadata, 1)
        if metadata.instance_id is not None:
            self.static_members[metadata.instance_id] = member_id

    def _forget_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        self._forget_instance(member)
        self._count_wish(member.metadata, -1)
        _count(self.members_at, member.current.place, -1)

    def _forget_instance(self, member: Member) -> None:
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _put_current(self, member_id: str, current: Current | None) -> None:
        member = self.members.get(member_id)
        if member is None:
            if current is None:
                return
            # Compaction: what the member wants was written again, so it stands behind what it owns.
            member = Member(member_id, _NOTHING_SAID)
        else:
            _count(self.members_at, member.current.place, -1)
        after = current or _LEFT
        self.members[member_id] = Member(member_id, member.metadata, after)
        _count(self.members_at, after.place, 1)
        in_hands = after.in_hands()
        if in_hands != member.current.in_hands():
            self._release(member)
            for partition in in_hands:
                self.holders[partition] = member_id

    def _count_wish(self, metadata: ConsumerGroupMemberMetadataValue, by: int) -> None:
        for name in metadata.subscribed_topic_names:
            _count(self.name_members, name, by)
        if metadata.subscribed_topic_regex:
            _count(self.expression_members, metadata.subscribed_topic_regex, by)
        if metadata.server_assignor is not None:
            _count(self.assignor_members, metadata.server_assignor, by)

    def _release(self, member: Member) -> None:
        for partition in member.current.in_hands():
            if self.holders.get(partition) == member.member_id:
                del self.holders[partition]


def _wrong_epoch(member: Member) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def _count(members: MutableMapping[K, int], key: K, by: int) -> None:
    """So many members more, or less, for `key`, which is not in there when they are none."""
    count = members.get(key, 0) + by
    if count:
        members[key] = count
    else:
        del members[key]


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

    def __contains__(self, key: object) -> bool:  # that of Mapping raises and catches a KeyError for what is not there
        return key in self._changed or (key not in self._gone and key in self._base)

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V) -> V: ...
    @overload
    def get(self, key: K, /, default: D) -> V | D: ...
    def get(self, key: K, /, default: object = None) -> object:
        """As that of a dict."""
        if key in self._changed:
            return self._changed[key]
        return default if key in self._gone else self._base.get(key, default)

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
        return len(self._base) - len(self._gone) + sum(key not in self._base for key in self._changed)
