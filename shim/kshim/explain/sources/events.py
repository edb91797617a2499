"""Events of kshim's topic `__kshim_events`, versions 1 and 2 (docs/design/events.md), to facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshim.explain.causes import TOLD_BY_BROKER
from kshim.explain.facts import (
    HEARTBEAT_MS,
    OTHER_TYPE,
    SHARE,
    STREAMS,
    Activity,
    Committed,
    Fact,
    Kind,
    Member,
    Moved,
    Phases,
    Range,
    Records,
    Subscription,
    TopicChange,
)

Event = Mapping[str, Any]

_DEPARTURES = {
    "session_timeout": Kind.EXPIRED,
    "rebalance_timeout": Kind.REMOVED,
    "sync_timeout": Kind.REMOVED,
}
_REQUESTS = ("leader_rejoined", "metadata_changed", *TOLD_BY_BROKER)
_STATIC_LEFT = "static_left"
_UNRELEASED = "unreleased_instance_id"
_UNKNOWN_ID = "unknown_member_id"
_INCONSISTENT = "inconsistent_group_protocol"
_MOVED_MAX = 100
"""Of so many tasks of a rebalance it is kept where they went; those that had no owner for longest."""
_NOT_READY = "NotReady"
_TOPICS_CHANGED = "topics_changed"
_KINDS = {
    "member_joined": Kind.JOINED,
    "member_fenced": Kind.REPLACED,
    "join_completed": Kind.JOIN_COMPLETED,
    "rebalance_completed": Kind.COMPLETED,
    "group_emptied": Kind.EMPTIED,
    "coordinator_loaded": Kind.LOADED,
    "broker_stopping": Kind.STOPPING,
    "records_returned": Kind.RETURNED,
    "records_archived": Kind.ARCHIVED,
    "records_held": Kind.HELD,
}
_LISTS = ("topics", "added", "removed", "assignors")
_OF_RECORDS = (Kind.RETURNED, Kind.ARCHIVED, Kind.HELD)


def fact_of_event(event: Event) -> Fact | None:
    """The fact in an event; None if it adds nothing to others.

    `activity`, `subscription` and `topic_changes` are newer than other fields, and may be absent.
    """
    kind = _kind(event)
    records = _records(event.get("records"))
    if kind is None or (kind in _OF_RECORDS and records is None):
        return None
    trigger = event["trigger"]
    return Fact(
        ts_ms=event["ts_ms"],
        group=event["group"],
        kind=kind,
        source=f"event {event['event_id']}",
        member=None if trigger is None or kind is Kind.JOIN_COMPLETED else _member(trigger),
        reason=OTHER_TYPE if kind is Kind.NOT_ADMITTED and not _is_of_consumers(event) else event["reason"],
        client_reason=None if trigger is None else trigger["client_reason"],
        other_id=event["replaced_member_id"],
        state=event["state_from"],
        activity=_activity(event["run"], event.get("activity")),
        subscription=_subscription(event.get("subscription")),
        topic_changes=_topic_changes(event.get("topic_changes")) if kind is Kind.REQUESTED else None,
        committed=_committed(event.get("activity")),
        phases=_phases(event) if kind in (Kind.JOIN_COMPLETED, Kind.COMPLETED) else None,
        records=records,
    )


def _kind(event: Event) -> Kind | None:
    match event["type"]:
        case "member_left" if event["reason"] == _STATIC_LEFT:
            return Kind.STOPPED
        case "member_refused" if event["reason"] == _UNRELEASED:
            return Kind.REFUSED
        case "member_refused" if event["reason"] == _INCONSISTENT:
            return Kind.NOT_ADMITTED
        case "member_refused" if event["reason"] == _UNKNOWN_ID:
            return Kind.HEARD
        case "member_left":
            return _DEPARTURES.get(event["reason"], Kind.LEFT)
        case "group_converted":
            return None if event["state_to"] == "Empty" else Kind.REQUESTED
        case "rebalance_started" if event["state_from"] == _NOT_READY and event["reason"] == _TOPICS_CHANGED:
            return None  # the topics that its topology needs are there, mostly because it had them made itself
        case "rebalance_started":
            return Kind.REQUESTED if event["reason"] in _REQUESTS else None
        case other:
            return _KINDS.get(other)


def _is_of_consumers(event: Event) -> bool:
    """Whether who was refused and the members are consumers: a worker of Connect has no subscription."""
    return event["protocol_type"] == "consumer" and event.get("subscription") is not None


def _member(row: Mapping[str, Any]) -> Member:
    return Member(row["member_id"], row["instance_id"], row["client_id"], row["host"])


def _phases(event: Event) -> Phases:
    if event.get("reconciliation") is not None:
        group_type = event.get("group_type")
        phases = _phases_of_epoch(event["protocol"], event["reconciliation"])._replace(group_type=group_type)
        if group_type == SHARE:
            return phases._replace(join_ms=None)  # nobody waits until others have given up partitions
        if group_type == STREAMS:
            return phases._replace(moved=_moved(event["reconciliation"]["unowned"]))
        return phases
    waits = [wait for wait in event["waits"] or () if not wait["is_new"]]
    waits.sort(key=_since_told_ms, reverse=True)
    slowest = waits[0] if waits else None
    return Phases(
        join_ms=event["join_ms"],
        sync_ms=event["sync_ms"],
        protocol=event["protocol"],
        leader_id=event["leader_id"],
        last_to_join=None if slowest is None else _member(slowest),
        last_wait_ms=None if slowest is None else slowest["wait_ms"],
        last_told_ms=None if slowest is None else slowest.get("told_ms"),
        other_wait_ms=max(wait["wait_ms"] for wait in waits[1:]) if len(waits) > 1 else None,
        generation_id=event["to_generation"],
    )


def _since_told_ms(wait: Mapping[str, Any]) -> int:
    """How long a member took once it knew; who was not told by a heartbeat may have had to wait for its next one."""
    told_ms = wait.get("told_ms")
    return int(wait["wait_ms"] - (HEARTBEAT_MS if told_ms is None else told_ms))


def _phases_of_epoch(assignor: str | None, course: Mapping[str, Any]) -> Phases:
    """Of the new protocol: who took longest from being told to give up partitions until it had."""
    waits = [
        (each["revoked_ms"] - each["told_ms"], each)
        for each in course["members"] or ()
        if each["told_ms"] is not None and each["revoked_ms"] is not None
    ]
    waits.sort(key=lambda wait: -int(wait[0]))
    return Phases(
        join_ms=course["revoke_ms"],
        sync_ms=None,
        protocol=assignor,
        leader_id=None,
        last_to_join=_member(waits[0][1]) if waits else None,
        last_wait_ms=waits[0][0] if waits else None,
        other_wait_ms=waits[1][0] if len(waits) > 1 else None,
        has_epochs=True,
        unowned_ms=max((gap["unowned_ms"] for gap in course["unowned"]), default=None),
    )


def _moved(gaps: Sequence[Mapping[str, Any]]) -> tuple[Moved, ...]:
    return tuple(
        Moved(
            f"{gap['topic']}_{gap['partition']}",
            gap["unowned_ms"],
            gap["from_member_id"],
            gap["to_member_id"],
            bool(gap.get("had_state")),
        )
        for gap in gaps[:_MOVED_MAX]
    )


def _records(row: Mapping[str, Any] | None) -> Records | None:
    if row is None:
        return None
    ranges = tuple(Range(*(each[name] for name in Range._fields)) for each in row["ranges"])
    return Records(
        topic=row["topic"],
        partition=row["partition"],
        deliveries=row["count"],
        times=row["times"],
        delivery_count=row["delivery_count"],
        held_ms=row["held_ms"],
        lock_ms=row["lock_ms"],
        delivery_count_limit=row["delivery_count_limit"],
        ended_by=row["ended_by"],
        ranges=ranges,
    )


def _activity(run: str, row: Mapping[str, Any] | None) -> Activity | None:
    if row is None:
        return None
    return Activity(
        connection_id=f"{run}/{row['connection_id']}",  # numbers are unique within a run,
        opened_ms=row["opened_ms"],
        closed_ms=row["closed_ms"],
        closed_by=row["closed_by"],
        last_request_ms=row["last_request_ms"],
        last_api=row["last_api"],
        last_fetch_ms=_fetch_ms(row["last_fetch_ms"], row["closed_ms"]),
        software=row["software"],
        has_fetch_session=row.get("has_fetch_session"),
    )


def _committed(row: Mapping[str, Any] | None) -> Committed | None:
    """Commits of a member, on whatever connection; events of earlier versions do not tell of them."""
    if row is None or row.get("last_commit_ms") is None:
        return None
    return Committed(row["last_commit_ms"], row["commit_pause_ms"], row["commit_before_ms"])


def _fetch_ms(last_fetch_ms: int | None, closed_ms: int | None) -> int | None:
    """When it fetched last; not after its end: events of earlier versions have that of any process with its client id and host."""
    if last_fetch_ms is None or closed_ms is None or last_fetch_ms <= closed_ms + HEARTBEAT_MS:
        return last_fetch_ms
    return None


def _topic_changes(rows: Sequence[Mapping[str, Any]] | None) -> tuple[TopicChange, ...] | None:
    """Events of earlier versions do not tell of them."""
    return None if rows is None else tuple(TopicChange(*(row[name] for name in TopicChange._fields)) for row in rows)


def _subscription(row: Mapping[str, Any] | None) -> Subscription | None:
    if row is None:
        return None
    topics, added, removed, assignors = (tuple(row.get(name) or ()) for name in _LISTS)
    timeouts = row.get("session_timeout_ms"), row.get("rebalance_timeout_ms")
    return Subscription(topics, added, removed, assignors, *timeouts)
