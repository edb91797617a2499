"""Follows the rebalances of classic groups: a join phase, then the wait for the assignment."""

from __future__ import annotations

from typing import Final

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import (
    AnyGroupState,
    Arrivals,
    GroupEvent,
    JoinCompleted,
    MemberRef,
    RebalanceCompleted,
    SyncCompleted,
    Transition,
)
from kshim.history.course import Arrival, Ending
from kshim.history.emitter import Emitter
from kshim.history.group_history import GroupHistory
from kshim.history.timeline import Timeline

_PREPARING: Final = GroupState.PREPARING_REBALANCE.value
_COMPLETING: Final = GroupState.COMPLETING_REBALANCE.value
_STABLE: Final = GroupState.STABLE.value


class ClassicTracker:
    """Keeps the `Timeline` of each group's rebalance. `initial_delay_ms` is the group.initial.rebalance.delay.ms in force."""

    def __init__(self, emitter: Emitter, *, initial_delay_ms: int) -> None:
        self._emitter = emitter
        self._initial_delay_ms = initial_delay_ms

    def started(self, event: Transition, group: GroupHistory) -> None:
        """The group prepares a rebalance; one that is open ends with that."""
        reason = group.ending(event)
        if group.rebalance is not None:
            is_superseded = event.previous is GroupState.COMPLETING_REBALANCE
            if is_superseded:
                group.rebalance.pending_sync = event.pending_sync_count
            self.end(event, group, event.new, "superseded" if is_superseded else "aborted", reason)
        group.epoch += 1
        group.last = None
        timeline = group.rebalance = Timeline(
            about=group.about(event.generation_id, reason.reason, reason.text, event.member),
            started_ms=event.now.mono_ms,
            expected=event.member_count,
            initial_delay_ms=self._initial_delay_ms if event.previous is GroupState.EMPTY else None,
        )
        self._emitter.emit(
            "rebalance_started", event, group, timeline, event.previous.value, event.new.value, offer=event.offer
        )

    def join_completed(self, event: JoinCompleted, group: GroupHistory) -> None:
        """Every member has joined, or is removed."""
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
        self._emitter.emit("join_completed", event, group, timeline, _PREPARING, _COMPLETING, ended_by=timeline.ending)

    def completed(self, event: RebalanceCompleted, group: GroupHistory) -> None:
        """The assignment is there."""
        timeline = group.rebalance
        if timeline is None:
            return
        group.rebalance = None
        if event.pending_sync_count:  # else no Sync is awaited, and a group that rests keeps nothing of it
            group.last = timeline
        timeline.pending_sync = event.pending_sync_count
        timeline.close()
        last = None if event.last_to_sync is None else _arrival(event.last_to_sync, event.last_sync_ms, timeline)
        self._emitter.emit(
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

    def sync_completed(self, event: SyncCompleted, group: GroupHistory) -> None:
        """Every member has asked for its assignment."""
        timeline = group.last
        if timeline is None:
            return
        timeline.pending_sync = 0
        last = _arrival(event.member, event.sync_ms, timeline)
        self._emitter.emit(
            "sync_completed", event, group, timeline, _STABLE, _STABLE, sync_ms=event.sync_ms, last_to_sync=last
        )

    def end(
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
        self._emitter.emit(
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
