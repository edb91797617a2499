"""What each client did in one episode: the patterns that rules look for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kshim_pipeline.diagnosis.history import Client, GroupHistory
from kshim_pipeline.diagnosis.signals import Evidence, Kind, Signal

_REVOKED = "need to revoke partitions and re-join"
_POLL_TIMEOUT = "poll timeout has expired"
_OF_RECORDS = {Kind.RESUBSCRIBED, Kind.PARTITIONS_ADDED}
_OF_MEMBERS = {Kind.JOINED, Kind.LEFT, Kind.EXPIRED, Kind.KICKED, Kind.REPLACED}


class ClientActivity:
    """Signals of one client by kind."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.starts: list[Signal] = []
        self.leaves: list[Signal] = []
        self.poll_timeouts: list[Signal] = []
        self.deaths: list[Signal] = []
        self.kicks: list[Signal] = []
        self.replacements: list[Signal] = []
        self.overlaps = 0
        """Starts while an earlier life of it was still counted as a member."""
        self.hosts: list[str] = []
        """Where it came from, start by start."""
        self.member_ids: list[str] = []
        self.was_there = False
        self.is_there = False

    @property
    def signals(self) -> list[Signal]:
        """All signals, in order."""
        parts = (self.starts, self.leaves, self.poll_timeouts, self.deaths, self.kicks, self.replacements)
        return sorted((signal for part in parts for signal in part), key=lambda signal: signal.ts_ms)


class Episode(NamedTuple):
    """Signals without a quiet period between them. `before` and `after`: the clients that were members."""

    from_ms: int
    to_ms: int
    activities: dict[str, ClientActivity]
    before: frozenset[str]
    after: frozenset[str]
    rejoins: tuple[Signal, ...]
    joins_over: tuple[Signal, ...]
    syncs_over: tuple[Signal, ...]
    resubscriptions: tuple[Signal, ...]
    growths: tuple[Signal, ...]
    signals: tuple[Signal, ...]

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The first pieces of evidence."""
        return tuple(signal.evidence for signal in self.signals if signal.evidence is not None)[:10]

    @property
    def is_observed(self) -> bool:
        """Whether the broker reported it. What only records show, such as subscriptions, does not make it inferred."""
        return all(signal.is_observed for signal in self.signals if signal.kind not in _OF_RECORDS)


def episode_of(history: GroupHistory, signals: list[Signal], alive: dict[str, str]) -> Episode:
    """Collect the signals of one episode. `alive` (member id to client name) is updated to its end."""
    snapshot = history.snapshot_before(signals[0].ts_ms - 1)
    if snapshot is not None:
        alive.clear()
        alive.update((member.member_id, member.client) for member in snapshot.members)
    activities: dict[str, ClientActivity] = {}
    before = frozenset(alive.values())
    for signal in signals:
        _count(history, signal, alive, activities)
    for name, activity in activities.items():
        activity.was_there = name in before
        activity.is_there = name in alive.values()
    of = _by_kind(signals)
    return Episode(
        from_ms=min(history.silent_since_ms(signal) for signal in signals),
        to_ms=signals[-1].ts_ms,
        activities=activities,
        before=before,
        after=frozenset(alive.values()),
        rejoins=tuple(
            signal
            for signal in of(Kind.REJOINED)
            if signal.client_reason is None or _REVOKED not in signal.client_reason
        ),
        joins_over=of(Kind.JOIN_OVER),
        syncs_over=of(Kind.SYNC_OVER),
        resubscriptions=of(Kind.RESUBSCRIBED),
        growths=of(Kind.PARTITIONS_ADDED),
        signals=tuple(signals),
    )


def _by_kind(signals: list[Signal]) -> Callable[[Kind], tuple[Signal, ...]]:
    return lambda kind: tuple(signal for signal in signals if signal.kind is kind)


def _count(history: GroupHistory, signal: Signal, alive: dict[str, str], activities: dict[str, ClientActivity]) -> None:
    """Add one signal to its client's activity, and update the members."""
    if signal.member_id is None or signal.kind not in _OF_MEMBERS or not history.is_known(signal.member_id):
        return
    client = history.client(signal.member_id)
    activity = activities.setdefault(client.name, ClientActivity(client))
    for member_id in (signal.other_id, signal.member_id):
        if member_id is not None and member_id not in activity.member_ids:
            activity.member_ids.append(member_id)
    match signal.kind:
        case Kind.JOINED:
            activity.starts.append(signal)
            activity.hosts.append(client.host or "")
            activity.overlaps += client.name in alive.values()
            alive[signal.member_id] = client.name
            return
        case Kind.REPLACED:
            if not activity.hosts and signal.other_id is not None:
                activity.hosts.append(history.client(signal.other_id).host or "")
            activity.hosts.append(client.host or "")
            activity.replacements.append(signal)
            alive.pop(signal.other_id or "", None)
            alive[signal.member_id] = client.name
            return
        case Kind.LEFT:
            (activity.poll_timeouts if left_for_polls(history, signal) else activity.leaves).append(signal)
        case Kind.EXPIRED:
            activity.deaths.append(signal)
        case _:
            activity.kicks.append(signal)
    alive.pop(signal.member_id, None)


def left_for_polls(history: GroupHistory, signal: Signal) -> bool:
    """Whether a member left because its application did not poll.

    Java clients send that as the reason. Others send none, but had not committed for about max.poll.interval.ms,
    whereas a consumer commits when it closes.
    """
    if signal.client_reason:
        return _POLL_TIMEOUT in signal.client_reason
    if signal.member_id is None or not history.has_partitions(signal.member_id):
        return False
    silent_ms = signal.ts_ms - history.silent_since_ms(signal)
    return silent_ms > 0.8 * history.rebalance_ms
