"""What a group of any kind can be asked: offsets, admin APIs, expiry and loading work with nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from kshim.coordinator.deadlines import Deadlines, Key
    from kshim.coordinator.groups.events import AnyGroupState, GroupConverted, GroupEventFields, Trigger
    from kshim.coordinator.step import Now, Step

CONSUMER_PROTOCOL_TYPE = "consumer"
"""Protocol type of groups whose metadata is the embedded consumer protocol, and of all groups of the new protocol."""

Pair = tuple[bytes, bytes | None]
"""Key and value of a record; a value of None is a tombstone."""


class GroupKind(Enum):
    """By the protocol of the members; the value is Kafka's group type in ListGroups, in lower case."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


def converted(group: AnyGroup, kind: GroupKind, now: Now) -> GroupConverted:
    """The event of a group that becomes one of another kind."""
    from kshim.coordinator.groups.events import GroupConverted

    return GroupConverted(
        **group.event(now), from_kind=group.kind.value, to_kind=kind.value, member_count=group.member_count
    )


class Sender(NamedTuple):
    """Who commits offsets. `epoch` is a generation id or a member epoch, -1 when the sender has none."""

    member_id: str
    group_instance_id: str | None
    epoch: int
    api_version: int
    is_transactional: bool


class Place(NamedTuple):
    """A partition of a commit."""

    topic: str
    topic_id: bytes
    partition: int


Places = Callable[[], Iterable[Place]]
"""The partitions of a commit, for those who have to look at each."""


class AnyGroup(Protocol):
    """A group, no matter of which kind."""

    @property
    def group_id(self) -> str:
        """Its name."""

    @property
    def kind(self) -> GroupKind:
        """Of which kind it is."""

    @property
    def state(self) -> AnyGroupState:
        """Its state; the value is Kafka's word for it."""

    @property
    def protocol_type(self) -> str | None:
        """What its members speak; None when that was never said."""

    @property
    def epoch(self) -> int:
        """Its generation or group epoch."""

    @property
    def member_count(self) -> int:
        """How many members it has."""

    @property
    def is_empty(self) -> bool:
        """Whether it may be deleted."""

    def event(self, now: Now) -> GroupEventFields:
        """The fields that every event of this group has."""

    @property
    def may_expire(self) -> bool:
        """Whether it goes when it is empty and has no offsets."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to `topic`, so that its offsets are in use."""

    def offsets_expire_from_ms(self) -> int | None:
        """Since when offsets that are not in use count as unused (Unix time); -1: since their commit; None: never."""

    def require_may_commit(self, sender: Sender, places: Places) -> None:
        """Raises KafkaError when the sender may not commit these partitions."""

    def require_may_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises KafkaError when the sender of an OffsetFetch (v9+) is not who it says it is."""

    def has_committed(self, member_id: str, deadlines: Deadlines, now: Now) -> None:
        """A commit of this member was accepted."""

    def tombstones(self) -> list[Pair]:
        """The records that end the group. Its offsets have their own."""

    def has_ended(self, trigger: Trigger, now: Now, step: Step) -> None:
        """The tombstones of the group, which is empty, are in the log: report it."""

    def deadline_keys(self) -> Iterable[Key]:
        """The keys of all deadlines that it may have."""
