"""Root causes of one group's episodes: the rules of docs/design/diagnosis.md, the most specific pattern first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from kshim_pipeline.diagnosis.causes import Cause, Confidence, Diagnosed, Subject
from kshim_pipeline.diagnosis.client_activity import ClientActivity, Episode, episode_of
from kshim_pipeline.diagnosis.history import GroupHistory
from kshim_pipeline.diagnosis.sentences import sentence
from kshim_pipeline.diagnosis.signals import Kind, Signal

MANY = 3
"""So often makes a habit: a loop, flapping, two that fight for one place."""

MOST = 0.6
"""This share of a group is nearly all of it: a deploy that is under way, or one that passed a new process by."""

_LEFT_BY_ITSELF = "pro-actively leaving"
"""The reason that Java's static members give when they rejoin after a poll timeout, which is not reported."""

_TOLD_TO = "need to re-join with the given member-id"
"""What Java's dynamic members always say at last, whatever they said before."""

HEARTBEAT_SHARE = 0.4
"""Members learn of a rebalance by their next heartbeat, and the interval is at most a third of the session timeout."""

UNUSUAL = 1.5
"""So many times what is usual in a group is not usual any more."""

SLOW_SYNC_SHARE = 0.2
"""An assignment that takes this share of the session timeout endangers the leader, which does not heartbeat meanwhile."""


def diagnose(history: GroupHistory) -> Iterator[Diagnosed]:
    """The incidents of one group, in order."""
    alive: dict[str, str] = {}
    usual = _Usual(history)
    for signals in history.episodes():
        episode = episode_of(history, signals, alive)
        yield from _explain(history, episode, usual)


def _explain(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    for rule in _RULES:
        if found := rule(history, episode, usual):
            return found
    return []


class _Usual:
    """The usual length of a JOIN phase in this group."""

    def __init__(self, history: GroupHistory) -> None:
        self._waits = sorted(signal.wait_ms or 0 for signal in history.signals if signal.kind is Kind.JOIN_OVER)

    def join_ms_but(self, wait_ms: int) -> float:
        """The median of all others but one of `wait_ms`; 0 if there are too few."""
        others = list(self._waits)
        others.remove(wait_ms)
        return median(others) if len(others) >= MANY else 0.0


def _host_stalled(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """Members of other services on the same host went silent at the same time."""
    stalled = [
        (signal.stall, activity)
        for activity in episode.activities.values()
        for signal in activity.deaths
        if signal.stall is not None
    ]
    found: list[Diagnosed] = []
    for host in sorted({host for host, _ in stalled}):
        activities = [activity for where, activity in stalled if where == host]
        found.append(_finding(history, episode, Cause.HOST_STALLED, activities, host=host))
    return found


def _duplicate_instance(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """A static member alternates between hosts: two processes use the same instance id."""
    return [
        _finding(history, episode, Cause.DUPLICATE_INSTANCE, [activity])
        for activity in episode.activities.values()
        if len(activity.replacements) >= MANY - 1 and _alternates(activity.hosts)
    ]


def _alternates(hosts: list[str]) -> bool:
    return any(a == c != b for a, b, c in zip(hosts, hosts[1:], hosts[2:], strict=False))


def _loops(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """One client repeatedly crashes (crash loop), leaves (flapping) or polls too late."""
    found: list[Diagnosed] = []
    for activity in episode.activities.values():
        silent = len(activity.deaths) + len(activity.replacements)
        if len(activity.leaves) >= MANY and len(activity.leaves) >= silent:
            found.append(_finding(history, episode, Cause.FLAPPING, [activity]))
        elif silent >= MANY or (len(activity.starts) >= MANY and silent > len(activity.leaves)):
            found.append(_finding(history, episode, Cause.CRASH_LOOP, [activity]))
    return found if len(found) < max(2, MOST * len(episode.before)) else []


def _deploy(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """Nearly all processes shut down cleanly and as many joined; or nearly all static members rejoined."""
    turned = [c for c in episode.activities.values() if c.was_there and (c.leaves or c.replacements)]
    came = sum(bool(c.starts or c.replacements) for c in episode.activities.values())
    if len(turned) < max(2, MOST * len(episode.before)) or came < MOST * len(turned):
        return []
    return [_finding(history, episode, Cause.DEPLOY, list(episode.activities.values()))]


def _one_by_one_start(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """A group started from Empty. That does not explain members that failed or were removed since."""
    started = [activity for activity in episode.activities.values() if activity.starts]
    if episode.before or not started:
        return []
    gone = [s for activity in started for s in (*activity.deaths, *activity.kicks, *activity.poll_timeouts)]
    if not gone:
        return [_finding(history, episode, Cause.ONE_BY_ONE_START, started)]
    begun = [s.ts_ms for activity in started for s in activity.starts]
    start = episode._replace(from_ms=min(begun), to_ms=max(begun))
    since = episode._replace(from_ms=max(min(history.silent_since_ms(s) for s in gone), episode.from_ms))
    found = [_finding(history, start, Cause.ONE_BY_ONE_START, started)]
    return [*found, *(_left_for_polls(history, since, usual) or _deaths(history, since, usual))]


def _left_for_polls(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """A member was removed, or left, because its application did not poll."""
    slow = [c for c in episode.activities.values() if c.poll_timeouts or c.kicks or _died_polling(history, c)]
    return [_finding(history, episode, Cause.SLOW_POLL, [activity]) for activity in slow]


def _died_polling(history: GroupHistory, activity: ClientActivity) -> bool:
    """Whether a static member stopped polling: it does not leave, but its session expires later than that of a killed process."""
    for death in activity.deaths:
        if death.member_id is None or activity.client.instance_id is None or activity.overlaps:
            continue
        last_commit_ms = history.last_commit_ms(death.member_id, death.ts_ms)
        if last_commit_ms is None:
            continue
        without_commit_ms = death.ts_ms - last_commit_ms
        if without_commit_ms > history.session_ms + 0.8 * history.rebalance_ms:
            return True
    return False


def _deaths(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """A session expired."""
    return [
        _finding(history, episode, _cause_of_death(history, activity), [activity])
        for activity in episode.activities.values()
        if activity.deaths
    ]


def _cause_of_death(history: GroupHistory, activity: ClientActivity) -> Cause:
    death = activity.deaths[0]
    if death.state == "CompletingRebalance":
        return Cause.SLOW_LEADER  # who has synced is waited for; who leads has not
    back = [start for start in activity.starts if start.ts_ms >= death.ts_ms]
    if activity.overlaps or not back:
        return Cause.KILLED
    reason = back[0].client_reason
    if history.gives_reasons and not reason:
        return Cause.KILLED  # a process that goes on says what became of it; one that begins has nothing to say
    return Cause.SLOW_POLL if reason and _LEFT_BY_ITSELF in reason else Cause.PAUSED


def _is_telling(client_reason: str | None) -> bool:
    return bool(client_reason) and _TOLD_TO not in str(client_reason)


def _slow_leader(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """The assignment was slow."""
    slow = [s for s in episode.syncs_over if (s.wait_ms or 0) > SLOW_SYNC_SHARE * history.session_ms]
    if not slow:
        return []
    worst = max(slow, key=lambda signal: signal.wait_ms or 0)
    return [_finding(history, episode, Cause.SLOW_LEADER, [_activity_of(history, episode, worst.member_id)])]


def _slow_join(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """All members waited for an existing member: longer than heartbeats explain, and longer than usual."""
    least_ms = HEARTBEAT_SHARE * history.session_ms
    for signal in sorted(episode.joins_over, key=lambda signal: -(signal.wait_ms or 0)):
        wait_ms = signal.wait_ms or 0
        if wait_ms <= max(least_ms, UNUSUAL * usual.join_ms_but(wait_ms)) or signal.is_new:
            continue
        if _ended_by_departure(episode, signal):
            continue
        if (member_id := signal.member_id or _last_to_commit(history, signal)) is not None:
            return [_finding(history, episode, Cause.SLOW_POLL, [_activity_of(history, episode, member_id)])]
    return []


def _ended_by_departure(episode: Episode, join_over: Signal) -> bool:
    """Whether the phase ended because an awaited member was removed."""
    gone = (Kind.EXPIRED, Kind.KICKED, Kind.LEFT)
    return any(s.kind in gone and 0 <= join_over.ts_ms - s.ts_ms <= 20 for s in episode.signals) and (
        join_over.member_id is None
    )


def _last_to_commit(history: GroupHistory, join_over: Signal) -> str | None:
    """The member with the latest commit before the end of the phase: consumers commit before they rejoin."""
    snapshot = history.snapshot_before(join_over.ts_ms - (join_over.wait_ms or 0))
    if snapshot is None:
        return None
    commits = [
        (at, member.member_id)
        for member in snapshot.members
        if (at := history.last_commit_ms(member.member_id, join_over.ts_ms)) is not None
    ]
    return max(commits)[1] if commits else None


def _static_restart(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """A static member rejoined within its session timeout."""
    return [
        _finding(history, episode, Cause.STATIC_RESTART, [activity])
        for activity in episode.activities.values()
        if activity.replacements
    ]


def _restart(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """A member left, and it or a successor joined."""
    left = [activity for activity in episode.activities.values() if activity.leaves and activity.was_there]
    back = [activity for activity in left if activity.starts]
    if back:
        return [_finding(history, episode, Cause.RESTART, [activity]) for activity in back]
    new = [activity for activity in episode.activities.values() if activity.starts and not activity.was_there]
    if left and len(left) == len(new):
        return [_finding(history, episode, Cause.RESTART, [activity]) for activity in left]
    return []


def _scaled(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """Members joined, or left, and nothing else happened."""
    came = [activity for activity in episode.activities.values() if activity.starts and activity.is_there]
    went = [activity for activity in episode.activities.values() if activity.leaves and not activity.is_there]
    found: list[Diagnosed] = []
    if came:
        found.append(_finding(history, episode, Cause.SCALE_UP, came))
    if went:
        found.append(_finding(history, episode, Cause.SCALE_DOWN, went))
    return found


def _rejoined(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """The members are the same: one of them requested a rebalance."""
    if episode.resubscriptions:
        activity = _activity_of(history, episode, episode.resubscriptions[0].member_id)
        return [_finding(history, episode, Cause.SUBSCRIPTION_CHANGED, [activity])]
    if episode.growths:
        return [_finding(history, episode, Cause.PARTITIONS_ADDED, [])]
    for signal in episode.rejoins:
        reason = signal.client_reason or ""
        activities = [_activity_of(history, episode, signal.member_id)]
        if "subscription has changed" in reason:
            return [_finding(history, episode, Cause.SUBSCRIPTION_CHANGED, activities)]
        if "metadata has changed" in reason:
            return [_finding(history, episode, Cause.PARTITIONS_ADDED, [])]
        if "enforced" in reason:
            return [_finding(history, episode, Cause.REBALANCE_ENFORCED, activities)]
    if episode.rejoins:
        return [
            _finding(
                history, episode, Cause.UNEXPLAINED, [_activity_of(history, episode, episode.rejoins[0].member_id)]
            )
        ]
    return []


def _unexplained(history: GroupHistory, episode: Episode, usual: _Usual) -> list[Diagnosed]:
    """No rule matches."""
    if not episode.joins_over and not episode.activities:
        return []
    return [_finding(history, episode, Cause.UNEXPLAINED, list(episode.activities.values()))]


_RULES: tuple[Callable[[GroupHistory, Episode, _Usual], list[Diagnosed]], ...] = (
    _host_stalled,
    _duplicate_instance,
    _deploy,
    _loops,
    _one_by_one_start,
    _left_for_polls,
    _deaths,
    _slow_leader,
    _slow_join,
    _static_restart,
    _restart,
    _scaled,
    _rejoined,
    _unexplained,
)

_SUBJECTS = {
    Cause.DEPLOY: Subject.GROUP,
    Cause.ONE_BY_ONE_START: Subject.GROUP,
    Cause.PARTITIONS_ADDED: Subject.GROUP,
    Cause.HOST_STALLED: Subject.HOST,
    Cause.SCALE_UP: Subject.CLIENTS,
    Cause.SCALE_DOWN: Subject.CLIENTS,
}


def _activity_of(history: GroupHistory, episode: Episode, member_id: str | None) -> ClientActivity:
    """The activity of a member that need not have joined or left."""
    if member_id is None:
        return ClientActivity(history.client(""))
    client = history.client(member_id)
    if client.name in episode.activities:
        return episode.activities[client.name]
    activity = ClientActivity(client)
    activity.member_ids.append(member_id)
    return activity


def _finding(
    history: GroupHistory, episode: Episode, cause: Cause, activities: list[ClientActivity], *, host: str | None = None
) -> Diagnosed:
    subject = _SUBJECTS.get(cause, Subject.CLIENT) if activities else Subject.GROUP
    if subject is Subject.CLIENT:
        host = activities[0].client.host
    clients = tuple(sorted({activity.client.name for activity in activities}))
    confidence = _confidence(history, episode, cause, activities)
    times = max((max(len(c.starts) + len(c.replacements), len(c.deaths), len(c.leaves)) for c in activities), default=0)
    return Diagnosed(
        from_ms=episode.from_ms,
        to_ms=episode.to_ms,
        quiet_ms=history.quiet_ms,
        cause=cause,
        subject=subject,
        clients=clients,
        host=host,
        member_ids=tuple(dict.fromkeys(member_id for activity in activities for member_id in activity.member_ids)),
        confidence=confidence,
        sentence=sentence(cause, clients, host=host, times=times, confidence=confidence),
        is_observed=episode.is_observed,
        evidence=episode.evidence,
    )


def _confidence(history: GroupHistory, episode: Episode, cause: Cause, activities: list[ClientActivity]) -> Confidence:
    if cause is Cause.UNEXPLAINED:
        return Confidence.LOW
    if cause is Cause.CRASH_LOOP and all(c.replacements and not c.deaths and not any(c.hosts) for c in activities):
        return Confidence.LOW  # without hosts, two processes with one instance id look the same
    if cause is Cause.PAUSED and not any(_is_telling(start.client_reason) for c in activities for start in c.starts):
        return Confidence.LOW  # as does a process that was killed and started again late
    if not episode.is_observed:
        return Confidence.LOW if cause in (Cause.SLOW_POLL, Cause.KILLED, Cause.PAUSED) else Confidence.MEDIUM
    if cause in (Cause.SLOW_POLL, Cause.SLOW_LEADER) and any(s.member_id for s in episode.joins_over):
        return Confidence.HIGH  # its wait was measured
    return Confidence.HIGH if history.gives_reasons else Confidence.MEDIUM
