"""The rebalances of a group, from the history: why each began, who was behind it, how long it took."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from kshim.history.course import Course
from kshim.history.epoch_course import EpochCourse
from kshim.history.event import HistoryEvent
from kshim.history.timeline import Timeline

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.groups.events import MemberRef

REASONS: Final = {
    "member_joined": "{who} joined",
    "member_left": "{who} left",
    "session_timeout": "the session of {who} expired: no heartbeat came in time",
    "rebalance_timeout": "{who} did not rejoin before the rebalance timeout was over",
    "sync_timeout": "{who} sent no SyncGroup in time",
    "leader_rejoined": "the leader, {who}, joined again: its topics or partitions changed, or the application asked for it",
    "metadata_changed": "{who} changed its subscription or assignors",
    "static_replaced": "{who} came back with another subscription under the same group.instance.id",
    "append_failed": "the assignment could not be written",
    "group_too_large": "the group had more members than group.max.size allows",
    "admin": "an administrator removed {who}",
    "subscription_changed": "{who} changed its subscription or assignor",
    "topics_changed": "topics of the group were made, deleted or got partitions",
    "state_initialized": "partitions can be read whose state was not there yet",
    "settings_changed": "settings of the group's assignment changed",
    "expression_resolved": "a regular expression stands for other topics",
    "group_upgraded": "the group went over to the new protocol with {who}",
    "group_downgraded": "the group went back to the classic protocol",
}
"""Why a rebalance began: the history's keywords, and what they mean."""
_WITH_EPOCHS: Final = {
    "rebalance_timeout": "{who} did not give up its partitions before its rebalance timeout was over"
}
"""What some of them mean in groups of the new protocol."""


class Rebalance(NamedTuple):
    """One rebalance of a group.

    `why` is the history's keyword, `text` its sentence, `who` the member that caused it, if one did. `duration_ms` is the time from the start
    to the assignment, so far as it came; None while the rebalance is open. `outcome` is `completed`, `superseded` (by the next one),
    `aborted`, or None while it is open. `kicked` are the members that were removed because they did not come in time. `injected_faults` name
    the faults that acted on requests of the group shortly before it or while it was open.

    A classic group has the phases join and sync. One of the new protocol has a rebalance for each group epoch, with the phases compute,
    revoke and assign; `last_to_revoke` is the member whose revocation the others waited for longest, and `unowned_ms` how long a partition
    had no owner at most.
    """

    epoch: int
    why: str
    text: str
    who: MemberRef | None
    from_generation: int
    to_generation: int | None
    started_wall_ms: int
    join_ms: int | None
    sync_ms: int | None
    outcome: str | None
    joined: tuple[MemberRef, ...]
    kicked: tuple[MemberRef, ...]
    injected_faults: tuple[str, ...] = ()
    compute_ms: int | None = None
    revoke_ms: int | None = None
    assign_ms: int | None = None
    last_to_revoke: MemberRef | None = None
    unowned_ms: int | None = None
    has_epochs: bool = False

    @property
    def duration_ms(self) -> int | None:
        """See the class."""
        if self.outcome is None:
            return None
        return sum(each or 0 for each in (self.join_ms, self.sync_ms, self.compute_ms, self.revoke_ms, self.assign_ms))

    def explain(self) -> str:
        """One sentence or two in plain English."""
        sentence = f"Rebalance {self.epoch}: {self.cause()}."
        match self.outcome:
            case None:
                return f"{sentence} It is not over yet."
            case "completed":
                members = f"{len(self.joined)} member{'' if len(self.joined) == 1 else 's'}"
                what = "epoch" if self.has_epochs else "generation"
                sentence = f"{sentence} It took {seconds(self.duration_ms)} and ended in {what} {self.to_generation} with {members}."
            case "superseded":
                sentence = f"{sentence} After {seconds(self.duration_ms)} the next one began before every member had its assignment."
            case _:
                sentence = f"{sentence} It ended after {seconds(self.duration_ms)} without an assignment."
        if self.revoke_ms and self.last_to_revoke is not None:
            sentence += f" {seconds(self.revoke_ms)} of it was the wait until {name_of(self.last_to_revoke)} had given up its partitions."
        if self.unowned_ms:
            sentence += f" Partitions had no owner for up to {seconds(self.unowned_ms)}."
        if self.kicked:
            sentence += f" Removed, because they did not come in time: {', '.join(map(name_of, self.kicked))}."
        if self.injected_faults:
            sentence += f" Faults that were injected before or during it: {'; '.join(self.injected_faults)}."
        return sentence

    def cause(self) -> str:
        """Why it began, in a few words."""
        if self.why == "admin" and self.who is None:
            return f"it was asked for ({self.text})"
        reasons = {**REASONS, **_WITH_EPOCHS} if self.has_epochs else REASONS
        cause = reasons.get(self.why, self.why.replace("_", " ")).format(who=name_of(self.who))
        return cause + _with_reason(self.who)


def name_of(member: MemberRef | None) -> str:
    """A member as a person knows it: its instance or member id, its client id, and where it is."""
    if member is None:
        return "no member"
    kind, name = (
        ("static member", member.group_instance_id) if member.group_instance_id else ("member", member.member_id)
    )
    client = f"client {member.client_id} at " if member.client_id else ""
    return f"{kind} {name} ({client}{member.client_host.removeprefix('/')})"


def _with_reason(member: MemberRef | None) -> str:
    return f', which gave the reason "{member.client_reason}"' if member is not None and member.client_reason else ""


def seconds(duration_ms: int | None) -> str:
    """A time for people."""
    return f"{(duration_ms or 0) / 1_000:.3f} s"


def events_of(cluster: Cluster, group_id: str) -> list[HistoryEvent]:
    """The events of a group that the history still has, the oldest first."""
    return cluster.history.ring.after(0, group_id=group_id)


def rebalances_of(cluster: Cluster, group_id: str) -> tuple[Rebalance, ...]:
    """The rebalances of a group that the history still has, the oldest first."""
    return rebalances_in(events_of(cluster, group_id))


def rebalances_in(events: Iterable[HistoryEvent]) -> tuple[Rebalance, ...]:
    """The rebalances that these events of one group tell of."""
    started: dict[tuple[str, int], HistoryEvent] = {}
    newest: dict[tuple[str, int], HistoryEvent] = {}
    faults: dict[tuple[str, int], dict[str, None]] = {}
    for event in events:
        if isinstance(event.why, Course):
            key = event.run, event.why.about.epoch
            started.setdefault(key, event)
            newest[key] = event
            if event.injected_fault is not None:
                faults.setdefault(key, {})[event.injected_fault] = None
    return tuple(_rebalance(started[key], newest[key], tuple(faults.get(key, ()))) for key in started)


def _rebalance(first: HistoryEvent, last: HistoryEvent, injected_faults: tuple[str, ...]) -> Rebalance:
    timeline = last.why
    if isinstance(timeline, EpochCourse):
        return _epoch_rebalance(first, last, timeline, injected_faults)
    assert isinstance(timeline, Timeline)
    outcome = "completed" if last.type == "sync_completed" else last.outcome
    return Rebalance(
        timeline.about.epoch,
        timeline.about.reason,
        timeline.about.reason_text,
        timeline.about.trigger,
        timeline.about.from_generation,
        timeline.to_generation,
        first.now.wall_ms,
        timeline.join_ms,
        last.sync_ms,
        outcome,
        () if timeline.arrivals is None else timeline.arrivals.members,
        tuple(kicked.member for kicked in timeline.kicked),
        injected_faults,
    )


def _epoch_rebalance(
    first: HistoryEvent, last: HistoryEvent, course: EpochCourse, injected_faults: tuple[str, ...]
) -> Rebalance:
    found = last.reconciliation
    assert found is not None
    compute_ms, revoke_ms, assign_ms = found.phases
    return Rebalance(
        course.about.epoch,
        course.about.reason,
        course.about.reason_text,
        course.about.trigger,
        course.about.from_generation,
        course.to_generation,
        first.now.wall_ms,
        None,
        None,
        last.outcome,
        tuple(course.settled.values()),
        tuple(kicked.member for kicked in course.kicked),
        injected_faults,
        compute_ms,
        revoke_ms,
        assign_ms,
        None if course.last_to_revoke is None else course.last_to_revoke.member,
        max((gap.unowned_ms for gap in course.gaps), default=None),
        has_epochs=True,
    )


def explain(cluster: Cluster, group_id: str) -> str:
    """What happened to a group, a line for each rebalance."""
    lines = [rebalance.explain() for rebalance in rebalances_of(cluster, group_id)]
    return "\n".join(lines) or f"Group {group_id} has not rebalanced."


def timelines(cluster: Cluster) -> dict[str, str]:
    """The timelines of all groups that the history still knows, those that are gone included."""
    group_ids = dict.fromkeys(event.group_id for event in cluster.history.ring)
    return {group_id: timeline_of(cluster, group_id) for group_id in group_ids}


def timeline_of(cluster: Cluster, group_id: str) -> str:
    """Every event of a group in a line, with the seconds since the first one."""
    events = events_of(cluster, group_id)
    if not events:
        return f"Nothing has happened to group {group_id}."
    began_ms = events[0].now.mono_ms
    lines = [f"What happened to group {group_id}:"]
    for event in events:
        states = (
            event.state_to if event.state_from in (None, event.state_to) else f"{event.state_from} -> {event.state_to}"
        )
        generation = "" if event.to_generation is None else f", generation {event.to_generation}"
        about = event.why.about
        member = "" if about.trigger is None else f", {name_of(about.trigger)}{_with_reason(about.trigger)}"
        at = f"+{(event.now.mono_ms - began_ms) / 1_000:.3f} s"
        fault = "" if event.injected_fault is None else f", after the injected fault {event.injected_fault}"
        lines.append(f"{at:>12}  {event.type:<20} {about.reason}{member} [{states}{generation}]{_step(event)}{fault}")
    return "\n".join(lines)


def _step(event: HistoryEvent) -> str:
    """What a member of a group of the new protocol gives up, has given up, and gets."""
    step = None if event.reconciliation is None else event.reconciliation.step
    if step is None:
        return ""
    parts = [f"{name.replace('_', ' ')} {', '.join(each)}" for name, each in step.lists() if each]
    return f": {'; '.join(parts)}"
