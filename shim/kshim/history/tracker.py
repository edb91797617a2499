"""From the coordinator's events to those of the history: follows each group's rebalance from its start to its end.

No clock, no I/O: the coordinator's events carry the time. `docs/design/events.md` defines what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer.state import ConsumerGroupState
from kshim.coordinator.groups.events import (
    AnyGroupState,
    Cause,
    DeliveryFailed,
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
    Transition,
)
from kshim.coordinator.groups.share.state import ShareGroupState
from kshim.coordinator.groups.streams.state import StreamsGroupState
from kshim.coordinator.step import Event
from kshim.history.activity import Activity
from kshim.history.classic_tracker import ClassicTracker
from kshim.history.course import Course, Ending, Kicked
from kshim.history.emitter import Emitter, InjectedFault
from kshim.history.epoch_tracker import EpochTracker
from kshim.history.event import HistoryEvent
from kshim.history.group_history import GroupHistory
from kshim.history.keywords import ADMIN, ADMIN_LEAVE_REASON, CONVERTED, LOADED, REASONS, STOPPING
from kshim.history.topic_changes import TopicChange
from kshim.share_partitions.troubles import DELIVERY_LIMIT, REJECTED, RENEWED
from kshim.wording import counted

_KICKS: Final = frozenset({Cause.REBALANCE_TIMEOUT, Cause.SESSION_EXPIRED, Cause.SYNC_TIMEOUT, Cause.GROUP_TOO_LARGE})


_TYPES_OF_RECORDS: Final = {
    DELIVERY_LIMIT: "records_archived",
    REJECTED: "records_archived",
    RENEWED: "records_held",
}


class BrokerStopping(GroupEvent):
    """After the last event of the coordinator: its broker is being stopped in good order, while the group has members."""

    state: AnyGroupState
    member_count: int
    protocol_type: str | None = None


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
        self._emitter = Emitter(emit, run=run)
        self._classic = ClassicTracker(self._emitter, initial_delay_ms=initial_delay_ms)
        self._epochs = EpochTracker(self._emitter)
        self.followers: Final[dict[type, Callable[[Any, GroupHistory], None]]] = {
            Transition: self._moved,
            MemberAdded: self._member_added,
            MemberReplaced: self._member_replaced,
            MemberRemoved: self._member_removed,
            JoinCompleted: self._classic.join_completed,
            RebalanceCompleted: self._classic.completed,
            SyncCompleted: self._classic.sync_completed,
            GroupLoaded: self._loaded,
            BrokerStopping: self._stopping,
            EpochRaised: self._epochs.epoch_raised,
            TargetComputed: self._epochs.target_computed,
            MemberReconciled: self._epochs.member_reconciled,
            MemberRefused: self._epochs.member_refused,
            GroupConverted: self._converted,
            DeliveryFailed: self._delivery_failed,
        }
        """The events that mean something to history, and what is made of them."""

    def observe(
        self,
        event: Event | InjectedFault,
        broker: int,
        activity: Activity | None = None,
        topic_changes: tuple[TopicChange, ...] = (),
    ) -> None:
        """Follow one event of the coordinator; `broker` is the node id of that coordinator, `activity` that of the member.

        `topic_changes`: of late, of what the group reads, if the event begins a rebalance.
        """
        follow = self.followers.get(type(event))
        if follow is None:
            if isinstance(event, InjectedFault):
                self._emitter.fault_injected(event)
            return
        self._emitter.broker, self._emitter.activity = broker, activity
        self._emitter.topic_changes = topic_changes
        assert isinstance(event, GroupEvent)
        group = self.groups.get(event.group_id)
        if group is None:
            group = self.groups[event.group_id] = GroupHistory(event.group_id)
        follow(event, group)

    # Members

    def _member_added(self, event: MemberAdded, group: GroupHistory) -> None:
        if group.rebalance is not None and event.state is GroupState.PREPARING_REBALANCE:
            group.rebalance.expected += 1
        self._emitter.emit_of_member("member_joined", "member_joined", event, group)

    def _member_replaced(self, event: MemberReplaced, group: GroupHistory) -> None:
        self._emitter.emit_of_member("member_fenced", "static_replaced", event, group, event.replaced_member_id)

    def _member_removed(self, event: MemberRemoved, group: GroupHistory) -> None:
        reason = REASONS[event.cause]
        open_course: Course | None = group.rebalance or group.course
        if open_course is not None and event.cause in _KICKS:
            open_course.kicked.append(Kicked(event.member, reason, event.was_pending))
        if event.was_pending:
            return
        group.is_in(event.state)
        self._epochs.has_no_owner(event.revoked, event, event.member, group)
        if event.cause is Cause.MEMBER_LEFT and (event.is_by_instance_id or _is_of_admin(event.member)):
            reason = ADMIN
            group.admin_removed_id = event.member.member_id
        self._emitter.emit_of_member("member_left", reason, event, group)

    def _delivery_failed(self, event: DeliveryFailed, group: GroupHistory) -> None:
        """Records of a share group came back, were given up, or are held for long."""
        type_ = _TYPES_OF_RECORDS.get(event.reason, "records_returned")
        self._emitter.emit_of_member(type_, event.reason, event, group)

    # The group

    def _moved(self, event: Transition, group: GroupHistory) -> None:
        group.is_in(event.new)
        group.protocol_type = event.protocol_type
        match event.new:
            case GroupState.PREPARING_REBALANCE:
                self._classic.started(event, group)
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                if group.rebalance is not None:
                    group.rebalance.ending = group.ending(event)
            case GroupState.EMPTY:
                self._classic.end(event, group, event.new, "aborted", group.ending(event))
                self._emitter.emit_of_group("group_emptied", event, group, event.generation_id)
            case ConsumerGroupState.EMPTY | StreamsGroupState.EMPTY | ShareGroupState.EMPTY:
                self._epochs.end(event, group, event.new, "aborted", group.ending(event))
                group.unowned.clear()
                self._emitter.emit_of_group("group_emptied", event, group, event.generation_id)
            case GroupState.DEAD | ConsumerGroupState.DEAD | StreamsGroupState.DEAD | ShareGroupState.DEAD:
                self._emitter.emit_of_group("group_dead", event, group, None)
                del self.groups[group.group_id]
            case ConsumerGroupState() | StreamsGroupState() | ShareGroupState():
                pass  # its rebalance is told by other events

    def _converted(self, event: GroupConverted, group: GroupHistory) -> None:
        reason = CONVERTED[event.to_kind]
        states = ConsumerGroupState if event.to_kind == "consumer" else GroupState
        state: AnyGroupState = states.STABLE if event.member_count else states.EMPTY
        text = f"the group went over to the {event.to_kind} protocol"
        self._abort(event, group, state, Ending(reason, text, None))
        group.type = event.to_kind
        why = group.why(event, reason, text)
        self._emitter.emit("group_converted", event, group, why, None, state.value, to_generation=event.generation_id)

    def _loaded(self, event: GroupLoaded, group: GroupHistory) -> None:
        group.is_in(event.state)
        group.protocol_type = event.protocol_type
        self._abort(event, group, event.state, Ending(LOADED, "the group was read from the log", None))
        group.unowned.clear()
        text = f"loaded with {counted(event.member_count, 'member')} in generation {event.generation_id}"
        self._emitter.emit(
            LOADED,
            event,
            group,
            group.why(event, LOADED, text),
            None,
            event.state.value,
            to_generation=event.generation_id,
            expected=event.member_count,
        )

    def _stopping(self, event: BrokerStopping, group: GroupHistory) -> None:
        group.is_in(event.state)
        group.protocol_type = event.protocol_type
        why = group.why(event, STOPPING, "the broker is being stopped")
        state = event.state.value
        self._emitter.emit(STOPPING, event, group, why, state, state, expected=event.member_count)

    def _abort(self, event: GroupEvent, group: GroupHistory, state_to: AnyGroupState, ending: Ending) -> None:
        """Whatever rebalance of the group was known is over."""
        self._classic.end(event, group, state_to, "aborted", ending)
        self._epochs.end(event, group, state_to, "aborted", ending)
        group.last = None


def _is_of_admin(member: MemberRef) -> bool:
    return member.client_reason is not None and member.client_reason.startswith(ADMIN_LEAVE_REASON)
