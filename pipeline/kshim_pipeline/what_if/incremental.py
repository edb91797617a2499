"""Strategies that stop only partitions that move: cooperative rebalancing (KIP-429), consumer protocol (KIP-848)."""

from __future__ import annotations

from kshim_pipeline.what_if.assignors import Owners, moved, sticky_owners
from kshim_pipeline.what_if.barrier import notification_ms, rounds
from kshim_pipeline.what_if.changes import NOTHING, Change, Settings, Start, detect
from kshim_pipeline.what_if.totals import Totals


def cooperative(changes: list[Change], settings: Settings, start: Start = NOTHING) -> Totals:
    """Members keep their partitions during JOIN; partitions that move between live members need a second round.

    These are stopped from the end of the first round, when their owners revoke them, to the end of the second.
    """
    totals = Totals()
    owners = sticky_owners(start.members, start.partitions, ())
    events = detect(changes, session_ms=settings.session_timeout_ms)
    for met in rounds(events, settings, start, sync_ms=settings.sync_ms):
        end_ms = met.join_end_ms + settings.sync_ms
        after = sticky_owners(met.members, met.partition_count, owners)
        for owner in owners:
            if owner in met.lost:
                totals.stopped_partition_ms += end_ms - met.lost[owner]
        totals.notifications += met.notified
        totals.generations += 1
        totals.moved_partitions += moved(owners, after)
        given_up = _moved_between_living(owners, after, met.members)
        if given_up:
            others = len(met.members) - 1  # who gave up joins again at once and calls the others
            second_ms = notification_ms(others, settings.heartbeat_interval_ms) + settings.poll_ms + settings.sync_ms
            totals.stopped_partition_ms += given_up * second_ms
            totals.notifications += others
            totals.generations += 1
        owners = after
    return totals


def consumer_protocol(changes: list[Change], settings: Settings, start: Start = NOTHING) -> Totals:
    """The coordinator reconciles each member separately: no barrier, one epoch a change, only affected members notified.

    A partition that moves is stopped from its owner's revocation to the next heartbeat of the new one.
    """
    totals = Totals()
    owners = sticky_owners(start.members, start.partitions, ())
    members = set(start.members)
    partition_count = start.partitions
    half_interval_ms = settings.consumer_heartbeat_interval_ms / 2
    for event in detect(changes, session_ms=settings.session_timeout_ms):
        before = frozenset(members)
        match event.effect:
            case "add":
                members.add(event.member)
            case "drop":
                members.discard(event.member)
            case "resize":
                partition_count = event.partitions
        after = sticky_owners(members, partition_count, owners)
        orphans = sum(owner is not None and owner not in members for owner in owners)
        totals.stopped_partition_ms += orphans * (event.detected_ms - event.since_ms + half_interval_ms)
        given_up = _moved_between_living(owners, after, frozenset(members))
        totals.stopped_partition_ms += given_up * (settings.revoke_ms + half_interval_ms)
        totals.notifications += len(_concerned(owners, after) & before & members)
        totals.generations += bool(before or members)
        totals.moved_partitions += moved(owners, after)
        owners = after
    return totals


def _moved_between_living(before: Owners, after: Owners, members: frozenset[str]) -> int:
    return sum(old in members and old != new for old, new in zip(before, after, strict=False))


def _concerned(before: Owners, after: Owners) -> set[str]:
    """Members whose assignment changed."""
    concerned: set[str] = set()
    for partition in range(max(len(before), len(after))):
        old = before[partition] if partition < len(before) else None
        new = after[partition] if partition < len(after) else None
        if old != new:
            concerned.update(owner for owner in (old, new) if owner is not None)
    return concerned
