"""From the coordinator's events to those of the history: follows each group's rebalance from its start to its end.

No clock, no I/O: the coordinator's events carry the time. `docs/design/events.md` defines what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kshim.broker.history.event import Ending, HistoryEvent, Kicked, Phases
from kshim.coordinator.events import (
    Arrival,
    Cause,
    Event,
    GroupEvent,
    GroupLoaded,
    JoinCompleted,
    MemberAdded,
    MemberRef,
    MemberRemoved,
    MemberReplaced,
    RebalanceCompleted,
    SyncCompleted,
    Transition,
)
from kshim.coordinator.state import GroupState
from kshim.coordinator.step import Now

__all__ = ["REASONS", "GroupHistory", "Tracker"]

ADMIN: Final = "admin"
ADMIN_LEAVE_REASON: Final = "member was removed by an admin"
"""What Kafka's Admin gives as the reason when it removes members, alone or followed by the caller's own words."""

REASONS: Final[dict[Cause, str]] = {
    Cause.MEMBER_JOINED: "member_joined",
    Cause.MEMBER_LEFT: "member_left",
    Cause.SESSION_EXPIRED: "session_timeout",
    Cause.REBALANCE_TIMEOUT: "rebalance_timeout",
    Cause.SYNC_TIMEOUT: "sync_timeout",
    Cause.INITIAL_DELAY_OVER: "initial_delay_over",
    Cause.LEADER_REJOINED: "leader_rejoined",
    Cause.METADATA_CHANGED: "metadata_changed",
    Cause.STATIC_MEMBER_REPLACED: "static_replaced",
    Cause.APPEND_FAILED: "append_failed",
    Cause.GROUP_TOO_LARGE: "group_too_large",
    Cause.ALL_JOINED: "all_joined",
    Cause.ASSIGNMENT_RECEIVED: "assignment_received",
    Cause.GROUP_DELETED: "group_deleted",
    Cause.TOPIC_DELETED: "topic_deleted",
    Cause.EXPIRED: "expired",
}
"""The keyword of each cause."""

_LOADED: Final = "coordinator_loaded"
_KICKS: Final = frozenset({Cause.REBALANCE_TIMEOUT, Cause.SESSION_EXPIRED, Cause.SYNC_TIMEOUT, Cause.GROUP_TOO_LARGE})


class Rebalance:
    """One rebalance on its way. What is None is not known before the join phase has ended."""

    __slots__ = (
        "arrivals",
        "ending",
        "epoch",
        "expected",
        "from_generation",
        "initial_delay_ms",
        "join_ms",
        "joined_ms",
        "kicked",
        "last_to_join",
        "leader_id",
        "pending_sync",
        "protocol",
        "reason",
        "reason_text",
        "started_ms",
        "to_generation",
        "trigger",
    )

    def __init__(
        self,
        epoch: int,
        started_ms: int,
        from_generation: int,
        reason: str,
        reason_text: str,
        trigger: MemberRef | None,
        expected: int,
        initial_delay_ms: int | None,
    ) -> None:
        self.epoch = epoch
        self.started_ms = started_ms
        self.from_generation = from_generation
        self.reason = reason
        self.reason_text = reason_text
        self.trigger = trigger
        self.expected = expected
        self.initial_delay_ms = initial_delay_ms
        self.kicked: list[Kicked] = []
        self.ending: Ending | None = None
        self.to_generation: int | None = None
        self.joined_ms = 0
        self.join_ms: int | None = None
        self.arrivals: tuple[Arrival, ...] | None = None
        self.last_to_join: Arrival | None = None
        self.leader_id: str | None = None
        self.protocol: str | None = None
        self.pending_sync: int | None = None

    @property
    def joined(self) -> int | None:
        """How many Joins were in when the join phase ended."""
        return None if self.arrivals is None else len(self.arrivals)


class GroupHistory:
    """What is known of one group. `rebalance` is the open one, `last` the one that was completed last.

    `is_left_out`: a member reads the topic of the history, so nothing of this group may go there.
    """

    __slots__ = ("admin_removed_id", "epoch", "group_id", "is_left_out", "last", "protocol_type", "rebalance", "seq")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.seq = 0
        self.epoch = 0
        self.protocol_type: str | None = None
        self.rebalance: Rebalance | None = None
        self.last: Rebalance | None = None
        self.admin_removed_id: str | None = None
        self.is_left_out = False


class Tracker:
    """Feed it every event of the coordinator in order; `emit(event, group)` gets what the history says.

    `run` identifies this life of the process, `broker_of(partition)` is the node id of that coordinator,
    `initial_delay_ms` the group.initial.rebalance.delay.ms in force.
    """

    def __init__(
        self,
        emit: Callable[[HistoryEvent, GroupHistory], None],
        *,
        run: str,
        broker_of: Callable[[int], int],
        initial_delay_ms: int,
    ) -> None:
        self.groups: dict[str, GroupHistory] = {}
        self._emit = emit
        self._run = run
        self._broker_of = broker_of
        self._initial_delay_ms = initial_delay_ms
        self._number = 0
        self._followers: dict[type[Event], Callable[[Any, GroupHistory], None]] = {
            Transition: self._moved,
            MemberAdded: self._member_added,
            MemberReplaced: self._member_replaced,
            MemberRemoved: self._member_removed,
            JoinCompleted: self._join_completed,
            RebalanceCompleted: self._completed,
            SyncCompleted: self._sync_completed,
            GroupLoaded: self._loaded,
        }

    def observe(self, event: Event) -> None:
        """Follow one event of the coordinator."""
        follow = self._followers.get(type(event))
        if follow is None:
            return
        assert isinstance(event, GroupEvent)
        group = self.groups.get(event.group_id)
        if group is None:
            group = self.groups[event.group_id] = GroupHistory(event.group_id)
        follow(event, group)

    # Members

    def _member_added(self, event: MemberAdded, group: GroupHistory) -> None:
        if group.rebalance is not None and event.state is GroupState.PREPARING_REBALANCE:
            group.rebalance.expected += 1
        self._tell_of_member("member_joined", "member_joined", event.state, event.member, event, group)

    def _member_replaced(self, event: MemberReplaced, group: GroupHistory) -> None:
        self._tell_of_member(
            "member_fenced", "static_replaced", event.state, event.member, event, group, event.replaced_member_id
        )

    def _member_removed(self, event: MemberRemoved, group: GroupHistory) -> None:
        reason = REASONS[event.cause]
        if group.rebalance is not None and event.cause in _KICKS:
            group.rebalance.kicked.append(Kicked(event.member, reason, event.was_pending))
        if event.was_pending:
            return
        if event.cause is Cause.MEMBER_LEFT and (event.is_by_instance_id or _is_of_admin(event.member)):
            reason = ADMIN
            group.admin_removed_id = event.member.member_id
        self._tell_of_member("member_left", reason, event.state, event.member, event, group)

    def _tell_of_member(
        self,
        type_: str,
        reason: str,
        state: GroupState,
        member: MemberRef,
        event: GroupEvent,
        group: GroupHistory,
        replaced_member_id: str | None = None,
    ) -> None:
        name = state.value
        self._tell(
            type_, event, group, event.generation_id, None, name, name, reason, "", member, None, replaced_member_id
        )

    # The course of a rebalance

    def _moved(self, event: Transition, group: GroupHistory) -> None:
        group.protocol_type = event.protocol_type
        match event.new:
            case GroupState.PREPARING_REBALANCE:
                self._started(event, group)
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                if group.rebalance is not None:
                    group.rebalance.ending = _ending(event, group)
            case GroupState.EMPTY:
                self._end_open(event, group, GroupState.EMPTY.value, "aborted", _ending(event, group))
                self._tell_of_group("group_emptied", event, group, event.generation_id)
            case GroupState.DEAD:
                self._tell_of_group("group_dead", event, group, None)
                del self.groups[group.group_id]

    def _started(self, event: Transition, group: GroupHistory) -> None:
        ending = _ending(event, group)
        is_superseded = event.previous is GroupState.COMPLETING_REBALANCE
        if group.rebalance is not None and group.rebalance.pending_sync is not None:
            group.rebalance.pending_sync = event.pending_sync_count
        self._end_open(event, group, event.new.value, "superseded" if is_superseded else "aborted", ending)
        group.epoch += 1
        group.last = None
        rebalance = group.rebalance = Rebalance(
            group.epoch,
            event.now.mono_ms,
            event.generation_id,
            ending.reason,
            event.detail,
            event.member,
            event.member_count,
            self._initial_delay_ms if event.previous is GroupState.EMPTY else None,
        )
        phases = Phases(rebalance.expected, None, 0, None, rebalance.initial_delay_ms)
        self._tell_of_rebalance(
            "rebalance_started", event, group, rebalance, event.previous.value, event.new.value, phases
        )

    def _join_completed(self, event: JoinCompleted, group: GroupHistory) -> None:
        rebalance = group.rebalance
        if rebalance is None:
            return
        arrivals = event.arrivals
        rebalance.to_generation = event.generation_id
        rebalance.joined_ms = event.now.mono_ms
        rebalance.join_ms = event.join_ms
        rebalance.arrivals = arrivals
        rebalance.last_to_join = _last_of(arrivals)
        rebalance.leader_id = event.leader_id
        rebalance.protocol = event.protocol_name
        rebalance.pending_sync = event.member_count
        phases = self._phases(rebalance, None)._replace(kicked=tuple(rebalance.kicked), ended_by=rebalance.ending)
        states = GroupState.PREPARING_REBALANCE.value, GroupState.COMPLETING_REBALANCE.value
        self._tell_of_rebalance("join_completed", event, group, rebalance, *states, phases)

    def _completed(self, event: RebalanceCompleted, group: GroupHistory) -> None:
        rebalance = group.rebalance
        if rebalance is None:
            return
        group.rebalance, group.last = None, rebalance
        rebalance.pending_sync = event.pending_sync_count
        last = event.last_to_sync
        states = GroupState.COMPLETING_REBALANCE.value, GroupState.STABLE.value
        phases = self._phases(rebalance, event.sync_ms)._replace(
            last_to_sync=None if last is None else _with_newness(last, rebalance),
            waits=rebalance.arrivals,
            kicked=tuple(rebalance.kicked),
            outcome="completed",
            ended_by=rebalance.ending,
        )
        self._tell_of_rebalance("rebalance_completed", event, group, rebalance, *states, phases)
        if not event.pending_sync_count:
            self._tell_of_last_sync(event, group, rebalance, phases.last_to_sync, event.sync_ms)

    def _sync_completed(self, event: SyncCompleted, group: GroupHistory) -> None:
        rebalance, member = group.last, event.member
        if rebalance is None:
            return
        rebalance.pending_sync = 0
        last = Arrival(
            member.member_id, member.group_instance_id, member.client_id, member.client_host, False, event.sync_ms
        )
        self._tell_of_last_sync(event, group, rebalance, _with_newness(last, rebalance), event.sync_ms)

    def _tell_of_last_sync(
        self, event: GroupEvent, group: GroupHistory, rebalance: Rebalance, last: Arrival | None, sync_ms: int
    ) -> None:
        phases = self._phases(rebalance, sync_ms)._replace(last_to_sync=last)
        state = GroupState.STABLE.value
        self._tell_of_rebalance("sync_completed", event, group, rebalance, state, state, phases)

    def _end_open(self, event: GroupEvent, group: GroupHistory, state_to: str, outcome: str, ending: Ending) -> None:
        """End the open rebalance, if there is one, without an assignment."""
        rebalance = group.rebalance
        if rebalance is None:
            return
        group.rebalance = None
        now_ms = event.now.mono_ms
        if rebalance.join_ms is None:
            state, sync_ms = GroupState.PREPARING_REBALANCE, None
            rebalance.join_ms = now_ms - rebalance.started_ms
        else:
            state, sync_ms = GroupState.COMPLETING_REBALANCE, now_ms - rebalance.joined_ms
        phases = self._phases(rebalance, sync_ms)._replace(
            waits=rebalance.arrivals, kicked=tuple(rebalance.kicked), outcome=outcome, ended_by=ending
        )
        self._tell_of_rebalance("rebalance_aborted", event, group, rebalance, state.value, state_to, phases)

    # Loading

    def _loaded(self, event: GroupLoaded, group: GroupHistory) -> None:
        group.protocol_type = event.protocol_type
        state = event.state.value
        self._end_open(event, group, state, "aborted", Ending(_LOADED, "the group was read from the log", None))
        group.last = None
        phases = Phases(event.member_count, None, 0, None)
        generation_id = event.generation_id
        text = f"loaded with {event.member_count} members in generation {generation_id}"
        self._tell(_LOADED, event, group, generation_id, generation_id, None, state, _LOADED, text, None, phases)

    # Telling

    @staticmethod
    def _phases(rebalance: Rebalance, sync_ms: int | None) -> Phases:
        return Phases(
            rebalance.expected,
            rebalance.joined,
            len(rebalance.kicked),
            rebalance.pending_sync,
            rebalance.initial_delay_ms,
            rebalance.leader_id,
            rebalance.protocol,
            rebalance.join_ms,
            sync_ms,
            rebalance.last_to_join,
        )

    def _tell_of_group(self, type_: str, event: Transition, group: GroupHistory, to_generation: int | None) -> None:
        reason = _ending(event, group).reason
        states = event.previous.value, event.new.value
        self._tell(
            type_, event, group, event.generation_id, to_generation, *states, reason, event.detail, event.member, None
        )

    def _tell_of_rebalance(
        self,
        type_: str,
        event: GroupEvent,
        group: GroupHistory,
        rebalance: Rebalance,
        state_from: str,
        state_to: str,
        phases: Phases,
    ) -> None:
        self._tell(
            type_,
            event,
            group,
            rebalance.from_generation,
            rebalance.to_generation,
            state_from,
            state_to,
            rebalance.reason,
            rebalance.reason_text,
            rebalance.trigger,
            phases,
        )

    def _tell(
        self,
        type_: str,
        event: GroupEvent,
        group: GroupHistory,
        from_generation: int,
        to_generation: int | None,
        state_from: str | None,
        state_to: str,
        reason: str,
        reason_text: str,
        trigger: MemberRef | None,
        phases: Phases | None,
        replaced_member_id: str | None = None,
    ) -> None:
        self._number += 1
        group.seq += 1
        now: Now = event.now
        self._emit(
            HistoryEvent(
                type_,
                self._run,
                self._number,
                group.seq,
                now,
                self._broker_of(event.partition),
                group.group_id,
                group.protocol_type,
                group.epoch,
                from_generation,
                to_generation,
                state_from,
                state_to,
                reason,
                reason_text,
                trigger,
                phases,
                replaced_member_id,
            ),
            group,
        )


def _ending(event: Transition, group: GroupHistory) -> Ending:
    """Why a transition happened, as the history puts it."""
    member_id = None if event.member is None else event.member.member_id
    reason = REASONS[event.cause]
    if event.cause is Cause.MEMBER_LEFT and member_id is not None and member_id == group.admin_removed_id:
        reason = ADMIN
    return Ending(reason, event.detail, member_id)


def _is_of_admin(member: MemberRef) -> bool:
    return member.client_reason is not None and member.client_reason.startswith(ADMIN_LEAVE_REASON)


def _last_of(arrivals: tuple[Arrival, ...]) -> Arrival | None:
    """Who came last; of several at once the one that stands last in the group."""
    last = None
    for arrival in arrivals:
        if last is None or arrival.wait_ms >= last.wait_ms:
            last = arrival
    return last


def _with_newness(last: Arrival, rebalance: Rebalance) -> Arrival:
    """Whether it entered in this rebalance is known from its Join only."""
    member_id = last.member_id
    for arrival in rebalance.arrivals or ():
        if arrival.member_id == member_id:
            return last if arrival.is_new == last.is_new else last._replace(is_new=arrival.is_new)
    return last
