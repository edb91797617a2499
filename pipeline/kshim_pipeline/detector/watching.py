"""The detector's state of one group, and its transitions on events and on time. No Spark, no clock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

OPEN: Final = "rebalance_open"
ENDED: Final = "rebalance_ended"

_ENDS: Final = frozenset({"rebalance_completed", "rebalance_aborted", "group_emptied", "group_dead"})


class Watched(NamedTuple):
    """One group. Positions and sizes are those of Spark's state, see `stream.STATE`.

    `run`, `seq`, `ts_ms`: the latest event, to recognise duplicates. While the group is not stable, `since_ts_ms` is
    when that began (ms since 1970; None: it is stable), and the other fields are of its current rebalance.
    """

    run: str = ""
    seq: int = 0
    ts_ms: int = 0
    since_ts_ms: int | None = None
    epoch: int = 0
    attempts: int = 0
    """Rebalances since the group was stable: the first, and those that superseded it."""
    phase: str = ""
    """`JOIN` or `SYNC`; of a group of the new protocol, `COMPUTE`, `REVOKE` or `ASSIGN`."""
    reason: str = ""
    """The reason of the first; `trigger_*` is the member that triggered it."""
    reason_text: str = ""
    trigger_member_id: str | None = None
    trigger_client_id: str | None = None
    trigger_host: str | None = None
    expected: int | None = None
    """Members that the coordinator waits for."""
    pending_sync: int | None = None
    """Members whose SyncGroup is missing, in the phase SYNC."""
    alerts: int = 0
    """Alerts written so far."""
    due_ms: int | None = None
    """When the next alert is due (ms since 1970)."""
    group_type: str = "classic"
    """`classic`, or `consumer`: the new protocol, in which a rebalance is a group epoch that has not settled."""
    revoking: str = ""
    """Members that were told to give up partitions and have not: a JSON object of client id, host and when, by member id."""


NOTHING: Final = Watched()


class Alert(NamedTuple):
    """`type` is OPEN or ENDED; `open_ms`: how long the group has not been stable; `outcome`: of an ended one, else None."""

    type: str
    at_ms: int
    since_ts_ms: int
    open_ms: int
    epoch: int
    attempts: int
    phase: str
    reason: str
    reason_text: str
    trigger_member_id: str | None
    trigger_client_id: str | None
    trigger_host: str | None
    expected: int | None
    pending_sync: int | None
    outcome: str | None
    group_type: str = "classic"
    held_by_member_id: str | None = None
    """Who was told first to give up partitions, and has not: others wait for these. None: nobody, or no new protocol."""
    held_by_client_id: str | None = None
    held_by_host: str | None = None
    held_ms: int | None = None
    """For how long."""


def after_events(
    watched: Watched, events: Iterable[Mapping[str, Any]], *, now_ms: int, open_after_ms: int
) -> tuple[Watched, list[Alert]]:
    """The group after `events` (of docs/design/events.md, in the order of their offsets) and at `now_ms`.

    Superseded rebalances are one: the group is not stable until one is completed or all members left. An end is
    reported if the rebalance was reported as open, or lasted `open_after_ms`.
    """
    alerts: list[Alert] = []
    for event in events:
        if _was_seen(watched, event):
            continue
        watched = watched._replace(run=event["run"], seq=event["seq"], ts_ms=event["ts_ms"])
        watched, ended = _after(watched, event, open_after_ms)
        alerts += ended
    watched, late = after_time(watched, now_ms=now_ms, open_after_ms=open_after_ms)
    return watched, alerts + late


def after_time(watched: Watched, *, now_ms: int, open_after_ms: int) -> tuple[Watched, list[Alert]]:
    """The group at `now_ms`, with an alert if one is due. The interval doubles with each alert."""
    if watched.since_ts_ms is None or watched.due_ms is None or now_ms < watched.due_ms:
        return watched, []
    due_ms = watched.since_ts_ms + open_after_ms
    while due_ms <= now_ms:
        due_ms = watched.since_ts_ms + (due_ms - watched.since_ts_ms) * 2
    alerted = watched._replace(alerts=watched.alerts + 1, due_ms=due_ms)
    return alerted, [_alert(OPEN, watched, now_ms)]


def _was_seen(watched: Watched, event: Mapping[str, Any]) -> bool:
    if event["run"] == watched.run:
        # From 1 again after group_dead, later in time.
        return bool(event["seq"] <= watched.seq and event["ts_ms"] <= watched.ts_ms)
    return bool(event["ts_ms"] < watched.ts_ms)


def _after(watched: Watched, event: Mapping[str, Any], open_after_ms: int) -> tuple[Watched, list[Alert]]:
    match event["type"]:
        case "rebalance_started":
            return _begun(watched, event, open_after_ms), []
        case "join_completed":
            return _counted(watched._replace(phase="SYNC"), event), []
        case "target_computed":
            return _counted(watched._replace(phase="REVOKE" if watched.revoking else "ASSIGN"), event), []
        case "member_reconciled":
            return _stepped(watched, event), []
        case "member_left" | "member_fenced" if watched.revoking:
            gone_id = event.get("replaced_member_id") or (event["trigger"] or {}).get("member_id")
            return _without(watched, gone_id), []
        case "rebalance_aborted" if event["outcome"] == "superseded":
            return watched, []
        case "coordinator_loaded":
            return _ended(watched, event, "cut_off", open_after_ms)
        case kind if kind in _ENDS:
            return _ended(watched, event, event["outcome"] or "aborted", open_after_ms)
        case _:  # members joined or left
            return watched, []


def _begun(watched: Watched, event: Mapping[str, Any], open_after_ms: int) -> Watched:
    group_type = event.get("group_type") or "classic"
    phase = "COMPUTE" if group_type == "consumer" else "JOIN"
    if watched.since_ts_ms is not None:
        again = watched._replace(
            epoch=event["epoch"], attempts=watched.attempts + 1, phase=phase, group_type=group_type
        )
        return _counted(again, event)
    trigger = event["trigger"] or {}
    begun = watched._replace(
        since_ts_ms=event["ts_ms"],
        epoch=event["epoch"],
        attempts=1,
        phase=phase,
        group_type=group_type,
        reason=event["reason"],
        reason_text=event["reason_text"] or "",
        trigger_member_id=trigger.get("member_id"),
        trigger_client_id=trigger.get("client_id"),
        trigger_host=trigger.get("host"),
        alerts=0,
        due_ms=event["ts_ms"] + open_after_ms,
    )
    return _counted(begun, event)


def _stepped(watched: Watched, event: Mapping[str, Any]) -> Watched:
    """A member of the new protocol is told to give up partitions, or has done a step."""
    member = event["trigger"] or {}
    if event.get("step_state") != "UnrevokedPartitions":
        return _without(watched, member.get("member_id"))
    told = json.loads(watched.revoking or "{}")
    told.setdefault(member["member_id"], [member.get("client_id"), member.get("host"), event["ts_ms"]])
    return watched._replace(revoking=json.dumps(told), phase="REVOKE")


def _without(watched: Watched, member_id: str | None) -> Watched:
    """That member has nothing to give up any more."""
    told = json.loads(watched.revoking or "{}")
    if told.pop(member_id, None) is None:
        return watched
    phase = watched.phase if told or watched.phase != "REVOKE" else "ASSIGN"
    return watched._replace(revoking=json.dumps(told) if told else "", phase=phase)


def _counted(watched: Watched, event: Mapping[str, Any]) -> Watched:
    members = event["members"] or {}
    return watched._replace(expected=members.get("expected"), pending_sync=members.get("pending_sync"))


def _ended(watched: Watched, event: Mapping[str, Any], outcome: str, open_after_ms: int) -> tuple[Watched, list[Alert]]:
    if watched.since_ts_ms is None:
        return watched, []
    was_long = event["ts_ms"] - watched.since_ts_ms >= open_after_ms
    alerts = [_alert(ENDED, watched, event["ts_ms"], outcome)] if watched.alerts or was_long else []
    return NOTHING._replace(run=watched.run, seq=watched.seq, ts_ms=watched.ts_ms), alerts


def _alert(kind: str, watched: Watched, at_ms: int, outcome: str | None = None) -> Alert:
    assert watched.since_ts_ms is not None
    known: dict[str, Any] = {name: value for name, value in watched._asdict().items() if name in Alert._fields}
    told = json.loads(watched.revoking or "{}")
    if told:
        member_id = min(told, key=lambda each: told[each][2])
        client_id, host, told_ms = told[member_id]
        known |= {"held_by_member_id": member_id, "held_by_client_id": client_id, "held_by_host": host}
        known["held_ms"] = at_ms - told_ms
    return Alert(type=kind, at_ms=at_ms, open_ms=at_ms - watched.since_ts_ms, outcome=outcome, **known)
