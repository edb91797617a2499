"""What the coordinator reports: every transition with its cause, and what happened to members and offsets.

Events are facts for logs, history and metrics; nothing in the protocol depends on them. The CLI words them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from operator import attrgetter
from typing import Final, NamedTuple, TypedDict

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer.state import ConsumerGroupState, MemberState
from kshim.coordinator.groups.share.state import ShareGroupState
from kshim.coordinator.groups.streams.state import MemberState as StreamsMemberState
from kshim.coordinator.groups.streams.state import StreamsGroupState
from kshim.coordinator.step import Event, Now
from kshim.coordinator.value_object import ValueObject
from kshim_protocol.errors import ErrorCode

HISTORY_FIELDS: Final = frozenset(
    {
        "arrivals",
        "changes",
        "is_by_instance_id",
        "last_sync_ms",
        "last_to_sync",
        "next_state",
        "offer",
        "pending_sync_count",
        "promoted",
        "protocol_type",
        "revoked",
        "standby_received",
        "standby_revoked",
    }
)
"""Fields of events that only history needs; the log leaves them out."""


AnyGroupState = GroupState | ConsumerGroupState | ShareGroupState | StreamsGroupState
"""All print as Kafka's words."""

AnyMemberState = MemberState | StreamsMemberState
"""How far a member is; those of share groups are always Stable."""

TopicPartitions = tuple[tuple[str, int], ...]
"""(topic, partition) each; of streams groups (subtopology, partition), which is a task."""


class Cause(Enum):
    """Why a group changed its state, a member or offsets went. The vocabulary is fixed; history groups by it."""

    MEMBER_JOINED = "member-joined"
    MEMBER_LEFT = "member-left"
    SESSION_EXPIRED = "session-expired"
    REBALANCE_TIMEOUT = "rebalance-timeout"
    SYNC_TIMEOUT = "sync-timeout"
    INITIAL_DELAY_OVER = "initial-delay-over"
    LEADER_REJOINED = "leader-rejoined"
    METADATA_CHANGED = "metadata-changed"
    STATIC_MEMBER_REPLACED = "static-member-replaced"
    APPEND_FAILED = "append-failed"
    GROUP_TOO_LARGE = "group-too-large"
    ALL_JOINED = "all-joined"
    ASSIGNMENT_RECEIVED = "assignment-received"
    GROUP_DELETED = "group-deleted"
    TOPIC_DELETED = "topic-deleted"
    EXPIRED = "expired"
    ADMIN = "admin"
    SUBSCRIPTION_CHANGED = "subscription-changed"
    TOPICS_CHANGED = "topics-changed"
    SETTINGS_CHANGED = "settings-changed"
    STATE_INITIALIZED = "state-initialized"
    EXPRESSION_RESOLVED = "expression-resolved"
    RECONCILED = "reconciled"

    def __str__(self) -> str:
        return self.value


class MemberRef:
    """The member that an event concerns, as it was then. `client_reason` is the client's own text (KIP-800), verbatim.

    Compared by what it says. `rendered` is not part of that: a writer of events may cache the text of the member here.
    No `ValueObject`, as every member of a group has one, and this takes 200 bytes less.
    """

    __slots__ = ("client_host", "client_id", "client_reason", "group_instance_id", "member_id", "rendered")

    def __init__(
        self,
        *,
        member_id: str,
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        client_reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.client_reason = client_reason

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemberRef) and _said(self) == _said(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        said = zip(_MEMBER_FIELDS, _said(self), strict=True)
        return f"MemberRef({', '.join(f'{name}={value!r}' for name, value in said if value)})"


_MEMBER_FIELDS: Final = ("member_id", "group_instance_id", "client_id", "client_host", "client_reason")
_said = attrgetter(*_MEMBER_FIELDS)


class Arrivals(NamedTuple):
    """When the Joins of a rebalance came, in the order of the group; columns, since history keeps very many of them.

    `wait_ms` from the start of the rebalance; `is_new` has 1 for each member that entered in it. `told_ms`: when a heartbeat first
    told a member of it, by its id, for those that sent one.
    """

    members: tuple[MemberRef, ...]
    wait_ms: tuple[int, ...]
    is_new: bytes
    told_ms: Mapping[str, int] = {}


class Offer(NamedTuple):
    """What a JoinGroup of a consumer offers: its metadata by protocol, in the order of its preference.

    `before`: what the same member, or the one that it replaces, offered until then; None: it is new. Its timeouts are in ms.
    """

    protocols: Mapping[str, bytes]
    before: Mapping[str, bytes] | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds."""
        return sum(map(len, self.protocols.values()))


class Wish(NamedTuple):
    """What a member of the new protocol subscribes to by name, and the assignor it asks for; `before` as in `Offer`."""

    topics: tuple[str, ...]
    assignor: str | None
    before: tuple[str, ...] | None = None

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds."""
        return sum(map(len, self.topics))


class Trigger(ValueObject):
    """Why something is done: the cause, a sentence, the member that caused it, and what its JoinGroup offered."""

    cause: Cause
    detail: str
    member: MemberRef | None = None
    offer: Offer | Wish | None = None


class GroupEventFields(TypedDict):
    """What every event of a group says."""

    partition: int
    now: Now
    group_id: str
    generation_id: int


class GroupEvent(Event):
    """An event of one group, with the generation it is in."""

    group_id: str
    generation_id: int


class GroupWithEvents(ABC):
    """What a group of any kind has for its events: `**group.event(now)` are the fields that all of them have."""

    __slots__ = ()

    group_id: str
    partition: int

    @property
    @abstractmethod
    def epoch(self) -> int:
        """Its generation or group epoch."""

    @property
    def may_expire(self) -> bool:
        """Whether it goes when it is empty and has no offsets."""
        return True

    def event(self, now: Now) -> GroupEventFields:
        """The fields that every event of this group has: `MemberAdded(**group.event(now), ...)`."""
        return {"partition": self.partition, "now": now, "group_id": self.group_id, "generation_id": self.epoch}


class Transition(GroupEvent):
    """The group went from `previous` to `new`. `generation_id` is the one after the transition.

    `pending_sync_count`: members whose SyncGroup had not arrived when another rebalance began. `offer`: of the JoinGroup of a
    known member that caused it.
    """

    previous: AnyGroupState
    new: AnyGroupState
    cause: Cause
    detail: str
    member: MemberRef | None
    member_count: int
    protocol_type: str | None = None
    pending_sync_count: int = 0
    offer: Offer | Wish | None = None


class MemberIdIssued(GroupEvent):
    """A client without a member id was given one and asked to come again with it (KIP-394)."""

    state: AnyGroupState
    member: MemberRef


class MemberAdded(GroupEvent):
    """A member entered. `had_id` is True when it came with the id it was issued before.

    Its reason is then that of the JoinGroup that requested the id: the second only states that it was asked to rejoin.
    """

    state: AnyGroupState
    member: MemberRef
    had_id: bool
    offer: Offer | Wish | None = None


class MemberReplaced(GroupEvent):
    """A static member came back: `member` has the slot of `replaced_member_id`."""

    state: AnyGroupState
    member: MemberRef
    replaced_member_id: str
    offer: Offer | Wish | None = None


class MemberRemoved(GroupEvent):
    """A member, or an id that was issued but never used (`was_pending`), is no longer there.

    `is_by_instance_id`: LeaveGroup named it by instance id alone, as only administrators do. `revoked`: the partitions of a
    group of the new protocol that nobody has from now on.
    """

    state: AnyGroupState
    member: MemberRef
    cause: Cause
    was_pending: bool
    is_by_instance_id: bool = False
    revoked: TopicPartitions = ()


class EpochRaised(GroupEvent):
    """A group with epochs, which was in state `previous`, has a new one: another target has to be computed.

    `next_state` is its state then; None: Assigning, or Empty without members.
    """

    previous: AnyGroupState
    previous_epoch: int
    cause: Cause
    detail: str
    member: MemberRef | None
    member_count: int
    offer: Wish | None = None
    next_state: AnyGroupState | None = None


class TargetChange(NamedTuple):
    """How many partitions a new target takes from a member, and gives to it.

    Of a streams group: tasks that it has in no role any more, and tasks that it has in a role in which it did not have them.
    """

    member: MemberRef
    lost: int
    gained: int


class TargetComputed(GroupEvent):
    """There is a target for the epoch; `changes` are the members to whom it means something."""

    assignor: str
    changes: tuple[TargetChange, ...]


class MemberReconciled(GroupEvent):
    """A member has another current assignment (record type 8), at `epoch`; -2: it is static, and left for now.

    Partitions (topic, index): it is told to give up `to_revoke`, has given up `revoked`, and owns `received` from now on.
    Of a streams group: `to_revoke` are tasks in any role, the other two active ones. It keeps the state of `standby_received` for
    others from now on, and that of `standby_revoked` no more; that of the active tasks `promoted` it had kept already.
    """

    is_routine = True

    state: AnyGroupState
    member: MemberRef
    epoch: int
    previous: AnyMemberState
    new: AnyMemberState
    to_revoke: TopicPartitions
    revoked: TopicPartitions
    received: TopicPartitions
    standby_revoked: TopicPartitions = ()
    standby_received: TopicPartitions = ()
    promoted: TopicPartitions = ()


class MemberRefused(GroupEvent):
    """A request was refused with `error`, which changes nothing in the group.

    In groups with epochs a heartbeat came with an epoch or instance id that is not the member's. In classic groups it is the first
    request of a member since it was removed because nothing was heard of it (UNKNOWN_MEMBER_ID), or a JoinGroup: its `offer` has no
    protocol that all members have (INCONSISTENT_GROUP_PROTOCOL), or the group is full (GROUP_MAX_SIZE_REACHED).
    """

    state: AnyGroupState
    member: MemberRef
    error: ErrorCode
    detail: str
    offer: Offer | None = None


class RecordRange(NamedTuple):
    """Records next to each other, both offsets included, that were delivered equally often."""

    first_offset: int
    last_offset: int
    delivery_count: int


class DeliveryFailed(GroupEvent):
    """A member of a share group had records of a partition and was not done with them, or holds them for long: put together for a while.

    `reason` and `ended_by` are keywords of the history. So many records (`record_count`, each as often as it happened to it), at so
    many moments (`times`). `delivery_count` and `held_ms` are the highest. `ranges` are the first of them, without `omitted_count`.
    """

    is_routine = True

    state: AnyGroupState
    member: MemberRef
    reason: str
    ended_by: str | None
    topic_name: str
    topic_partition: int
    first_offset: int
    last_offset: int
    record_count: int
    times: int
    delivery_count: int
    held_ms: int
    lock_ms: int
    delivery_count_limit: int
    ranges: tuple[RecordRange, ...]
    omitted_count: int = 0


class LeaderReplaced(GroupEvent):
    """The leader was not back when the join phase ended: `member` leads now."""

    member: MemberRef
    previous_leader_id: str


class JoinCompleted(GroupEvent):
    """The join phase ended with members. `waits` is (member_id, ms parked) of each that was parked, in join order.

    `arrivals` are the same members, each with the time from the start of the rebalance to its first Join.
    """

    member_count: int
    leader_id: str
    protocol_name: str
    join_ms: int
    waits: tuple[tuple[str, int], ...]
    arrivals: Arrivals = Arrivals((), (), b"")


class AssignmentReceived(GroupEvent):
    """The leader's Sync arrived. `unassigned` are members it gave nothing at all."""

    member: MemberRef
    member_count: int
    static_member_count: int
    unassigned: tuple[str, ...]


class RebalanceCompleted(GroupEvent):
    """The group is Stable: time from the start of the rebalance to the last Join, and from there to the assignment.

    `last_to_sync` is whose Sync came last so far, `last_sync_ms` after the Joins; `pending_sync_count` have not come.
    """

    member_count: int
    join_ms: int
    sync_ms: int
    last_to_sync: MemberRef | None = None
    last_sync_ms: int = 0
    pending_sync_count: int = 0


class SyncCompleted(GroupEvent):
    """The group was Stable before every member had sent its Sync; now the last one has, `sync_ms` after the Joins."""

    member: MemberRef
    sync_ms: int


class GroupLoaded(GroupEvent):
    """A group came back from the log."""

    state: AnyGroupState
    member_count: int
    protocol_type: str | None = None


class GroupConverted(GroupEvent):
    """A group went over to another protocol, `classic` or `consumer`; its offsets stayed, and so did its members.

    `member_count` is how many it had before, those included that went with it.
    """

    from_kind: str
    to_kind: str
    member_count: int = 0


class AppendFailed(GroupEvent):
    """Records of the group could not be written: `error` is what the log said, `what` what was to be written."""

    error: ErrorCode
    what: str


class OffsetsRemoved(Event):
    """Committed offsets were forgotten: by expiry, or because their topics or groups were deleted."""

    cause: Cause
    group_count: int
    offset_count: int


class RecordsSkipped(Event):
    """The log holds `count` records of key type `key_type`, which this coordinator does not read."""

    key_type: int
    count: int
