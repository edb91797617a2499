"""Strategies in which a change stops the world: everybody gives everything up, meets, and gets a share again.

Assignment by the coordinator (the first design of Kafka 0.9), and today's classic protocol with an eager assignor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kshim_pipeline.what_if.assignors import moved, range_owners
from kshim_pipeline.what_if.changes import Change, Detected, Settings, detect
from kshim_pipeline.what_if.totals import Totals


class Round(NamedTuple):
    """One meeting. `told` members had to be called; `lost` maps who is gone to when it stopped working."""

    start_ms: float
    join_end_ms: float
    told: int
    lost: dict[str, int]
    members: frozenset[str]
    partition_count: int


def hearing_ms(told: int, heartbeat_interval_ms: int) -> float:
    """When the last of `told` members hears of a rebalance: heartbeats fall evenly, the last of n at n/(n+1)."""
    return heartbeat_interval_ms * told / (told + 1)


def rounds(events: list[Detected], settings: Settings, *, sync_ms: int) -> Iterator[Round]:
    """Meetings in order. What is noticed before the JOIN phase of one ends takes part in it, the rest waits."""
    members: set[str] = set()
    partition_count = 0
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
                told = len(before & members - lost.keys())
                if told:
                    join_end_ms = start_ms + hearing_ms(told, settings.heartbeat_interval_ms) + settings.poll_ms
        if before or members:
            free_ms = join_end_ms + sync_ms
            told = len(before & members - lost.keys())
            yield Round(start_ms, join_end_ms, told, lost, frozenset(members), partition_count)


def server_side(changes: list[Change], settings: Settings) -> Totals:
    """The coordinator assigns; members are told by heartbeat and get their share with the answer to their Join."""
    return _stop_the_world(detect(changes, session_ms=settings.session_timeout_ms), settings, sync_ms=0)


def eager(changes: list[Change], settings: Settings) -> Totals:
    """Today's classic protocol with an eager assignor and dynamic members: a JOIN barrier, then SYNC."""
    return _stop_the_world(detect(changes, session_ms=settings.session_timeout_ms), settings, sync_ms=settings.sync_ms)


def eager_static(changes: list[Change], settings: Settings) -> Totals:
    """The same with static members: a restart within the session stops only what the restarted member owns."""
    session_ms = settings.session_timeout_ms
    events = detect(changes, session_ms=session_ms, survives_restart_ms=session_ms)
    away = [change for change in changes if change.kind == "restart" and change.away_ms < session_ms]
    return _stop_the_world(events, settings, sync_ms=settings.sync_ms, away=away)


def _stop_the_world(
    events: list[Detected], settings: Settings, *, sync_ms: int, away: list[Change] | None = None
) -> Totals:
    totals = Totals()
    owners: list[str | None] = []
    pauses = list(away or ())
    for met in rounds(events, settings, sync_ms=sync_ms):
        while pauses and pauses[0].at_ms <= met.start_ms:
            pause = pauses.pop(0)
            totals.stopped_partition_ms += owners.count(pause.member) * pause.away_ms
        end_ms = met.join_end_ms + sync_ms
        # On average a member stops half a heartbeat interval and its poll after the start, the barrier holds it to the end.
        heard_ms = settings.heartbeat_interval_ms / 2 + settings.poll_ms
        held_ms = end_ms - met.start_ms - heard_ms if met.told else 0.0
        for owner in owners:
            if owner in met.lost:
                totals.stopped_partition_ms += end_ms - met.lost[owner]
            elif owner is not None:
                totals.stopped_partition_ms += held_ms
        after = range_owners(met.members, met.partition_count)
        totals.notifications += met.told
        totals.generations += 1
        totals.moved_partitions += moved(owners, after)
        owners = after
    for pause in pauses:
        totals.stopped_partition_ms += owners.count(pause.member) * pause.away_ms
    return totals
