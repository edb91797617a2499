"""The events of a plan of a streams or share group that has come true: the one place that compares before and after.

Groups of consumers compare in `consumer/append_plan.py`, which looks at no more than the few members of a heartbeat. Their
transitions, and refused heartbeats, are told here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kshim.coordinator.groups.events import (
    AnyGroupState,
    AnyMemberState,
    Cause,
    EpochRaised,
    MemberAdded,
    MemberReconciled,
    MemberRef,
    MemberRefused,
    MemberRemoved,
    MemberReplaced,
    TargetChange,
    TargetComputed,
    TopicPartitions,
    Transition,
    Trigger,
    Wish,
)
from kshim.coordinator.groups.kinds import AnyGroup
from kshim.coordinator.step import Now, RequestContext, Step
from kshim_protocol.errors import ErrorCode, KafkaError

NamedPlaces = frozenset[tuple[str, int]]
"""Partitions with the names of their topics, or tasks with those of their subtopologies."""
_NOTHING: NamedPlaces = frozenset()
REFUSALS = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)
"""How a heartbeat is refused that came with an epoch or instance id that is not the member's."""


class Causes:
    """Why a plan changes what it does, which no record says. `occasion()` is what brought it about if no epoch rises."""

    def __init__(self) -> None:
        self.occasion: Callable[[], Trigger] | None = None
        self.trigger: Trigger | None = None
        """Why the epoch rises; the first one counts."""
        self.joined: list[tuple[MemberRef, Wish | None]] = []
        self.replaced: list[tuple[MemberRef, str]] = []
        self.removed: list[tuple[MemberRef, Cause]] = []
        self.wish: Wish | None = None
        """What the member subscribes to that raises the epoch."""


class Seat(NamedTuple):
    """Where a member is: what it works on, of which tasks it keeps the state for others, and what it was told to give up."""

    ref: MemberRef
    epoch: int
    state: AnyMemberState
    runs: NamedPlaces = _NOTHING
    keeps: NamedPlaces = _NOTHING
    to_revoke: NamedPlaces = _NOTHING


Target = frozenset[tuple[str, tuple[str, int]]]
"""What a member is to have: role and place of each."""


class Look(NamedTuple):
    """A group at one time, with the members that a plan is about, by id; those that are not there are left out."""

    state: AnyGroupState
    epoch: int
    seats: Mapping[str, Seat]
    targets: Mapping[str, Target]


class Report:
    """What a plan has changed in `group`."""

    def __init__(self, group: AnyGroup, before: Look, after: Look, causes: Causes, now: Now, step: Step) -> None:
        self._group = group
        self._now = now
        self._before = before
        self._after = after
        self._causes = causes
        self._step = step
        self._fields = group.event(now)

    def tell(self, *, assignor: str | None, next_state: AnyGroupState) -> None:
        """All of it, in the order of what happened. `assignor`: of a new target, None: there is none; `next_state`: of the group
        between a new epoch and its target, which may be there already.
        """
        self._members()
        self._epoch(next_state)
        if assignor is not None and self._group.member_count:
            self._target(assignor)
        self._assignments()
        self._state()

    def _members(self) -> None:
        fields, state, events = self._fields, self._after.state, self._step.events
        for member, wish in self._causes.joined:
            events.append(MemberAdded(**fields, state=state, member=member, had_id=False, offer=wish))
        for member, old_id in self._causes.replaced:
            events.append(MemberReplaced(**fields, state=state, member=member, replaced_member_id=old_id))
        for member, cause in self._causes.removed:
            seat = self._before.seats.get(member.member_id)
            revoked = () if seat is None else _ordered(seat.runs)
            events.append(
                MemberRemoved(**fields, state=state, member=member, cause=cause, was_pending=False, revoked=revoked)
            )

    def _epoch(self, next_state: AnyGroupState) -> None:
        trigger = self._causes.trigger
        if trigger is None:
            return
        self._step.events.append(
            EpochRaised(
                **self._fields,
                previous=self._before.state,
                previous_epoch=self._before.epoch,
                cause=trigger.cause,
                detail=trigger.detail,
                member=trigger.member,
                member_count=self._group.member_count,
                offer=self._causes.wish,
                next_state=next_state,
            )
        )

    def _target(self, assignor: str) -> None:
        changes = []
        for member_id, after in self._after.targets.items():
            before, seat = self._before.targets.get(member_id, frozenset()), self._after.seats.get(member_id)
            if seat is not None and after != before:
                lost = {place for _, place in before} - {place for _, place in after}
                gained = {place for _, place in after - before}
                changes.append(TargetChange(seat.ref, len(lost), len(gained)))
        self._step.events.append(TargetComputed(**self._fields, assignor=assignor, changes=tuple(changes)))

    def _assignments(self) -> None:
        for member_id, after in self._after.seats.items():
            before = self._before.seats.get(member_id, Seat(after.ref, 0, after.state))
            if before[1:] == after[1:]:
                continue
            has_had, has = before.runs | before.keeps, after.runs | after.keeps
            received = after.runs - before.runs
            self._step.events.append(
                MemberReconciled(
                    **self._fields,
                    state=self._after.state,
                    member=after.ref,
                    epoch=after.epoch,
                    previous=before.state,
                    new=after.state,
                    to_revoke=_ordered(after.to_revoke - before.to_revoke),
                    revoked=_ordered(before.runs - after.runs),
                    received=_ordered(received),
                    standby_revoked=_ordered(before.keeps & (has_had - has)),
                    standby_received=_ordered(after.keeps - before.keeps),
                    promoted=_ordered(received & before.keeps),
                )
            )

    def _state(self) -> None:
        before, after = self._before.state, self._after.state
        if after is before:
            return
        trigger = self._causes.trigger
        if trigger is None and self._causes.occasion is not None:
            trigger = self._causes.occasion()
        assert trigger is not None, f"{before} -> {after} without a cause"
        self._step.events.append(transition(self._group, before, after, trigger, self._now))


def _ordered(places: NamedPlaces) -> TopicPartitions:
    return tuple(sorted(places)) if places else ()


def transition(group: AnyGroup, previous: AnyGroupState, new: AnyGroupState, trigger: Trigger, now: Now) -> Transition:
    """The event of a change of state of a group with epochs."""
    return Transition(
        **group.event(now),
        previous=previous,
        new=new,
        cause=trigger.cause,
        detail=trigger.detail,
        member=trigger.member,
        member_count=group.member_count,
        protocol_type=group.protocol_type,
    )


def report_end(group: AnyGroup, dead: AnyGroupState, trigger: Trigger, now: Now, step: Step) -> None:
    """The tombstones of a group are in the log."""
    step.events.append(transition(group, group.state, dead, trigger, now))


def report_refusal(group: AnyGroup, member: MemberRef, error: KafkaError, now: Now, step: Step) -> None:
    """A member learns that it is no longer, or not yet, the one it says it is; other errors are not told."""
    if error.code in REFUSALS:
        step.events.append(
            MemberRefused(
                **group.event(now), state=group.state, member=member, error=error.code, detail=error.message or ""
            )
        )


def ref_of(member_id: str, group_instance_id: str | None, context: RequestContext) -> MemberRef:
    """The member that sends a request, as events name it."""
    return MemberRef(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=context.client_id or "",
        client_host=context.client_host,
    )
