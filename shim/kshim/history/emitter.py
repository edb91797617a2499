"""How events of the history come out: numbered, with what all of them say, and with the faults before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kshim.coordinator.groups.events import (
    DeliveryFailed,
    GroupEvent,
    MemberAdded,
    MemberReconciled,
    MemberRefused,
    MemberRemoved,
    MemberReplaced,
    Offer,
    Transition,
    Wish,
)
from kshim.history.activity import Activity
from kshim.history.course import Arrival, Course, Ending, Why
from kshim.history.epoch_course import Reconciliation
from kshim.history.event import HistoryEvent
from kshim.history.group_history import GroupHistory
from kshim.history.topic_changes import TopicChange


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


class Emitter:
    """Makes events of one run and hands them over. `broker`, `activity` and `topic_changes` are those of the event that is followed."""

    def __init__(self, hand_over: Callable[[HistoryEvent], None], *, run: str) -> None:
        self.broker = -1
        self.activity: Activity | None = None
        self.topic_changes: tuple[TopicChange, ...] = ()
        self._hand_over = hand_over
        self._run = run
        self._number = 0
        self._faults: dict[str, FaultsOfGroup] = {}

    def emit(
        self,
        type_: str,
        event: GroupEvent,
        group: GroupHistory,
        why: Why,
        state_from: str | None,
        state_to: str,
        *,
        to_generation: int | None = None,
        expected: int | None = None,
        sync_ms: int | None = None,
        last_to_sync: Arrival | None = None,
        outcome: str | None = None,
        ended_by: Ending | None = None,
        replaced_member_id: str | None = None,
        activity: Activity | None = None,
        reconciliation: Reconciliation | None = None,
        offer: Offer | Wish | None = None,
        records: DeliveryFailed | None = None,
    ) -> None:
        """What a rebalance has comes from it; so do its generation and how many it expects."""
        kicked_count, pending_sync = 0, None
        if isinstance(why, Course):
            to_generation, expected = why.to_generation, why.expected
            kicked_count, pending_sync = len(why.kicked), why.pending_sync
        injected_fault = self._faults_before(event) if self._faults else None
        self._number += 1
        group.seq += 1
        self._hand_over(
            HistoryEvent(
                type_,
                self._run,
                self._number,
                group.seq,
                event.now,
                self.broker,
                why,
                state_from,
                state_to,
                to_generation,
                expected,
                kicked_count,
                pending_sync,
                sync_ms,
                last_to_sync,
                outcome,
                ended_by,
                replaced_member_id,
                injected_fault,
                activity,
                reconciliation,
                offer,
                records,
                self.topic_changes if type_ == "rebalance_started" else None,
            )
        )

    def emit_of_member(
        self,
        type_: str,
        reason: str,
        event: MemberAdded | MemberReplaced | MemberRemoved | MemberReconciled | MemberRefused | DeliveryFailed,
        group: GroupHistory,
        replaced_member_id: str | None = None,
        *,
        text: str = "",
        reconciliation: Reconciliation | None = None,
    ) -> None:
        """Something that happened to one member, and changed nothing in the state of the group."""
        group.is_in(event.state)
        state = event.state.value
        self.emit(
            type_,
            event,
            group,
            group.why(event, reason, text, event.member),
            state,
            state,
            replaced_member_id=replaced_member_id,
            activity=self.activity,
            reconciliation=reconciliation,
            offer=event.offer if isinstance(event, (MemberAdded, MemberReplaced, MemberRefused)) else None,
            records=event if isinstance(event, DeliveryFailed) else None,
        )

    def emit_of_group(self, type_: str, event: Transition, group: GroupHistory, to_generation: int | None) -> None:
        """A transition of the whole group that is no part of a rebalance."""
        reason, text, _ = group.ending(event)
        why = group.why(event, reason, text, event.member)
        self.emit(type_, event, group, why, event.previous.value, event.new.value, to_generation=to_generation)

    def fault_injected(self, fault: InjectedFault) -> None:
        """The next events of the group name it."""
        faults = self._faults.get(fault.group_id)
        if faults is None or faults.told_ms is not None:
            faults = self._faults[fault.group_id] = FaultsOfGroup()
        faults.names[fault.name] = None

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
