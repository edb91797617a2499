"""Changes of a group's membership, independent of any protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Kind = Literal["join", "leave", "crash", "restart", "partitions"]


class Change(NamedTuple):
    """One change. `member` is the identity that is kept in a restart: instance id, or client id and host.

    `away_ms` applies to restarts only, `partitions` (how many the group consumes from now on) to "partitions" only.
    """

    at_ms: int
    kind: Kind
    member: str = ""
    away_ms: int = 0
    partitions: int = 0


class Start(NamedTuple):
    """What a group is like before the changes that are counted: its members, and how many partitions it consumes."""

    members: frozenset[str] = frozenset()
    partitions: int = 0


NOTHING = Start()
"""A group that has not begun."""


def within(changes: Iterable[Change], since_ms: int | None, until_ms: int | None) -> tuple[Start, list[Change]]:
    """The changes of a time, `until_ms` not included, and what there was before; None: from the first on, to the last.

    Who restarts as the time begins is there.
    """
    members: set[str] = set()
    partitions = 0
    found: list[Change] = []
    for change in changes:
        if until_ms is not None and change.at_ms >= until_ms:
            continue
        if since_ms is None or change.at_ms >= since_ms:
            found.append(change)
            continue
        match change.kind:
            case "join" | "restart":
                members.add(change.member)
            case "leave" | "crash":
                members.discard(change.member)
            case "partitions":
                partitions = change.partitions
    return Start(frozenset(members), partitions), found


class Settings(NamedTuple):
    """The times a strategy uses, all in ms. Defaults are those of Kafka's clients and brokers, old and new.

    `poll_ms` is how long a notified member needs until it joins: its processing between two polls, measured as the
    median JOIN wait where events contain it. `sync_ms`: assignment by the leader and its distribution. `zookeeper_*`:
    session, the spread of a watch, one write, the pause before a failed claim is retried.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    consumer_heartbeat_interval_ms: int = 5_000
    poll_ms: int = 100
    sync_ms: int = 20
    revoke_ms: int = 20
    zookeeper_session_ms: int = 6_000
    zookeeper_watch_ms: int = 20
    zookeeper_write_ms: int = 5
    zookeeper_backoff_ms: int = 2_000


class Detected(NamedTuple):
    """A change as the coordinator detects it. `since_ms`: when a lost member stopped working."""

    detected_ms: int
    since_ms: int
    effect: Literal["add", "drop", "resize"]
    member: str
    partitions: int


def detect(changes: Iterable[Change], *, session_ms: int, survives_restart_ms: int = 0) -> list[Detected]:
    """The changes in the order in which they are detected; crashes are detected when the session ends.

    A restart shorter than `survives_restart_ms` (static members) is not detected; a longer one is a member that leaves
    (without LeaveGroup, if `survives_restart_ms` is set: static members do not leave) and rejoins.
    """
    found: list[Detected] = []
    for at_ms, kind, member, away_ms, partitions in changes:
        match kind:
            case "join":
                found.append(Detected(at_ms, at_ms, "add", member, 0))
            case "leave":
                found.append(Detected(at_ms, at_ms, "drop", member, 0))
            case "crash":
                found.append(Detected(at_ms + session_ms, at_ms, "drop", member, 0))
            case "restart":
                if away_ms < survives_restart_ms:
                    continue
                silent_ms = session_ms if survives_restart_ms else 0
                found.append(Detected(at_ms + silent_ms, at_ms, "drop", member, 0))
                found.append(Detected(max(at_ms + away_ms, at_ms + silent_ms), at_ms + away_ms, "add", member, 0))
            case "partitions":
                found.append(Detected(at_ms, at_ms, "resize", "", partitions))
    return sorted(found, key=lambda event: event.detected_ms)
