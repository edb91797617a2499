"""The rebalances of a group, from the history: why each began, who was behind it, how long it took."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from kshim.history.event import HistoryEvent, Timeline

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
}
"""Why a rebalance began: the history's keywords, and what they mean."""


class Rebalance(NamedTuple):
    """One rebalance of a group.

    `why` is the history's keyword, `text` its sentence, `who` the member that caused it, if one did. `duration_ms` is the time from the start
    to the assignment, so far as it came; None while the rebalance is open. `outcome` is `completed`, `superseded` (by the next one),
    `aborted`, or None while it is open. `kicked` are the members that were removed because they did not come in time. `injected_faults` name
    the faults that acted on requests of the group shortly before it or while it was open.
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

    @property
    def duration_ms(self) -> int | None:
        """See the class."""
        return None if self.outcome is None else (self.join_ms or 0) + (self.sync_ms or 0)

    def explain(self) -> str:
        """One sentence or two in plain English."""
        sentence = f"Rebalance {self.epoch}: {self._cause()}."
        match self.outcome:
            case None:
                return f"{sentence} It is not over yet."
            case "completed":
                members = f"{len(self.joined)} member{'' if len(self.joined) == 1 else 's'}"
                sentence = f"{sentence} It took {seconds(self.duration_ms)} and ended in generation {self.to_generation} with {members}."
            case "superseded":
                sentence = f"{sentence} After {seconds(self.duration_ms)} the next one began before every member had its assignment."
            case _:
                sentence = f"{sentence} It ended after {seconds(self.duration_ms)} without an assignment."
        if self.kicked:
            sentence += f" Removed, because they did not come in time: {', '.join(map(name_of, self.kicked))}."
        if self.injected_faults:
            sentence += f" Faults that were injected before or during it: {'; '.join(self.injected_faults)}."
        return sentence

    def _cause(self) -> str:
        if self.why == "admin" and self.who is None:
            return f"it was asked for ({self.text})"
        cause = REASONS.get(self.why, self.why.replace("_", " ")).format(who=name_of(self.who))
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
        if isinstance(event.why, Timeline):
            key = event.run, event.why.epoch
            started.setdefault(key, event)
            newest[key] = event
            if event.injected_fault is not None:
                faults.setdefault(key, {})[event.injected_fault] = None
    return tuple(_rebalance(started[key], newest[key], tuple(faults.get(key, ()))) for key in started)


def _rebalance(first: HistoryEvent, last: HistoryEvent, injected_faults: tuple[str, ...]) -> Rebalance:
    timeline = last.why
    assert isinstance(timeline, Timeline)
    outcome = "completed" if last.type == "sync_completed" else last.outcome
    return Rebalance(
        timeline.epoch,
        timeline.reason,
        timeline.reason_text,
        timeline.trigger,
        timeline.from_generation,
        timeline.to_generation,
        first.now.wall_ms,
        timeline.join_ms,
        last.sync_ms,
        outcome,
        () if timeline.arrivals is None else timeline.arrivals.members,
        tuple(kicked.member for kicked in timeline.kicked),
        injected_faults,
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
        member = "" if event.why.trigger is None else f", {name_of(event.why.trigger)}{_with_reason(event.why.trigger)}"
        at = f"+{(event.now.mono_ms - began_ms) / 1_000:.3f} s"
        fault = "" if event.injected_fault is None else f", after the injected fault {event.injected_fault}"
        lines.append(f"{at:>12}  {event.type:<20} {event.why.reason}{member} [{states}{generation}]{fault}")
    return "\n".join(lines)
