"""Strategies that stop the world: all members revoke everything, join a barrier, and are assigned partitions again.

Assignment by the coordinator (the first design of Kafka 0.9), and today's classic protocol with an eager assignor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kshim_pipeline.what_if.assignors import moved, range_owners
from kshim_pipeline.what_if.changes import NOTHING, Change, Detected, Settings, Start, detect
from kshim_pipeline.what_if.totals import Totals


class Round(NamedTuple):
    """One rebalance. `notified` members learnt of it; `lost` maps lost members to when they stopped working."""

    start_ms: float
    join_end_ms: float
    notified: int
    lost: dict[str, int]
    members: frozenset[str]
    partition_count: int


def notification_ms(notified: int, heartbeat_interval_ms: int) -> float:
    """When the last of `notified` members learns of it: heartbeats are evenly spread, the last of n comes at n/(n+1)."""
    return heartbeat_interval_ms * notified / (notified + 1)


def rounds(events: list[Detected], settings: Settings, start: Start, *, sync_ms: int) -> Iterator[Round]:
    """Rebalances in order. Changes noticed before a JOIN phase ends take part in it, others wait for the next."""
    members = set(start.members)
    partition_count = start.partitions
    free_ms: float = 0
    index = 0
    while index < len(events):
        start_ms = max(float(events[index].detected_ms), free_ms)
        before = frozenset(members)
        lost: dict[str, int] = {}
        join_end_ms = start_ms
        phase_is_open = False
        while index < len(events) and events[index].detected_ms <= join_end_ms:
            event = events[index]
            index += 1
            match event.effect:
                case "add":
                    members.add(event.member)
                case "drop":
                    if event.member in members:
                        members.discard(event.member)
                        if event.member in before:
                            lost[event.member] = event.since_ms
                case "resize":
                    partition_count = event.partitions
            if not phase_is_open and (index == len(events) or events[index].detected_ms > start_ms):
                phase_is_open = True
                notified = len(before & members - lost.keys())
                if notified:
                    join_end_ms = (
                        start_ms + notification_ms(notified, settings.heartbeat_interval_ms) + settings.poll_ms
                    )
        if before or members:
            free_ms = join_end_ms + sync_ms
            notified = len(before & members - lost.keys())
            yield Round(start_ms, join_end_ms, notified, lost, frozenset(members), partition_count)


def server_side(changes: list[Change], settings: Settings, start: Start = NOTHING) -> Totals:
    """The coordinator assigns; members are notified by heartbeat and get their partitions in the response to their join."""
    return _stop_the_world(detect(changes, session_ms=settings.session_timeout_ms), settings, start, sync_ms=0)


def eager(changes: list[Change], settings: Settings, start: Start = NOTHING) -> Totals:
    """Today's classic protocol with an eager assignor and dynamic members: a JOIN barrier, then SYNC."""
    events = detect(changes, session_ms=settings.session_timeout_ms)
    return _stop_the_world(events, settings, start, sync_ms=settings.sync_ms)


def eager_static(changes: list[Change], settings: Settings, start: Start = NOTHING) -> Totals:
    """The same with static members: a restart within the session stops only the partitions of the restarted member."""
    session_ms = settings.session_timeout_ms
    events = detect(changes, session_ms=session_ms, survives_restart_ms=session_ms)
    away = [change for change in changes if change.kind == "restart" and change.away_ms < session_ms]
    return _stop_the_world(events, settings, start, sync_ms=settings.sync_ms, away=away)


def _stop_the_world(
    events: list[Detected], settings: Settings, start: Start, *, sync_ms: int, away: list[Change] | None = None
) -> Totals:
    totals = Totals()
    owners = range_owners(start.members, start.partitions)
    pauses = list(away or ())
    for met in rounds(events, settings, start, sync_ms=sync_ms):
        while pauses and pauses[0].at_ms <= met.start_ms:
            pause = pauses.pop(0)
            totals.stopped_partition_ms += owners.count(pause.member) * pause.away_ms
        end_ms = met.join_end_ms + sync_ms
        # On average a member stops half a heartbeat interval and its poll after the start, the barrier holds it to the end.
        heard_ms = settings.heartbeat_interval_ms / 2 + settings.poll_ms
        held_ms = end_ms - met.start_ms - heard_ms if met.notified else 0.0
        for owner in owners:
            if owner in met.lost:
                totals.stopped_partition_ms += end_ms - met.lost[owner]
            elif owner is not None:
                totals.stopped_partition_ms += held_ms
        after = range_owners(met.members, met.partition_count)
        totals.notifications += met.notified
        totals.generations += 1
        totals.moved_partitions += moved(owners, after)
        owners = after
    for pause in pauses:
        totals.stopped_partition_ms += owners.count(pause.member) * pause.away_ms
    return totals
