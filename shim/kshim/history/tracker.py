"""From the coordinator's events to those of the history: follows each group's rebalance from its start to its end.

No clock, no I/O: the coordinator's events carry the time. `docs/design/events.md` defines what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer.group import LEFT_FOR_NOW_EPOCH
from kshim.coordinator.groups.consumer.state import ConsumerGroupState, MemberState
from kshim.coordinator.groups.events import (
    AnyGroupState,
    Arrivals,
    Cause,
    EpochRaised,
    GroupConverted,
    GroupEvent,
    GroupLoaded,
    JoinCompleted,
    MemberAdded,
    MemberReconciled,
    MemberRef,
    MemberRefused,
    MemberRemoved,
    MemberReplaced,
    RebalanceCompleted,
    SyncCompleted,
    TargetComputed,
    TopicPartitions,
    Transition,
)
from kshim.coordinator.groups.kinds import CONSUMER_PROTOCOL_TYPE
from kshim.coordinator.step import Event
from kshim.history.activity import Activity
from kshim.history.event import (
    Arrival,
    Course,
    Ending,
    EpochCourse,
    Gap,
    HistoryEvent,
    Kicked,
    Progress,
    Reconciliation,
    StepTaken,
    Timeline,
    Why,
)
from kshim.wording import counted
from kshim_protocol.errors import ErrorCode

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

_STATIC_LEFT: Final = "static_left"
_CONVERTED: Final = {"consumer": "group_upgraded", "classic": "group_downgraded"}
_REFUSED: Final = {
    ErrorCode.FENCED_MEMBER_EPOCH: "fenced_epoch",
    ErrorCode.FENCED_INSTANCE_ID: "fenced_instance_id",
    ErrorCode.UNRELEASED_INSTANCE_ID: "unreleased_instance_id",
}
KEYWORDS: Final = frozenset(
    {*REASONS.values(), "coordinator_loaded", "broker_stopping", _STATIC_LEFT, *_CONVERTED.values(), *_REFUSED.values()}
)
"""Every reason there is."""

_LOADED: Final = "coordinator_loaded"
_STOPPING: Final = "broker_stopping"
_PREPARING: Final = GroupState.PREPARING_REBALANCE.value
_COMPLETING: Final = GroupState.COMPLETING_REBALANCE.value
_STABLE: Final = GroupState.STABLE.value
_ASSIGNING: Final = ConsumerGroupState.ASSIGNING.value
_RECONCILING: Final = ConsumerGroupState.RECONCILING.value
_TYPES: Final = {GroupState: "classic", ConsumerGroupState: "consumer"}
_KICKS: Final = frozenset({Cause.REBALANCE_TIMEOUT, Cause.SESSION_EXPIRED, Cause.SYNC_TIMEOUT, Cause.GROUP_TOO_LARGE})


_MEMBER_STATES: Final = {
    MemberState.STABLE: "Stable",
    MemberState.UNREVOKED_PARTITIONS: "UnrevokedPartitions",
    MemberState.UNRELEASED_PARTITIONS: "UnreleasedPartitions",
    MemberState.UNKNOWN: "Unknown",
}


class BrokerStopping(GroupEvent):
    """After the last event of the coordinator: its broker is being stopped in good order, while the group has members."""

    state: AnyGroupState
    member_count: int
    protocol_type: str | None = None


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
    """What is known of one group. `rebalance` is the open one, `last` the one that was completed last.

    Of the new protocol: `course` is the open rebalance, `unowned` the partitions that nobody has, with the monotonic time since
    when, and the id of who had them before.
    """

    __slots__ = (
        "admin_removed_id",
        "course",
        "epoch",
        "group_id",
        "last",
        "protocol_type",
        "rebalance",
        "seq",
        "type",
        "unowned",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.seq = 0
        self.epoch = 0
        self.protocol_type: str | None = None
        self.type = "classic"
        self.course: EpochCourse | None = None
        self.unowned: dict[tuple[str, int], tuple[int, str]] = {}
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
            BrokerStopping: self._stopping,
            EpochRaised: self._epoch_raised,
            TargetComputed: self._target_computed,
            MemberReconciled: self._member_reconciled,
            MemberRefused: self._member_refused,
            GroupConverted: self._converted,
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
        open_course: Course | None = group.rebalance or group.course
        if open_course is not None and event.cause in _KICKS:
            open_course.kicked.append(Kicked(event.member, reason, event.was_pending))
        if event.was_pending:
            return
        self._has_no_owner(event.revoked, event, event.member, group)
        if event.cause is Cause.MEMBER_LEFT and (event.is_by_instance_id or _is_of_admin(event.member)):
            reason = ADMIN
            group.admin_removed_id = event.member.member_id
        self._emit_of_member("member_left", reason, event, group)

    def _emit_of_member(
        self,
        type_: str,
        reason: str,
        event: MemberAdded | MemberReplaced | MemberRemoved | MemberReconciled | MemberRefused,
        group: GroupHistory,
        replaced_member_id: str | None = None,
        *,
        text: str = "",
        reconciliation: Reconciliation | None = None,
    ) -> None:
        group.type = _TYPES[type(event.state)]
        why = self._why(event, group, reason, text, event.member)
        state = event.state.value
        self._emit_event(
            type_,
            event,
            group,
            why,
            state,
            state,
            replaced_member_id=replaced_member_id,
            activity=self._activity,
            reconciliation=reconciliation,
            offer=event.offer if isinstance(event, MemberAdded | MemberReplaced) else None,
        )

    def _why(self, event: GroupEvent, group: GroupHistory, reason: str, text: str, member: MemberRef | None) -> Why:
        """What an event is about that is none of a rebalance."""
        return Why(
            group.group_id, group.protocol_type, group.epoch, event.generation_id, reason, text, member, group.type
        )

    # The timeline of a rebalance

    def _moved(self, event: Transition, group: GroupHistory) -> None:
        group.protocol_type, group.type = event.protocol_type, _TYPES[type(event.new)]
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
                self._end_course(event, group, event.new.value, "aborted", _ending(event, group))
                group.unowned.clear()
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
        self._emit_event(
            "rebalance_started", event, group, timeline, event.previous.value, event.new.value, offer=event.offer
        )

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

    # The course of an epoch

    def _epoch_raised(self, event: EpochRaised, group: GroupHistory) -> None:
        group.protocol_type, group.type = CONSUMER_PROTOCOL_TYPE, "consumer"
        reason = _ending(event, group)
        state = _ASSIGNING if event.member_count else ConsumerGroupState.EMPTY.value
        waiting = set() if group.course is None else group.course.newcomers - group.course.settled.keys()
        self._end_course(event, group, state, "superseded", reason)
        group.epoch += 1
        course = group.course = EpochCourse(
            group.group_id,
            group.protocol_type,
            group.epoch,
            event.previous_epoch,
            reason,
            event.member,
            event.now.mono_ms,
            event.member_count,
            event.generation_id,
        )
        course.newcomers = waiting
        if event.cause is Cause.MEMBER_JOINED and event.member is not None:
            course.newcomers.add(event.member.member_id)
        self._emit_event(
            "rebalance_started",
            event,
            group,
            course,
            event.previous.value,
            state,
            reconciliation=Reconciliation(),
            offer=event.offer,
        )

    def _target_computed(self, event: TargetComputed, group: GroupHistory) -> None:
        course = group.course
        if course is None:
            return
        course.target_ms = event.now.mono_ms - course.started_ms
        course.protocol = event.assignor
        course.pending_sync = course.expected
        for member, lost, gained in event.changes:
            is_new = member.member_id in course.newcomers
            course.members[member.member_id] = Progress(member, is_new=is_new, lost=lost, gained=gained)
        found = Reconciliation(phases=(course.target_ms, None, None), course=course)
        self._emit_event("target_computed", event, group, course, _ASSIGNING, _RECONCILING, reconciliation=found)

    def _member_reconciled(self, event: MemberReconciled, group: GroupHistory) -> None:
        if event.epoch == LEFT_FOR_NOW_EPOCH:
            self._has_no_owner(event.revoked, event, event.member, group)
            self._emit_of_member("member_left", _STATIC_LEFT, event, group)
            return
        self._has_no_owner(event.revoked, event, event.member, group)
        gaps = self._gaps(event, group)
        if group.course is not None:
            _follow(event, group.course)
            group.course.gaps += gaps
        if event.to_revoke or event.revoked or event.received:
            step = StepTaken(_MEMBER_STATES[event.new], event.epoch, event.to_revoke, event.revoked, event.received)
            found = Reconciliation(gaps=gaps, step=step)
            self._emit_of_member("member_reconciled", REASONS[Cause.RECONCILED], event, group, reconciliation=found)
        if event.state is ConsumerGroupState.STABLE:
            group.unowned.clear()  # nobody is to have what is left: it is not subscribed to any more
            ending = Ending(REASONS[Cause.RECONCILED], "every member is at its target", event.member.member_id)
            self._end_course(event, group, _STABLE, "completed", ending)

    def _member_refused(self, event: MemberRefused, group: GroupHistory) -> None:
        self._emit_of_member("member_refused", _REFUSED[event.error], event, group, text=event.detail)

    def _has_no_owner(
        self, partitions: TopicPartitions, event: GroupEvent, member: MemberRef, group: GroupHistory
    ) -> None:
        for partition in partitions:
            group.unowned[partition] = event.now.mono_ms, member.member_id

    def _gaps(self, event: MemberReconciled, group: GroupHistory) -> list[Gap]:
        """For how long nobody had what a member has got now. What was never owned has no gap."""
        found = []
        for topic, index in event.received:
            since = group.unowned.pop((topic, index), None)
            if since is not None:
                unowned_ms = event.now.mono_ms - since[0]
                found.append(Gap(topic, index, unowned_ms, since[1], event.member.member_id))
        return found

    def _end_course(self, event: GroupEvent, group: GroupHistory, state_to: str, outcome: str, ending: Ending) -> None:
        """End the open rebalance of a group of the new protocol, if there is one."""
        course = group.course
        if course is None:
            return
        group.course = None
        total_ms = event.now.mono_ms - course.started_ms
        is_revoking = any(each.lost and each.revoked_ms is None for each in course.members.values())
        phases = course.phases(total_ms, is_revoking=is_revoking and outcome != "completed")
        course.close()
        self._emit_event(
            "rebalance_completed" if outcome == "completed" else "rebalance_aborted",
            event,
            group,
            course,
            _ASSIGNING if course.target_ms is None else _RECONCILING,
            state_to,
            outcome=outcome,
            ended_by=ending,
            reconciliation=Reconciliation(phases=phases, course=course, gaps=course.gaps),
        )

    def _converted(self, event: GroupConverted, group: GroupHistory) -> None:
        reason = _CONVERTED[event.to_kind]
        states = ConsumerGroupState if event.to_kind == "consumer" else GroupState
        state: AnyGroupState = states.STABLE if event.member_count else states.EMPTY
        ending = Ending(reason, f"the group went over to the {event.to_kind} protocol", None)
        self._end_open(event, group, state, "aborted", ending)
        self._end_course(event, group, state.value, "aborted", ending)
        group.type, group.last = event.to_kind, None
        why = self._why(event, group, reason, ending.text, None)
        self._emit_event("group_converted", event, group, why, None, state.value, to_generation=event.generation_id)

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
        group.protocol_type, group.type = event.protocol_type, _TYPES[type(event.state)]
        ending = Ending(_LOADED, "the group was read from the log", None)
        self._end_open(event, group, event.state, "aborted", ending)
        self._end_course(event, group, event.state.value, "aborted", ending)
        group.last = None
        group.unowned.clear()
        text = f"loaded with {counted(event.member_count, 'member')} in generation {event.generation_id}"
        why = self._why(event, group, _LOADED, text, None)
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

    def _stopping(self, event: BrokerStopping, group: GroupHistory) -> None:
        group.protocol_type, group.type = event.protocol_type, _TYPES[type(event.state)]
        why = self._why(event, group, _STOPPING, "the broker is being stopped", None)
        state = event.state.value
        self._emit_event(_STOPPING, event, group, why, state, state, expected=event.member_count)

    # Emitting

    def _emit_of_group(self, type_: str, event: Transition, group: GroupHistory, to_generation: int | None) -> None:
        reason, text, _ = _ending(event, group)
        why = self._why(event, group, reason, text, event.member)
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
        if isinstance(why, Course):
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


def _follow(event: MemberReconciled, course: EpochCourse) -> None:
    """What a step of a member means to the open rebalance."""
    member, now_ms = event.member, event.now.mono_ms
    at_ms = now_ms - course.started_ms
    progress = course.members.get(member.member_id)
    if event.revoked:
        course.revoked_ms = at_ms
        course.last_to_revoke = course.arrival(member, now_ms)
    if progress is not None:
        if event.to_revoke and progress.told_ms is None:
            progress.told_ms = at_ms
        if event.revoked:
            progress.revoked_ms = at_ms
        if event.received:
            progress.assigned_ms = at_ms
    if event.epoch == course.to_generation and event.new is MemberState.STABLE:
        course.last_to_assign = course.arrival(member, now_ms)
        course.settled[member.member_id] = member
        course.pending_sync = max(course.expected - len(course.settled), 0)


def _ending(event: Transition | EpochRaised, group: GroupHistory) -> Ending:
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
