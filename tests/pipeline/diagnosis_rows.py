"""A group's history in few words, for tests of the rules: sessions of 10 s, max.poll of 20 s, hosts h1, h2 ..."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshim_pipeline.diagnosis.causes import Diagnosed
from kshim_pipeline.diagnosis.history import GroupHistory
from kshim_pipeline.diagnosis.inference import changes, infer
from kshim_pipeline.diagnosis.rules import diagnose
from kshim_pipeline.diagnosis.signals import Evidence, Kind, Member, Signal, Snapshot

SESSION_MS = 10_000
REBALANCE_MS = 20_000
QUIET_MS = 25_000
"""What the rules make of these two."""


def a_member(name: str, **fields: Any) -> Member:
    """Member `name`, e.g. `a` or, in a later life, `a.2`: client `a` on host `ha`."""
    client = name.partition(".")[0]
    made = Member(name, None, client, f"h{client}", SESSION_MS, REBALANCE_MS, ("t",), 2)
    return made._replace(**fields)


def a_static_member(name: str, **fields: Any) -> Member:
    """The same with an instance id: `s-a`."""
    return a_member(name, instance_id=f"s-{name.partition('.')[0]}", **fields)


def a_snapshot(ts_ms: int, generation_id: int, *members: Member, **fields: Any) -> Snapshot:
    """A record; its first member leads."""
    leader = members[0].member_id if members else None
    made = Snapshot(ts_ms, generation_id, leader, "range" if members else None, members, ts_ms if members else None)
    return made._replace(evidence=Evidence("__consumer_offsets", 0, ts_ms), **fields)


def of(member: Member, ts_ms: int, kind: Kind, **fields: Any) -> Signal:
    """A signal about a member, as an event gives it."""
    return Signal(
        ts_ms,
        kind,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        evidence=Evidence("__kshim_events", 0, ts_ms),
        **fields,
    )


def joined(name: str, ts_ms: int, **fields: Any) -> Signal:
    return of(a_member(name), ts_ms, Kind.JOINED, **fields)


def left(name: str, ts_ms: int, **fields: Any) -> Signal:
    return of(a_member(name), ts_ms, Kind.LEFT, **fields)


def expired(name: str, ts_ms: int, **fields: Any) -> Signal:
    return of(a_member(name), ts_ms, Kind.EXPIRED, state="Stable", **fields)


def rebalanced(ts_ms: int, *, join_ms: int = 500, last: str | None = "a", sync_ms: int = 2) -> list[Signal]:
    """The phases of a rebalance that began at `ts_ms`; a leads, `last` was waited for."""
    end_ms = ts_ms + join_ms
    return [
        Signal(end_ms, Kind.JOIN_OVER, member_id=last, wait_ms=join_ms),
        Signal(end_ms + sync_ms, Kind.SYNC_OVER, member_id="a", wait_ms=sync_ms),
    ]


def diagnosed(*snapshots: Snapshot, signals: list[Signal]) -> list[Diagnosed]:
    """What the rules diagnose for a group with observed signals."""
    return list(diagnose(GroupHistory("g", [*signals, *changes(list(snapshots))], snapshots)))


def diagnosed_from_records(*snapshots: Snapshot) -> list[Diagnosed]:
    """What they say of one that only has its records."""
    told = list(snapshots)
    return list(diagnose(GroupHistory("g", [*infer("g", told), *changes(told)], told)))


def answers(found: list[Diagnosed]) -> list[tuple[str, tuple[str, ...]]]:
    """Cause and clients."""
    return [(str(one.cause), one.clients) for one in found]


def with_commits(snapshot: Snapshot, commits: Mapping[str, int]) -> Snapshot:
    """The snapshot, its members' last commits before the next one filled in."""
    members = tuple(member._replace(last_commit_ms=commits.get(member.member_id)) for member in snapshot.members)
    return snapshot._replace(members=members)
