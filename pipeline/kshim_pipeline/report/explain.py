"""One rebalance explained in sentences. Pure: rows in, lines out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from kshim.explain.facts import BEGINS_MS

Row = Mapping[str, Any]

_WHY: Final = {
    "member_joined": "{who} joined as a new member",
    "leader_rejoined": "the leader, {who}, rejoined: its topics or partitions changed, or the application requested it",
    "metadata_changed": "{who} rejoined with another subscription or other protocols",
    "member_left": "{who} left",
    "admin": "an administrator removed {who}",
    "session_timeout": "{who} sent no heartbeat for its session timeout",
    "rebalance_timeout": "{who} did not join in time",
    "sync_timeout": "{who} did not fetch its assignment in time",
    "static_replaced": "the static member {who} rejoined with a new member id",
    "coordinator_loaded": "the coordinator was reloaded",
    "group_too_large": "the group has more members than group.max.size",
    "append_failed": "the coordinator could not write the assignment",
    "subscription_changed": "{who} subscribes to something else, or asks for another assignor",
    "topics_changed": "topics that it subscribes to were made, deleted or got partitions",
    "expression_resolved": "a regular expression stands for other topics",
    "group_upgraded": "the group went over to the new protocol",
    "group_downgraded": "the group went back to the classic protocol",
    "member_gone": "a member of the previous generation is missing; whether it left or failed is not recorded",
    "member_restarted": "a member was replaced by one with the same client id and host",
    "members_changed": "members joined and others left",
    "cooperative_follow_up": "the previous generation left partitions unassigned for this one",
    "unknown": "of something other than membership: topics changed, the leader requested it, or a member was present only in between",
}
_ENDS: Final = {
    "aborted": "It was not completed: the last member left, or the coordinator was reloaded.",
    "superseded": "It was not completed: the next rebalance began before the assignment was stored.",
    "open": "It is still open.",
    "cut_off": "How it ended is not known: the broker stopped first.",
}


_HALF_HOUR_MS: Final = 1_800_000


def explain_at(
    rebalances: Iterable[Row], incidents: Iterable[Row], migrations: Iterable[Row], at_ms: int | None
) -> list[str]:
    """Sentences on the rebalance of a group at `at_ms` (ms since 1970; None: its last one); none if it has no rebalance.

    All rows are of this group; `incidents` and `migrations` may be of any time.
    """
    rows = list(rebalances)
    row = nearest(rows, max((row["ts_ms"] for row in rows), default=0) if at_ms is None else at_ms)
    if row is None:
        return []
    begin_ms, end_ms = row["ts_ms"], row["ended_ts_ms"] or row["ts_ms"]
    # A log may date the rebalance a millisecond after the departure that began it.
    since_ms = begin_ms - BEGINS_MS
    part_of = [other for other in incidents if other["from_ms"] <= end_ms and other["to_ms"] >= since_ms]
    near = [each for each in migrations if begin_ms - _HALF_HOUR_MS <= each["ts_ms"] <= end_ms + _HALF_HOUR_MS]
    return explain_rebalance(
        row,
        sorted(part_of, key=lambda incident: incident["from_ms"]),
        sorted(near, key=lambda migration: migration["ts_ms"]),
        in_the_hour=sum(abs(other["ts_ms"] - begin_ms) <= _HALF_HOUR_MS for other in rows),
    )


def nearest(rebalances: Iterable[Row], at_ms: int) -> Row | None:
    """The rebalance under way at `at_ms`, else the last one that began before, else the first one after."""
    rows = sorted(rebalances, key=lambda row: row["ts_ms"])
    before = [row for row in rows if row["ts_ms"] <= at_ms]
    if before:
        running = [row for row in before if row["ended_ts_ms"] is None or row["ended_ts_ms"] >= at_ms]
        return (running or before)[-1]
    return rows[0] if rows else None


def explain_rebalance(
    rebalance: Row, incidents: Iterable[Row] = (), migrations: Iterable[Row] = (), *, in_the_hour: int | None = None
) -> list[str]:
    """Sentences on a row of rebalances and the incidents that it belongs to; `in_the_hour`: how many of its group.

    `migrations`: those of its group at about that time.
    """
    lines = [_title(rebalance), _begin(rebalance)]
    if _has_epochs(rebalance):
        lines += [line for line in (_steps(rebalance), _last_to_revoke(rebalance), _gaps(rebalance)) if line]
        lines += [line for line in (_members(rebalance),) if line]
    else:
        lines += [line for line in (_phases(rebalance), _last_to_join(rebalance), _members(rebalance)) if line]
    if rebalance["outcome"] in _ENDS:
        lines.append(_ENDS[rebalance["outcome"]])
    for incident in incidents:
        lines.append(f"Cause, {incident['confidence']:.0%} sure: {incident['sentence']}")
        if incident.get("advice"):
            lines.append(f"Recommendation: {incident['advice']}")
    for migration in migrations:
        way = "to the new protocol" if migration["to_type"] == "consumer" else "back to the classic protocol"
        lines.append(f"The group went over {way} at {_instant(migration['ts_ms'])}.")
    if in_the_hour is not None and in_the_hour > 1:
        lines.append(f"The group rebalanced {in_the_hour} times within half an hour before and after.")
    if rebalance["basis"] == "inferred" and _has_epochs(rebalance):
        lines.append(
            "The reason was inferred from __consumer_offsets, which records the phases, but not why an epoch rises."
        )
    elif rebalance["basis"] == "inferred":
        lines.append(
            "This was inferred from __consumer_offsets, which records neither when a rebalance begins nor why; events or "
            "the broker's log would show it."
        )
    lines.append(f"Evidence: {_place(rebalance['evidence'])}.")
    return lines


def _title(row: Row) -> str:
    what = "the new protocol, epoch" if _has_epochs(row) else "generation"
    generations = f"{what} {_known(row['from_generation'])} to {_known(row['to_generation'])}"
    return f"Group {row['group_id']}, {generations}, {_instant(row['ts_ms'])}, {row['basis']}."


def _begin(row: Row) -> str:
    trigger = row["trigger"]
    why = str(_WHY.get(row["reason"], row["reason"])).format(who=_who(trigger))
    words = f'; the client\'s reason: "{trigger["client_reason"]}"' if trigger and trigger["client_reason"] else ""
    return f"It began because {why}{words}."


def _has_epochs(row: Row) -> bool:
    return bool(row["group_type"] == "consumer")


def _steps(row: Row) -> str:
    """The phases of the new protocol."""
    names = (("computing a target", "compute_ms"), ("revoking", "revoke_ms"), ("assigning", "assign_ms"))
    parts = [f"{name} took {_duration(row[column])}" for name, column in names if row[column] is not None]
    whole = f", {_duration(row['total_ms'])} in all" if row["total_ms"] is not None else ""
    text = f"{', '.join(parts)}{whole}."
    return text[0].upper() + text[1:] if parts else ""


def _last_to_revoke(row: Row) -> str:
    last = row["last_to_revoke"]
    if last is None or last["wait_ms"] is None or last["wait_ms"] < 1:
        return ""
    done = "Last to give up partitions was" if row["outcome"] == "completed" else "Partitions were held longest by"
    return f"{done} {_who(last)}: others waited {_duration(last['wait_ms'])} for it."


def _gaps(row: Row) -> str:
    if not row["unowned_ms"]:
        return ""
    whole = f", {_duration(row['unowned_partition_ms'])} summed over all" if row["unowned_partition_ms"] else ""
    return f"Partitions had no owner for up to {_duration(row['unowned_ms'])}{whole}."


def _phases(row: Row) -> str:
    if row["join_ms"] is None and row["sync_ms"] is None:
        return ""
    parts = [
        f"{name} took {_duration(row[column])}"
        for name, column in (("JOIN", "join_ms"), ("SYNC", "sync_ms"))
        if row[column] is not None
    ]
    whole = f", {_duration(row['total_ms'])} in all" if row["total_ms"] is not None else ""
    stood = f"; {row['partitions']} partitions were stopped" if row["partitions"] else ""
    delay = ""
    if row["initial_delay_ms"]:
        delay = f" group.initial.rebalance.delay.ms accounts for {_duration(row['initial_delay_ms'])} of it."
    return f"{' and '.join(parts)}{whole}{stood}.{delay}"


def _last_to_join(row: Row) -> str:
    last = row["last_to_join"]
    if last is None or last["wait_ms"] is None or last["wait_ms"] < 1:
        return ""
    if last["is_new"]:
        return f"Last to join was {_who(last)}, a new member, {_duration(last['wait_ms'])} after the beginning."
    return f"Last to join was {_who(last)}: other members waited {_duration(last['wait_ms'])} for it."


def _members(row: Row) -> str:
    parts = []
    if row["joined"] is not None:
        parts.append(f"{row['joined']} members are in the new {'epoch' if _has_epochs(row) else 'generation'}")
    if row["came"]:
        parts.append(f"{row['came']} are new")
    if row["went"]:
        parts.append(f"{row['went']} of the previous {'epoch' if _has_epochs(row) else 'generation'} are missing")
    if row["kicked"]:
        parts.append(f"the coordinator removed {row['kicked']}")
    return f"{', '.join(parts)}." if parts else ""


def _who(member: Row | None) -> str:
    if member is None:
        return "an unknown member"
    where = f" on {member['client_host']}" if member["client_host"] else ""
    if member["group_instance_id"]:
        return f"{member['group_instance_id']}{where}"
    name = member["client_id"] or member["member_id"] or "a member"
    return f"{name}{where}" + (f" ({member['member_id']})" if member["client_id"] and member["member_id"] else "")


def _place(evidence: Row | None) -> str:
    if evidence is None:
        return "none"
    partition = "" if evidence["partition"] is None else f"-{evidence['partition']}"
    return f"{evidence['topic']}{partition}, {'offset' if partition else 'line'} {evidence['offset']}"


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)


def _duration(ms: float) -> str:
    if ms < 1_000:
        return f"{ms:.0f} ms"
    return f"{ms / 1_000:.1f} s" if ms < 120_000 else f"{ms / 60_000:.1f} min"


def _instant(ts_ms: int) -> str:
    return datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
