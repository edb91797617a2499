"""The strategy before coordinators (Kafka 0.8): each consumer watches the others in ZooKeeper and rebalances by itself."""

from __future__ import annotations

from kshim_pipeline.what_if.assignors import moved, range_owners
from kshim_pipeline.what_if.changes import NOTHING, Change, Settings, Start, detect
from kshim_pipeline.what_if.totals import Totals


def zookeeper_watchers(changes: list[Change], settings: Settings, start: Start = NOTHING) -> Totals:
    """Each change fires a watch at each member (the herd); each revokes all it owns, reads, computes and claims.

    There is no barrier, so changes are never combined. A change before the claims of the previous one are complete
    finds members with different views: claims fail, and a rebalancing member waits `zookeeper_backoff_ms` and tries
    again.
    """
    totals = Totals()
    owners = range_owners(start.members, start.partitions)
    members = set(start.members)
    partition_count = start.partitions
    events = detect(changes, session_ms=settings.zookeeper_session_ms)
    for index, event in enumerate(events):
        before = frozenset(members)
        match event.effect:
            case "add":
                members.add(event.member)
            case "drop":
                members.discard(event.member)
            case "resize":
                partition_count = event.partitions
        notified = len(before & members)
        # Each member deletes its owner nodes and creates the new ones, one after the other.
        share = -(-partition_count // len(members)) if members else 0
        round_ms = settings.zookeeper_watch_ms + 2 * share * settings.zookeeper_write_ms
        following = events[index + 1].detected_ms if index + 1 < len(events) else None
        if following is not None and following < event.detected_ms + round_ms and notified:
            totals.split_views += notified
            round_ms += settings.zookeeper_backoff_ms
        for owner in owners:
            if owner is None:
                continue
            if owner in members:
                totals.stopped_partition_ms += round_ms
            else:
                totals.stopped_partition_ms += event.detected_ms - event.since_ms + round_ms
        after = range_owners(members, partition_count)
        totals.notifications += notified
        totals.generations += bool(before or members)
        totals.moved_partitions += moved(owners, after)
        owners = after
    return totals
