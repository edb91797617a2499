"""A classic group: its members, vote, leader, generation and the requests parked in it.

Here stand the facts and what can be said of one group alone. What follows from them (timers, replies, records) is in
`rebalance.py` and the modules of the APIs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from kshim.coordinator.deadlines import Deadlines, Key
from kshim.coordinator.groups.classic.member import Member, ParkedJoin, ParkedSync
from kshim.coordinator.groups.classic.state import VALID_PREVIOUS, GroupState
from kshim.coordinator.groups.classic.subscriptions import subscribed_topics
from kshim.coordinator.groups.events import GroupWithEvents, MemberRef, Transition, Trigger
from kshim.coordinator.groups.kinds import CONSUMER_PROTOCOL_TYPE, GroupKind, Pair, Places, Sender
from kshim.coordinator.step import Now, Step
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.group_metadata import GroupMetadataValue, MemberMetadata
from kshim_protocol.internal.records import (
    build_group_metadata_key,
    build_group_metadata_value,
    build_member_metadata,
    join_group_metadata_value,
)
from kshim_protocol.messages.join_group import JoinGroupResponseMember

V = TypeVar("V")


class InitialDelay:
    """The wait of a group that was Empty for further members (group.initial.rebalance.delay.ms).

    `remaining_ms` is how much longer it may be extended, `has_new_member` whether a member has joined meanwhile.
    """

    __slots__ = ("delay_ms", "has_new_member", "remaining_ms")

    def __init__(self, delay_ms: int, remaining_ms: int) -> None:
        self.delay_ms = delay_ms
        self.remaining_ms = remaining_ms
        self.has_new_member = False


class _Nothing(dict[str, Any]):
    """An empty dict that stays so. A group that rests has several of them: one for all groups costs no memory."""

    __slots__ = ()

    def __setitem__(self, key: str, value: object) -> None:
        raise TypeError("this dict is shared, and stays empty")


NOTHING: Final[dict[str, Any]] = _Nothing()
NOBODY: Final[frozenset[str]] = frozenset()


def with_entry(entries: dict[str, V], key: str, value: V) -> dict[str, V]:
    """`entries` with another one; a new dict only instead of `NOTHING`."""
    if entries is NOTHING:
        return {key: value}
    entries[key] = value
    return entries


class Group(GroupWithEvents):
    """One group. `members` and `pending_joins` are in the order of arrival.

    `pending_joins`: ids that were issued and not yet used. `pending_syncs`: members that have not sent their Sync in
    this generation. `state_changed_ms` is Unix time, -1 unknown. `topics`: what the members subscribe to, None when
    the group is no consumer group or its metadata cannot be read.
    """

    __slots__ = (  # there may be very many, and it saves a fifth of their memory
        "generation_id",
        "group_id",
        "initial_delay",
        "join_completed_ms",
        "leader_id",
        "lost_ids",
        "members",
        "parked_joins",
        "parked_syncs",
        "partition",
        "pending_joins",
        "pending_syncs",
        "protocol_name",
        "protocol_type",
        "rebalance_started_ms",
        "records_of_members",
        "state",
        "state_changed_ms",
        "static_members",
        "supporters",
        "told_ms",
        "topics",
    )

    kind: Final = GroupKind.CLASSIC

    def __init__(self, group_id: str, partition: int, state: GroupState = GroupState.EMPTY) -> None:
        self.group_id = group_id
        self.partition = partition
        self.state = state
        self.state_changed_ms = -1
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = NOTHING  # group instance id -> member id
        self.supporters: dict[str, int] = {}  # protocol name -> members that offer it
        self.pending_joins: dict[str, MemberRef] = NOTHING
        self.pending_syncs: set[str] | frozenset[str] = NOBODY
        self.parked_joins: dict[str, ParkedJoin] = NOTHING
        self.parked_syncs: dict[str, ParkedSync] = NOTHING
        self.initial_delay: InitialDelay | None = None
        self.topics: frozenset[str] | None = None
        self.records_of_members: dict[str, bytes] | None = None  # as they stand in the group's record, in this Stable
        self.rebalance_started_ms = 0  # monotonic
        self.join_completed_ms = 0  # monotonic
        self.lost_ids: dict[str, None] = NOTHING
        """Ids of members that were removed because nothing was heard of them, and of which nothing has been heard since; the newest."""
        self.told_ms: dict[str, int] | None = None
        """When a heartbeat of each member first told it of the rebalance that is prepared (monotonic); None: of none."""

    # State

    def move_to(self, new: GroupState, *, trigger: Trigger, now: Now, step: Step) -> None:
        """Change the state; the only place that does. AssertionError when the table forbids it."""
        previous = self.state
        assert previous in VALID_PREVIOUS[new], f"{self.group_id}: {previous} -> {new}"
        self.state = new
        self.state_changed_ms = now.wall_ms
        self.records_of_members = None
        step.events.append(
            Transition(
                **self.event(now),
                previous=previous,
                new=new,
                cause=trigger.cause,
                detail=trigger.detail,
                member=trigger.member,
                member_count=len(self.members),
                protocol_type=self.protocol_type,
                pending_sync_count=len(self.pending_syncs),
                offer=trigger.offer,
            )
        )

    @property
    def is_consumer_group(self) -> bool:
        """Whether members speak the embedded consumer protocol."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members'; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def join_key(self) -> Key:
        """Of the deadline of its join phase."""
        return ("join", self.group_id)

    @property
    def sync_key(self) -> Key:
        """Of the deadline of its sync phase."""
        return ("sync", self.group_id)

    @property
    def has_everybody_joined(self) -> bool:
        """Whether every member is parked in JoinGroup and no member id is pending."""
        return len(self.parked_joins) == len(self.members) and not self.pending_joins

    # As a group of any kind: see `AnyGroup`

    @property
    def epoch(self) -> int:
        """Its generation."""
        return self.generation_id

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """Whether it may be deleted."""
        return self.state is GroupState.EMPTY

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to `topic`; also True for a consumer group whose metadata cannot be read."""
        return self.is_consumer_group if self.topics is None else topic in self.topics

    def offsets_expire_from_ms(self) -> int | None:
        """While members consume, offsets expire only where it can be told that nobody subscribes to their topics."""
        if self.protocol_type is None:
            return -1
        if self.is_empty:
            return self.state_changed_ms
        is_consuming = self.is_consumer_group and self.topics is not None and self.state is GroupState.STABLE
        return -1 if is_consuming else None

    def require_may_commit(self, sender: Sender, places: Places) -> None:
        """Transactional clients from before KIP-447 do not identify themselves, which is accepted in every state.

        Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, and REBALANCE_IN_PROGRESS unless it
        is transactional.
        """
        member_id, group_instance_id, generation_id, _, is_transactional = sender
        if is_transactional and generation_id < 0 and not member_id and group_instance_id is None:
            return
        if generation_id >= 0 or self.state is not GroupState.EMPTY:
            self.require_member(member_id, group_instance_id)
            self.require_generation(generation_id)
        if self.state is GroupState.COMPLETING_REBALANCE and not is_transactional:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def require_may_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Everybody may."""

    def has_committed(self, member_id: str, deadlines: Deadlines, now: Now) -> None:
        """A commit is as good as a heartbeat."""
        if self.state is not GroupState.EMPTY:
            member = self.members[member_id]
            deadlines.set(member.session_key, now.mono_ms + member.session_timeout_ms)

    def tombstones(self) -> list[Pair]:
        """The record that ends the group."""
        return [(build_group_metadata_key(self.group_id), None)]

    def has_ended(self, trigger: Trigger, now: Now, step: Step) -> None:
        """Its tombstone is in the log."""
        self.move_to(GroupState.DEAD, trigger=trigger, now=now, step=step)

    def deadline_keys(self) -> Iterable[Key]:
        """The keys of all deadlines that it may have."""
        yield from (self.join_key, self.sync_key)
        for member_id in (*self.members, *self.pending_joins):
            yield ("session", self.group_id, member_id)

    # Checks

    def require_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member. Raises KafkaError: FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID (also for ids not used yet)."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def require_generation(self, generation_id: int) -> None:
        """Raises KafkaError: ILLEGAL_GENERATION."""
        if generation_id != self.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols may join: same type, and one name that all members offer."""
        if self.state is GroupState.EMPTY:
            return protocol_type != "" and any(True for _ in names)
        if protocol_type != self.protocol_type:
            return False
        member_count = len(self.members)
        return any(self.supporters.get(name, 0) == member_count for name in names)

    # Members

    def add_member(self, member: Member) -> None:
        """Let a member in; the first one leads."""
        assert member.member_id not in self.members, member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members = with_entry(self.static_members, member.group_instance_id, member.member_id)
        self._count(member.protocols, 1)
        self.pending_joins.pop(member.member_id, None)
        if not self.pending_joins:
            self.pending_joins = NOTHING
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove_member(self, member: Member) -> None:
        """Take a member out; if it led, the longest-standing of the others leads. Its parked requests must be gone."""
        member_id = member.member_id
        assert member_id not in self.parked_joins, member_id
        assert member_id not in self.parked_syncs, member_id
        del self.members[member_id]
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        self._count(member.protocols, -1)
        self.has_synced(member_id)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def has_lost(self, member_id: str, *, most: int) -> None:
        """A member was removed because nothing was heard of it. So many such are remembered, the newest."""
        self.lost_ids = with_entry(self.lost_ids, member_id, None)
        if len(self.lost_ids) > most:
            del self.lost_ids[next(iter(self.lost_ids))]

    def hears_again_of(self, member_id: str) -> bool:
        """Whether a request is the first one of a member since that was lost."""
        if member_id not in self.lost_ids:
            return False
        del self.lost_ids[member_id]
        return True

    def replace_member(self, old: Member, new: Member) -> None:
        """Give a static member's slot, leadership included, to its new id. Parked requests of the old must be gone."""
        assert old.group_instance_id is not None
        assert old.group_instance_id == new.group_instance_id
        assert old.member_id not in self.parked_joins
        assert old.member_id not in self.parked_syncs
        self.members = {
            (new if member is old else member).member_id: (new if member is old else member)
            for member in self.members.values()
        }
        self.static_members[old.group_instance_id] = new.member_id
        self._count(old.protocols, -1)
        self._count(new.protocols, 1)
        if old.member_id in self.pending_syncs:
            self.pending_syncs = self.pending_syncs - {old.member_id} | {new.member_id}
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id

    def update_member(
        self, member: Member, *, protocols: Mapping[str, bytes], session_timeout_ms: int, rebalance_timeout_ms: int
    ) -> None:
        """Take over what a member says of itself when it joins again."""
        self._count(member.protocols, -1)
        member.protocols = dict(protocols)
        self._count(member.protocols, 1)
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def has_synced(self, member_id: str) -> None:
        """Its SyncGroup is no longer awaited."""
        if isinstance(self.pending_syncs, set):
            self.pending_syncs.discard(member_id)
            if not self.pending_syncs:
                self.pending_syncs = NOBODY

    def _count(self, names: Iterable[str], change: int) -> None:
        for name in names:
            count = self.supporters.get(name, 0) + change
            if count:
                self.supporters[name] = count
            else:
                del self.supporters[name]

    # Generations

    def chosen_metadata(self, member: Member) -> bytes:
        """A member's metadata for the chosen protocol; b"" when it has none for it."""
        return member.protocols.get(self.protocol_name or "", b"")

    def read_topics(self) -> None:
        """Compute `topics`, once per generation."""
        if not self.is_consumer_group:
            self.topics = None
        else:
            self.topics = subscribed_topics(self.chosen_metadata(member) for member in self.members.values())

    def members_for_leader(self) -> tuple[JoinGroupResponseMember, ...]:
        """The members of the leader's JoinGroup response: all, with their metadata for the chosen protocol."""
        return tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=self.chosen_metadata(member),
            )
            for member in self.members.values()
        )

    # The record

    def metadata(self, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
        """The group as a record describes it, with `assignments` (b"" for members that are not in there)."""
        members = self.members.values()
        return self._metadata(
            self.leader_id,
            tuple([self.member_metadata(member, assignments.get(member.member_id, b"")) for member in members]),
        )

    def _metadata(self, leader_id: str | None, members: tuple[MemberMetadata, ...]) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=leader_id,
            current_state_timestamp=self.state_changed_ms,
            members=members,
        )

    def member_metadata(self, member: Member, assignment: bytes) -> MemberMetadata:
        """One member as a record describes it."""
        return MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=self.chosen_metadata(member),
            assignment=assignment,
        )

    def record_with(self, new: Member, *, in_place_of: Member) -> bytes:
        """The value of its record with another member in the place of one, in Stable.

        Static members come back one after the other, and each time the others are what they were: their part is kept.
        """
        old = in_place_of
        leader = new.member_id if self.leader_id == old.member_id else self.leader_id
        known = self.records_of_members
        if known is None:
            known = {member.member_id: self._record_of(member) for member in self.members.values()}
        self.records_of_members = {
            (new.member_id if member_id == old.member_id else member_id): (
                self._record_of(new) if member_id == old.member_id else record
            )
            for member_id, record in known.items()
        }
        head = build_group_metadata_value(self._metadata(leader, ()))
        return join_group_metadata_value(head, self.records_of_members.values())

    def _record_of(self, member: Member) -> bytes:
        return build_member_metadata(self.member_metadata(member, member.assignment))

    def apply_metadata(self, value: GroupMetadataValue) -> None:
        """Become what a record says, once it is in the log or when it is replayed.

        Members that are already here keep what the record does not hold (protocols that were not chosen).
        """
        self.protocol_type = value.protocol_type or None
        self.generation_id = value.generation
        self.protocol_name = value.protocol
        self.state_changed_ms = value.current_state_timestamp
        for written in value.members:
            member = self.members.get(written.member_id)
            if member is None:
                self.add_member(self._member_from(written, value.protocol))
            else:
                member.assignment = written.assignment
        assert len(self.members) == len(value.members), f"{self.group_id}: {list(self.members)} != {value.members}"
        self.leader_id = value.leader

    def _member_from(self, written: MemberMetadata, protocol: str | None) -> Member:
        return Member(
            written.member_id,
            group_id=self.group_id,
            group_instance_id=written.group_instance_id,
            client_id=written.client_id,
            client_host=written.client_host,
            session_timeout_ms=written.session_timeout,
            rebalance_timeout_ms=(
                written.session_timeout if written.rebalance_timeout == -1 else written.rebalance_timeout
            ),
            protocols={} if protocol is None else {protocol: written.subscription},
            assignment=written.assignment,
        )


def vote(ballots: Iterable[Mapping[str, bytes]]) -> str:
    """The protocol most members want: each votes for the first name in its list that all of them offer.

    Equal numbers are decided by the first ballot's own order (Kafka leaves that open). There must be such a name.
    """
    lists = [tuple(ballot) for ballot in ballots]
    candidates = set(lists[0]).intersection(*lists[1:])
    assert candidates, "no protocol that all members offer"
    if len(candidates) == 1:
        return candidates.pop()
    votes = Counter(next(name for name in names if name in candidates) for names in lists)
    return max(lists[0], key=lambda name: votes[name])
