"""Follows the rebalances of groups with epochs: a target is computed, then each member goes its way to it."""

from __future__ import annotations

from typing import Final

from kshim.coordinator.groups.consumer.group import LEFT_FOR_NOW_EPOCH
from kshim.coordinator.groups.consumer.state import ConsumerGroupState
from kshim.coordinator.groups.events import (
    AnyGroupState,
    AnyMemberState,
    Cause,
    EpochRaised,
    GroupEvent,
    MemberReconciled,
    MemberRef,
    MemberRefused,
    TargetComputed,
    TopicPartitions,
)
from kshim.coordinator.groups.kinds import GroupKind
from kshim.history.course import Ending
from kshim.history.emitter import Emitter
from kshim.history.epoch_course import EpochCourse, Gap, Progress, Reconciliation, StepTaken
from kshim.history.group_history import PROTOCOL_TYPES, GroupHistory
from kshim.history.keywords import REASONS, REFUSED, STATIC_LEFT

_ASSIGNING: Final = ConsumerGroupState.ASSIGNING.value
_RECONCILING: Final = ConsumerGroupState.RECONCILING.value
_NOTHING_YET: Final = Reconciliation()
_STABLE: Final = ConsumerGroupState.STABLE.value
_SHARE: Final = GroupKind.SHARE.value
_STREAMS: Final = GroupKind.STREAMS.value
"""Words that groups of several kinds have in common."""


class EpochTracker:
    """Keeps the `EpochCourse` of each group's rebalance, and since when partitions have no owner."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter

    def epoch_raised(self, event: EpochRaised, group: GroupHistory) -> None:
        """Another target has to be computed; a rebalance that is open ends with that."""
        group.is_in(event.previous)
        group.protocol_type = PROTOCOL_TYPES[group.type]
        reason = group.ending(event)
        state = event.next_state
        if state is None:
            state = ConsumerGroupState.ASSIGNING if event.member_count else ConsumerGroupState.EMPTY
        newcomers: set[str] = set()
        if group.course is not None:
            newcomers = group.course.newcomers  # which ends now, and needs them no more
            newcomers.difference_update(group.course.settled)
        if event.cause is Cause.MEMBER_JOINED and event.member is not None:
            newcomers.add(event.member.member_id)
        self.end(event, group, state, "superseded", reason)
        group.epoch += 1
        course = group.course = EpochCourse(
            about=group.about(event.previous_epoch, reason.reason, reason.text, event.member),
            started_ms=event.now.mono_ms,
            expected=event.member_count,
            to_generation=event.generation_id,
            newcomers=newcomers,
        )
        if event.member_count or event.next_state is not None:
            course.state = state.value
        self._emitter.emit(
            "rebalance_started",
            event,
            group,
            course,
            event.previous.value,
            state.value,
            reconciliation=_NOTHING_YET,
            offer=event.offer,
        )

    def target_computed(self, event: TargetComputed, group: GroupHistory) -> None:
        """Members can be told what to give up and what they get."""
        course = group.course
        if course is None:
            return
        course.target_ms = event.now.mono_ms - course.started_ms
        course.protocol = event.assignor
        course.pending_sync = course.expected
        for member, lost, gained in event.changes:
            is_new = member.member_id in course.newcomers
            course.members[member.member_id] = Progress(member=member, is_new=is_new, lost=lost, gained=gained)
        found = Reconciliation(phases=(course.target_ms, None, None), course=course)
        before = course.state
        if before == _ASSIGNING:
            course.state = _RECONCILING
        self._emitter.emit("target_computed", event, group, course, before, course.state, reconciliation=found)

    def member_reconciled(self, event: MemberReconciled, group: GroupHistory) -> None:
        """A member has done a step. With the last one the rebalance is completed."""
        group.is_in(event.state)
        self.has_no_owner(event.revoked, event, event.member, group)
        if event.epoch == LEFT_FOR_NOW_EPOCH:
            self._emitter.emit_of_member("member_left", STATIC_LEFT, event, group)
            return
        gaps = _gaps(event, group)
        if group.course is not None:
            _follow(event, group.course)
            group.course.gaps += gaps
        if _has_moved(event):
            step = StepTaken(
                _word(event.new),
                event.epoch,
                event.to_revoke,
                event.revoked,
                event.received,
                event.standby_revoked,
                event.standby_received,
                event.promoted,
                "_" if group.type == _STREAMS else "-",
            )
            found = Reconciliation(gaps=gaps, step=step)
            reason = REASONS[Cause.RECONCILED]
            self._emitter.emit_of_member("member_reconciled", reason, event, group, reconciliation=found)
        if event.state.value == _STABLE and (group.type != _SHARE or _is_over(group.course)):
            group.unowned.clear()  # nobody is to have what is left: it is not subscribed to any more
            ending = Ending(REASONS[Cause.RECONCILED], "every member is at its target", event.member.member_id)
            self.end(event, group, event.state, "completed", ending)

    def member_refused(self, event: MemberRefused, group: GroupHistory) -> None:
        """A request of a member was answered with an error."""
        if group.is_refused_again(event):
            return
        self._emitter.emit_of_member("member_refused", REFUSED[event.error], event, group, text=event.detail)

    def has_no_owner(
        self, partitions: TopicPartitions, event: GroupEvent, member: MemberRef, group: GroupHistory
    ) -> None:
        """Nobody has these from now on; `member` had them. Partitions of share groups have several readers, and are left out."""
        if group.type == _SHARE:
            return
        for partition in partitions:
            group.unowned[partition] = event.now.mono_ms, member.member_id

    def end(
        self, event: GroupEvent, group: GroupHistory, state_to: AnyGroupState, outcome: str, ending: Ending
    ) -> None:
        """End the open rebalance, if there is one."""
        course = group.course
        if course is None:
            return
        group.course = None
        total_ms = event.now.mono_ms - course.started_ms
        is_revoking = outcome != "completed" and bool(course.members)
        if is_revoking:
            is_revoking = any(each.lost and each.revoked_ms is None for each in course.members.values())
        phases = course.phases(total_ms, is_revoking=is_revoking)
        course.close()
        self._emitter.emit(
            "rebalance_completed" if outcome == "completed" else "rebalance_aborted",
            event,
            group,
            course,
            course.state,
            state_to.value,
            outcome=outcome,
            ended_by=ending,
            reconciliation=Reconciliation(phases=phases, course=course, gaps=course.gaps),
        )


def _gaps(event: MemberReconciled, group: GroupHistory) -> list[Gap]:
    """For how long nobody had what a member has got now. What was never owned has no gap."""
    found = []
    for topic, index in event.received:
        since = group.unowned.pop((topic, index), None)
        if since is not None:
            unowned_ms = event.now.mono_ms - since[0]
            had_state = (topic, index) in event.promoted if group.type == _STREAMS else None
            found.append(Gap(topic, index, unowned_ms, since[1], event.member.member_id, had_state))
    return found


def _word(state: AnyMemberState) -> str:
    """As Kafka's class names say it: `UnrevokedPartitions`, `UnrevokedTasks`."""
    return state.name.title().replace("_", "")


def _is_over(course: EpochCourse | None) -> bool:
    """Whether all members of a share group, which is always Stable, have taken the epoch."""
    return course is not None and course.pending_sync == 0


def _has_moved(event: MemberReconciled) -> bool:
    """Whether partitions or tasks went to the member or from it, or are to go."""
    return bool(event.to_revoke or event.revoked or event.received or event.standby_revoked or event.standby_received)


def _follow(event: MemberReconciled, course: EpochCourse) -> None:
    """What a step of a member means to the open rebalance."""
    member, now_ms = event.member, event.now.mono_ms
    at_ms = now_ms - course.started_ms
    progress = course.members.get(member.member_id)
    has_revoked, has_received = event.revoked or event.standby_revoked, event.received or event.standby_received
    if has_revoked:
        course.revoked_ms = at_ms
        course.last_to_revoke = course.arrival(member, now_ms)
    if progress is not None:
        if event.to_revoke and progress.told_ms is None:
            progress.told_ms = at_ms
        if has_revoked:
            progress.revoked_ms = at_ms
        if has_received:
            progress.assigned_ms = at_ms
    if event.epoch == course.to_generation and _word(event.new) == _STABLE:
        course.last_to_assign = course.arrival(member, now_ms)
        course.settled[member.member_id] = member
        course.pending_sync = max(course.expected - len(course.settled), 0)
