"""From the coordinator's events to those of the history: follows each group's rebalance from its start to its end.

No clock, no I/O: the coordinator's events carry the time. `docs/design/events.md` defines what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer.state import ConsumerGroupState
from kshim.coordinator.groups.events import (
    AnyGroupState,
    Arrivals,
    Cause,
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
from kshim.coordinator.step import Event
from kshim.history.activity import Activity
from kshim.history.event import Arrival, Ending, HistoryEvent, Kicked, Timeline, Why
from kshim.wording import counted

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
    Cause.ADMIN: ADMIN,
    Cause.SUBSCRIPTION_CHANGED: "subscription_changed",
    Cause.TOPICS_CHANGED: "topics_changed",
    Cause.EXPRESSION_RESOLVED: "expression_resolved",
    Cause.RECONCILED: "reconciled",
}
"""The keyword of each cause."""

_LOADED: Final = "coordinator_loaded"
_PREPARING: Final = GroupState.PREPARING_REBALANCE.value
_COMPLETING: Final = GroupState.COMPLETING_REBALANCE.value
_STABLE: Final = GroupState.STABLE.value
_KICKS: Final = frozenset({Cause.REBALANCE_TIMEOUT, Cause.SESSION_EXPIRED, Cause.SYNC_TIMEOUT, Cause.GROUP_TOO_LARGE})


class InjectedFault(NamedTuple):
    """Between the events of the coordinator: a fault has acted on a request of a group."""

    group_id: str
    name: str


class FaultsOfGroup:
    """The faults since the last event of a group. All events of one moment name them: those at `told_ms`, once there is one."""

    __slots__ = ("names", "told_ms")

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.told_ms: int | None = None


class GroupHistory:
    """What is known of one group. `rebalance` is the open one, `last` the one that was completed last."""

    __slots__ = ("admin_removed_id", "epoch", "group_id", "last", "protocol_type", "rebalance", "seq")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.seq = 0
        self.epoch = 0
        self.protocol_type: str | None = None
        self.rebalance: Timeline | None = None
        self.last: Timeline | None = None
        self.admin_removed_id: str | None = None


class Tracker:
    """Feed it every event of the coordinator in order; `emit(event)` gets what the history says.

    `run` identifies this life of the process, `initial_delay_ms` is the group.initial.rebalance.delay.ms in force.
    """

    def __init__(
        self,
        emit: Callable[[HistoryEvent], None],
        *,
        run: str,
        initial_delay_ms: int,
    ) -> None:
        self.groups: dict[str, GroupHistory] = {}
        self._faults: dict[str, FaultsOfGroup] = {}
        self._emit = emit
        self._run = run
        self._broker = -1
        self._activity: Activity | None = None
        self._initial_delay_ms = initial_delay_ms
        self._number = 0
        self.followers: Final[dict[type, Callable[[Any, GroupHistory], None]]] = {
            Transition: self._moved,
            MemberAdded: self._member_added,
            MemberReplaced: self._member_replaced,
            MemberRemoved: self._member_removed,
            JoinCompleted: self._join_completed,
            RebalanceCompleted: self._completed,
            SyncCompleted: self._sync_completed,
            GroupLoaded: self._loaded,
        }
        """The events that mean something to history, and what is made of them."""

    def observe(self, event: Event | InjectedFault, broker: int, activity: Activity | None = None) -> None:
        """Follow one event of the coordinator; `broker` is the node id of that coordinator, `activity` that of the member."""
        follow = self.followers.get(type(event))
        if follow is None:
            if isinstance(event, InjectedFault):
                self._fault_injected(event)
            return
        self._broker, self._activity = broker, activity
        assert isinstance(event, GroupEvent)
        group = self.groups.get(event.group_id)
        if group is None:
            group = self.groups[event.group_id] = GroupHistory(event.group_id)
        follow(event, group)

    # Members

    def _member_added(self, event: MemberAdded, group: GroupHistory) -> None:
        if group.rebalance is not None and event.state is GroupState.PREPARING_REBALANCE:
            group.rebalance.expected += 1
        self._emit_of_member("member_joined", "member_joined", event, group)

    def _member_replaced(self, event: MemberReplaced, group: GroupHistory) -> None:
        self._emit_of_member("member_fenced", "static_replaced", event, group, event.replaced_member_id)

    def _member_removed(self, event: MemberRemoved, group: GroupHistory) -> None:
        reason = REASONS[event.cause]
        if group.rebalance is not None and event.cause in _KICKS:
            group.rebalance.kicked.append(Kicked(event.member, reason, event.was_pending))
        if event.was_pending:
            return
        if event.cause is Cause.MEMBER_LEFT and (event.is_by_instance_id or _is_of_admin(event.member)):
            reason = ADMIN
            group.admin_removed_id = event.member.member_id
        self._emit_of_member("member_left", reason, event, group)

    def _emit_of_member(
        self,
        type_: str,
        reason: str,
        event: MemberAdded | MemberReplaced | MemberRemoved,
        group: GroupHistory,
        replaced_member_id: str | None = None,
    ) -> None:
        why = Why(group.group_id, group.protocol_type, group.epoch, event.generation_id, reason, "", event.member)
        state = event.state.value
        self._emit_event(
            type_, event, group, why, state, state, replaced_member_id=replaced_member_id, activity=self._activity
        )

    # The timeline of a rebalance

    def _moved(self, event: Transition, group: GroupHistory) -> None:
        group.protocol_type = event.protocol_type
        match event.new:
            case GroupState.PREPARING_REBALANCE:
                self._started(event, group)
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                if group.rebalance is not None:
                    group.rebalance.ending = _ending(event, group)
            case GroupState.EMPTY:
                self._end_open(event, group, GroupState.EMPTY, "aborted", _ending(event, group))
                self._emit_of_group("group_emptied", event, group, event.generation_id)
            case ConsumerGroupState.EMPTY:
                self._emit_of_group("group_emptied", event, group, event.generation_id)
            case ConsumerGroupState.ASSIGNING | ConsumerGroupState.RECONCILING | ConsumerGroupState.STABLE:
                pass
            case GroupState.DEAD | ConsumerGroupState.DEAD:
                self._emit_of_group("group_dead", event, group, None)
                del self.groups[group.group_id]

    def _started(self, event: Transition, group: GroupHistory) -> None:
        reason = _ending(event, group)
        if group.rebalance is not None:
            is_superseded = event.previous is GroupState.COMPLETING_REBALANCE
            if is_superseded:
                group.rebalance.pending_sync = event.pending_sync_count
            self._end_open(event, group, event.new, "superseded" if is_superseded else "aborted", reason)
        group.epoch += 1
        group.last = None
        timeline = group.rebalance = Timeline(
            group.group_id,
            group.protocol_type,
            group.epoch,
            event.generation_id,
            reason,
            event.member,
            event.now.mono_ms,
            event.member_count,
            self._initial_delay_ms if event.previous is GroupState.EMPTY else None,
        )
        self._emit_event("rebalance_started", event, group, timeline, event.previous.value, event.new.value)

    def _join_completed(self, event: JoinCompleted, group: GroupHistory) -> None:
        timeline = group.rebalance
        if timeline is None:
            return
        timeline.to_generation = event.generation_id
        timeline.joined_ms = event.now.mono_ms
        timeline.join_ms = event.join_ms
        timeline.arrivals = event.arrivals
        timeline.last_to_join = _last_of(event.arrivals)
        timeline.leader_id = event.leader_id
        timeline.protocol = event.protocol_name
        timeline.pending_sync = event.member_count
        self._emit_event("join_completed", event, group, timeline, _PREPARING, _COMPLETING, ended_by=timeline.ending)

    def _completed(self, event: RebalanceCompleted, group: GroupHistory) -> None:
        timeline = group.rebalance
        if timeline is None:
            return
        group.rebalance, group.last = None, timeline
        timeline.pending_sync = event.pending_sync_count
        timeline.close()
        last = None if event.last_to_sync is None else _arrival(event.last_to_sync, event.last_sync_ms, timeline)
        self._emit_event(
            "rebalance_completed",
            event,
            group,
            timeline,
            _COMPLETING,
            _STABLE,
            sync_ms=event.sync_ms,
            last_to_sync=last,
            outcome="completed",
            ended_by=timeline.ending,
        )

    def _sync_completed(self, event: SyncCompleted, group: GroupHistory) -> None:
        timeline = group.last
        if timeline is None:
            return
        timeline.pending_sync = 0
        last = _arrival(event.member, event.sync_ms, timeline)
        self._emit_event(
            "sync_completed", event, group, timeline, _STABLE, _STABLE, sync_ms=event.sync_ms, last_to_sync=last
        )

    def _end_open(
        self, event: GroupEvent, group: GroupHistory, state_to: AnyGroupState, outcome: str, ending: Ending
    ) -> None:
        """End the open rebalance, if there is one, without an assignment."""
        timeline = group.rebalance
        if timeline is None:
            return
        group.rebalance = None
        now_ms = event.now.mono_ms
        state, sync_ms = _COMPLETING, None
        if timeline.join_ms is None:
            state = _PREPARING
            timeline.join_ms = now_ms - timeline.started_ms
        else:
            sync_ms = now_ms - timeline.joined_ms
        timeline.close()
        self._emit_event(
            "rebalance_aborted",
            event,
            group,
            timeline,
            state,
            state_to.value,
            sync_ms=sync_ms,
            outcome=outcome,
            ended_by=ending,
        )

    # Loading

    def _loaded(self, event: GroupLoaded, group: GroupHistory) -> None:
        group.protocol_type = event.protocol_type
        self._end_open(event, group, event.state, "aborted", Ending(_LOADED, "the group was read from the log", None))
        group.last = None
        text = f"loaded with {counted(event.member_count, 'member')} in generation {event.generation_id}"
        why = Why(group.group_id, group.protocol_type, group.epoch, event.generation_id, _LOADED, text, None)
        self._emit_event(
            _LOADED,
            event,
            group,
            why,
            None,
            event.state.value,
            to_generation=event.generation_id,
            expected=event.member_count,
        )

    # Emitting

    def _emit_of_group(self, type_: str, event: Transition, group: GroupHistory, to_generation: int | None) -> None:
        reason, text, _ = _ending(event, group)
        why = Why(group.group_id, group.protocol_type, group.epoch, event.generation_id, reason, text, event.member)
        self._emit_event(type_, event, group, why, event.previous.value, event.new.value, to_generation=to_generation)

    def _emit_event(
        self,
        type_: str,
        event: GroupEvent,
        group: GroupHistory,
        why: Why,
        state_from: str | None,
        state_to: str,
        **fields: Any,
    ) -> None:
        """`fields` are further ones of the event; those that a timeline has come from it."""
        if isinstance(why, Timeline):
            fields["to_generation"] = why.to_generation
            fields["expected"] = why.expected
            fields["kicked_count"] = len(why.kicked)
            fields["pending_sync"] = why.pending_sync
        if self._faults:
            fields["injected_fault"] = self._faults_before(event)
        self._number += 1
        group.seq += 1
        self._emit(
            HistoryEvent(
                type_,
                self._run,
                self._number,
                group.seq,
                event.now,
                self._broker,
                why,
                state_from,
                state_to,
                **fields,
            )
        )

    # Faults

    def _fault_injected(self, event: InjectedFault) -> None:
        faults = self._faults.get(event.group_id)
        if faults is None or faults.told_ms is not None:
            faults = self._faults[event.group_id] = FaultsOfGroup()
        faults.names[event.name] = None

    def _faults_before(self, event: GroupEvent) -> str | None:
        """The faults that an event names."""
        faults = self._faults.get(event.group_id)
        if faults is None:
            return None
        if faults.told_ms is None:
            faults.told_ms = event.now.mono_ms
        elif faults.told_ms != event.now.mono_ms:
            del self._faults[event.group_id]
            return None
        return "; ".join(faults.names)


def _ending(event: Transition, group: GroupHistory) -> Ending:
    """Why a transition happened, as the history puts it."""
    member_id = None if event.member is None else event.member.member_id
    reason = REASONS[event.cause]
    if event.cause is Cause.MEMBER_LEFT and member_id is not None and member_id == group.admin_removed_id:
        reason = ADMIN
    return Ending(reason, event.detail, member_id)


def _is_of_admin(member: MemberRef) -> bool:
    return member.client_reason is not None and member.client_reason.startswith(ADMIN_LEAVE_REASON)


def _last_of(arrivals: Arrivals) -> Arrival | None:
    """The member that was last; of several at the same time, the last one in the group."""
    if not arrivals.members:
        return None
    greatest_ms = max(arrivals.wait_ms)
    index = len(arrivals.wait_ms) - 1
    while arrivals.wait_ms[index] != greatest_ms:
        index -= 1
    return Arrival(arrivals.members[index], bool(arrivals.is_new[index]), greatest_ms)


def _arrival(member: MemberRef, wait_ms: int, timeline: Timeline) -> Arrival:
    """A Sync; whether the member entered in this rebalance is known from its Join."""
    is_new = False
    if timeline.arrivals is not None and 1 in timeline.arrivals.is_new:
        newcomers = zip(timeline.arrivals.members, timeline.arrivals.is_new, strict=True)
        is_new = any(is_one and other.member_id == member.member_id for other, is_one in newcomers)
    return Arrival(member, is_new, wait_ms)
